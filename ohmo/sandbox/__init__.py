"""Walls around commands: what can happen, whatever was allowed. One file for each backend."""
