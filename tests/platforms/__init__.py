"""Loopback platforms that keep the rules of the real ones."""
