"""The daemon: run until it is stopped, or for one command."""

from __future__ import annotations

from ohmo.daemon.one_shot import one_shot
from ohmo.daemon.serving import Order, serve

__all__ = ["Order", "one_shot", "serve"]
