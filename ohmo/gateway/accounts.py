"""Which entry of the configuration speaks for an account of a platform, as soon as the account is
known."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
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
        known = self._met.get((channel, account))
        found = [_policy(one) for one in ([known] if known is not None else self._named(channel))]
        if not found:
            return Policy()
        strictest = found[0]
        for other in found[1:]:
            strictest = _stricter(strictest, other)
        return strictest

    def activity(self, channel: str, account: str) -> Mode:
        """How much of the tools' work people see; rooms of the house itself show it in their own
        way."""
        known = self._met.get((channel, account))
        found: list[Mode] = [
            activity_of(one) for one in ([known] if known is not None else self._named(channel))
        ]
        return found[0] if found else "off"

    def _named(self, channel: str) -> list[Opened]:
        return [one for one in self.opened if one.manifest.name == channel]


def activity_of(one: Opened) -> Mode:
    if one.policy.activity is not None:
        return one.policy.activity
    return "off" if one.manifest.name in OWN_CHANNELS else "live"


def _policy(one: Opened) -> Policy:
    written = one.policy
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
