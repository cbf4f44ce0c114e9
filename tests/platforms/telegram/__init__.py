"""A loopback Bot API that keeps Telegram's own rules."""
