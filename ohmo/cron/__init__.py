"""The clock: when a job is due, and that it runs once."""
