"""Drivers of the store (one SQLite file, PostgreSQL) and the store over either of them."""
