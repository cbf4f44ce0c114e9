"""What the chain says beside the model's own words; both are empty deltas to whoever does not know them."""

from __future__ import annotations

from dataclasses import dataclass

from ohmo.contracts.provider import Delta


@dataclass(frozen=True, slots=True)
class Notice(Delta):
    """A line for the person who waits: overloaded, trying again, another model is asked."""

    text: str = ""
    line: str = ""


@dataclass(frozen=True, slots=True)
class Restarted(Delta):
    """The answer begins anew: every delta so far is void and a draft is to be replaced."""

    text: str = ""
