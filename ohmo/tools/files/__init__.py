"""Reading and writing text files without losing bytes."""
