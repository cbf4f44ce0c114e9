"""Which entry of the configuration speaks for an account of a platform, as soon as the account is
known."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import reduce
from typing import Literal

from ohmo.config.channels import Opened
from ohmo.contracts.outbox import OWN_CHANNELS
from ohmo.gateway.access import Policy
from ohmo.gateway.draft_updates import Mode

_DM: tuple[Literal["off", "allowlist", "pairing", "open"], ...] = (
    "off",
    "allowlist",
    "pairing",
    "open",
)  # strictest first
_GROUPS: tuple[Literal["off", "allowlist", "open"], ...] = ("off", "allowlist", "open")
NOBODY = frozenset({""})


@dataclass(slots=True)
class Accounts:
    """A platform's own id of an account is known when it has connected; until then several accounts
    share their strictest reading."""

    opened: Sequence[Opened]
    _met: dict[tuple[str, str], Opened] = field(default_factory=dict[tuple[str, str], Opened])

    def meet(self, one: Opened) -> Callable[[str], None]:
        """Told the platform's id of an entry's account."""
        return lambda account: self._met.update({(one.manifest.name, account): one})

    def policy(self, channel: str, account: str) -> Policy:
        """The strictest of the entries that may speak for it."""
        policies = [_policy(entry) for entry in self._entries(channel, account)]
        return reduce(_stricter, policies) if policies else Policy()

    def activity(self, channel: str, account: str) -> Mode:
        """How much of the tools' work people see; rooms of the house itself show it in their own
        way."""
        entries = self._entries(channel, account)
        return activity_of(entries[0]) if entries else "off"

    def _entries(self, channel: str, account: str) -> list[Opened]:
        known = self._met.get((channel, account))
        if known is not None:
            return [known]
        return [entry for entry in self.opened if entry.manifest.name == channel]


def activity_of(entry: Opened) -> Mode:
    """How much of the tools' work people of this entry see."""
    if entry.policy.activity is not None:
        return entry.policy.activity
    return "off" if entry.manifest.name in OWN_CHANNELS else "live"


def _policy(entry: Opened) -> Policy:
    written = entry.policy
    return Policy(
        written.dm,
        written.groups,
        written.mention == "required",
        frozenset(written.allow.people),
        frozenset(written.allow.groups),
        written.bots == "answer",
    )


def _stricter(one: Policy, other: Policy) -> Policy:
    people = one.people & other.people
    if not people and (one.people or other.people):
        people = NOBODY  # an empty list would mean everybody in a group
    return Policy(
        dm=_DM[min(_DM.index(one.dm), _DM.index(other.dm))],
        groups=_GROUPS[min(_GROUPS.index(one.groups), _GROUPS.index(other.groups))],
        mention_required=one.mention_required or other.mention_required,
        people=people,
        chats=one.chats & other.chats,
        bots=one.bots and other.bots,
    )
