"""The long life of the house, and the short one for a single command."""

from __future__ import annotations

from ohmo.daemon.errand import one_shot
from ohmo.daemon.serving import Order, serve

__all__ = ["Order", "one_shot", "serve"]
