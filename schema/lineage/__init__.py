"""One history: revision files read as a graph, without a database, Alembic, or running any of them."""
