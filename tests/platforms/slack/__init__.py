"""Loopback Slack for tests."""
