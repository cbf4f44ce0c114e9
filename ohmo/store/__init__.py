"""The durable store: SQLite by default, PostgreSQL where one machine is outgrown, and a model in
memory for tests."""
