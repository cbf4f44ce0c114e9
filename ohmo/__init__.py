"""ohmo: a personal agent that is always on and never loses a message."""
