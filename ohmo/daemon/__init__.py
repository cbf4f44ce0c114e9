"""The daemon: run until it is stopped, or for one command."""

from __future__ import annotations

from ohmo.daemon.serving import Order, serve
from ohmo.daemon.startup import one_shot

__all__ = ["Order", "one_shot", "serve"]
