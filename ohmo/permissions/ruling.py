"""What the policy says about a call, with the layer and the rule that decided."""

from __future__ import annotations

from typing import Literal

from channels.record import record
from ohmo.contracts.tool import CallContext

Layer = Literal["sensitive", "role", "deny", "ask", "protected", "shell", "allow", "grant", "mode"]


@record
class Ruling:
    """``remember``: whether an answer for the session or for always would change anything next
    time. ``suggests``: the rule that such an answer stores; "" for the one that covers the call
    itself."""

    verdict: Literal["allow", "deny", "ask"]
    layer: Layer
    rule: str = ""
    reason: str = ""
    remember: bool = True
    suggests: str = ""

    @property
    def source(self) -> str:
        """The layer and its rule, as people read it."""
        return f"{self.layer}: {self.rule}" if self.rule else self.layer


def by_mode(context: CallContext, what: str = "it may change something") -> Ruling:
    """The last layer, for a call that is not known to be harmless and about which nothing else
    spoke."""
    if context.mode == "plan":
        reason = (
            f"plan mode: {what}. Only read, search and think, then show the plan; the person leaves"
            " plan mode with /mode default"
        )
        return Ruling("deny", "mode", "plan", reason, remember=False)
    if context.mode == "full_auto" and context.role in ("owner", "admin"):
        return Ruling("allow", "mode", "full_auto")
    return Ruling("ask", "mode", context.mode, what or "it may change something")
