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

# strictest first
_DM: Sequence[Literal["off", "allowlist", "pairing", "open"]]
_DM = ("off", "allowlist", "pairing", "open")
_GROUPS: Sequence[Literal["off", "allowlist", "open"]] = ("off", "allowlist", "open")
NOBODY = frozenset({""})


@dataclass(slots=True)
class Accounts:
    """A platform's own id of an account is known when it has connected; until then several accounts
    share their strictest reading."""

    opened: Sequence[Opened]
    _met: dict[tuple[str, str], Opened] = field(default_factory=dict[tuple[str, str], Opened])

    def meet(self, entry: Opened) -> Callable[[str], None]:
        """Told the platform's id of an entry's account."""
        return lambda account: self._met.update({(entry.manifest.name, account): entry})

    def policy(self, channel: str, account: str) -> Policy:
        """The strictest of the entries that may speak for it."""
        policies: list[Policy] = []
        for entry in self._entries(channel, account):
            written = entry.policy
            policy = Policy(
                dm=written.dm,
                groups=written.groups,
                mention_required=written.mention == "required",
                people=frozenset(written.allow.people),
                chats=frozenset(written.allow.groups),
                bots=written.bots == "answer",
            )
            policies.append(policy)
        return reduce(_stricter, policies) if policies else Policy()

    def activity(self, channel: str, account: str) -> Mode:
        """How much of the tools' work people see; rooms of the house itself show it in their own
        way."""
        entries = self._entries(channel, account)
        return activity_of(entries[0]) if entries else "off"

    def _entries(self, channel: str, account: str) -> list[Opened]:
        met = self._met.get((channel, account))
        if met is not None:
            return [met]
        return [entry for entry in self.opened if entry.manifest.name == channel]


def activity_of(entry: Opened) -> Mode:
    """How much of the tools' work people of this entry see."""
    if entry.policy.activity is not None:
        return entry.policy.activity
    return "off" if entry.manifest.name in OWN_CHANNELS else "live"


def _stricter(first: Policy, second: Policy) -> Policy:
    people = first.people & second.people
    if not people and (first.people or second.people):
        people = NOBODY  # an empty list would mean everybody in a group
    return Policy(
        dm=min(first.dm, second.dm, key=_DM.index),
        groups=min(first.groups, second.groups, key=_GROUPS.index),
        mention_required=first.mention_required or second.mention_required,
        people=people,
        chats=first.chats & second.chats,
        bots=first.bots and second.bots,
    )
