"""The home and workspace that the tests of permissions judge in."""

from __future__ import annotations

from tests.unit.permissions.conftest import house

__all__ = ["house"]
