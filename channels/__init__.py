"""Chat platforms, each spoken through its own SDK; imports nothing of ohmo."""
