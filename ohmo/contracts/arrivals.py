"""What can wake the agent: the platform's arrivals, and our own."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from channels.contract import Address
from channels.contract import Arrival as FromPlatform


@dataclass(frozen=True, slots=True)
class Occurrence:
    job: str
    due: datetime


@dataclass(frozen=True, slots=True)
class Wake:
    key: str  # stable: job@slot, child id, Idempotency-Key
    origin: Literal["cron", "child", "hook", "owner", "api"]
    place: Address  # the thread whose mind runs (channel "house" for a job without a thread)
    deliver: Address | None  # where the answer goes; None: nowhere unless the agent posts
    person: str  # on whose authority
    prompt: str
    at: datetime
    occurrence: Occurrence | None = None  # stored with the wake in one transaction


Arrival = FromPlatform | Wake
