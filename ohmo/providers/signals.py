"""What the chain says beside the model's own words."""

from __future__ import annotations

from ohmo.contracts.provider import Notice, Restarted

__all__ = ["Notice", "Restarted"]
