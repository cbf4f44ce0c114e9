"""What ``ohmo status --json``, ``/readyz`` and the dashboard say of each part of the house, and how
the owner is told of what went wrong."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from typing import Literal, Protocol

from channels.contract import Address
from channels.record import record
from ohmo.contracts.reports import Counts

ChannelState = Literal[
    "starting", "connected", "reconnecting", "auth_failed", "conflict", "standby", "failed", "off"
]


@record
class ChannelStatus:
    """``connected`` is true health: an event or heartbeat within the platform's interval and an
    authenticated call that succeeded in the last ten minutes (``last_call``). ``detail``: one line,
    why not and what to do. ``waiting``: messages without an answer, the oldest since
    ``oldest_waiting``; ``outgoing`` posts are on their way, ``dead``: what could not be answered or
    delivered. Accounts of a platform share these."""

    state: ChannelState
    last_event: datetime | None
    last_delivery: datetime | None
    detail: str
    last_call: datetime | None = None
    waiting: int = 0
    oldest_waiting: datetime | None = None
    outgoing: int = 0
    dead: int = 0


def with_queues(channels: Mapping[str, ChannelStatus], counts: Counts) -> dict[str, ChannelStatus]:
    """By label (``slack``, ``slack/work``), each with what waits for it."""

    def of(rows: Mapping[tuple[str, str], int], name: str, *states: str) -> int:
        return sum(rows.get((name, state), 0) for state in states)

    channels_with_queues: dict[str, ChannelStatus] = {}
    for label, channel in channels.items():
        name = label.partition("/")[0]
        channels_with_queues[label] = replace(
            channel,
            waiting=of(counts.inbox, name, "waiting", "taken"),
            oldest_waiting=counts.oldest.get(name),
            outgoing=of(counts.outbox, name, "ready", "sending"),
            dead=of(counts.inbox, name, "dead") + of(counts.outbox, name, "dead"),
        )
    return channels_with_queues


@record
class HouseStatus:
    """``ready``: store open, sessions claiming, control answering; channels have their own state.
    ``asking``: people whose code waits for the owner."""

    ready: bool
    version: str
    started: datetime
    provider: str
    model: str
    channels: Mapping[str, ChannelStatus]
    inbox: Mapping[str, int]
    outbox: Mapping[str, int]
    oldest_waiting: datetime | None
    turns_running: int
    turns_parked: int
    cron: Mapping[str, int | float | str | None]  # lag_seconds, next
    #: "day": usd (None: not known) and tokens spent, unpriced calls, limits or None
    budget: Mapping[str, Mapping[str, int | float | None]]
    warnings: tuple[str, ...] = ()
    asking: int = 0
    mode: str = "default"  # of a conversation that chose none
    models: tuple[str, ...] = ()  # small to large


class OwnerNotices(Protocol):
    """``ohmo.gateway.notices`` carries it out."""

    async def tell(self, incident: str, text: str) -> bool:
        """``incident`` names it, so that it is told once. False: told before, or nobody can be
        told."""
        ...

    def over(self, incident: str) -> None:
        """The incident has ended; the next one of this name is told at once."""
        ...

    def owner_place(self) -> Address:
        """Where the owner reads now."""
        ...
