"""From a deployment request and a service definition to a complete spec. Pure: no database, no files but those read."""
