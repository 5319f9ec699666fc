"""What makes a backfill wait: signals of the server, one file each, and the monitor that reads them."""
