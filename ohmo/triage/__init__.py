"""Failures of continuous integration, joined by cause and compared with the runs before; no model,
no clock, no network."""
