"""ohmo: a personal agent that is always on and never loses a message."""

__version__ = "0.1.0"
