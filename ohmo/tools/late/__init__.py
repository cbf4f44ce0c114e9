"""Modules with heavy imports, loaded by name at first need."""
