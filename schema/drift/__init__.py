"""Models, history and the live database, compared: nothing is parsed, PostgreSQL's own text is judged by PostgreSQL."""
