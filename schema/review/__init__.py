"""What each revision does to a database, observed on a scratch server, and what a DBA must know of it."""
