"""What the policy says about a call, with the layer and the rule that decided."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Layer = Literal["sensitive", "role", "deny", "ask", "shell", "allow", "grant", "mode"]


@dataclass(frozen=True, slots=True)
class Ruling:
    """``remember``: whether an answer for the session or for always would change anything next time."""

    verdict: Literal["allow", "deny", "ask"]
    layer: Layer
    rule: str = ""
    reason: str = ""
    remember: bool = True

    @property
    def source(self) -> str:
        """The layer and its rule, as people read it."""
        return f"{self.layer}: {self.rule}" if self.rule else self.layer
