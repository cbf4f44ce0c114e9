"""Loopback Feishu for tests."""
