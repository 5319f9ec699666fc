"""Everything about talking to a PostgreSQL server, and about having one."""
