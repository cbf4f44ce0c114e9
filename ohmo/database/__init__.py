"""Where the store's operations run: in one SQLite file, or on a PostgreSQL server."""
