"""Loopback Discord for tests."""
