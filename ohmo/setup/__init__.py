"""Furnishes a home: configuration, pages, platforms, and what another program already knows."""
