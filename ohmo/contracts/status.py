"""One true answer per part of the house: what ``ohmo status --json``, ``/readyz`` and the dashboard say."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Literal

from channels.record import record

ChannelState = Literal["starting", "connected", "reconnecting", "auth_failed", "conflict", "standby", "failed", "off"]


@record
class ChannelStatus:
    """``connected`` is true health: an event or heartbeat within the platform's interval and an authenticated call that succeeded in the last
    ten minutes (``last_call``). ``detail``: one line, why not and what to do."""

    state: ChannelState
    last_event: datetime | None
    last_delivery: datetime | None
    detail: str
    last_call: datetime | None = None


@record
class HouseStatus:
    """``ready``: store open, sessions claiming, control answering; channels have their own state."""

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
    budget: Mapping[str, Mapping[str, int | float | None]]  # "day": usd and tokens spent, usd_limit and tokens_limit or None
    warnings: tuple[str, ...] = ()
