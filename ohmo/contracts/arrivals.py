"""What can wake the agent: the platform's arrivals, and our own."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Literal

from channels.contract import Address
from channels.contract import Arrival as FromPlatform
from channels.record import record
from ohmo.contracts.messages import Json


@record
class Occurrence:
    """One slot of a job, claimed together with its wake. ``revision`` and ``following``: the job as
    the scheduler saw it and the slot after this one; a job that was edited, paused, removed or
    claimed by another instance meanwhile makes the wake a duplicate. Revision 0: not fenced.
    ``fresh``: the run begins a new session of its thread."""

    job: str
    due: datetime
    revision: int = 0
    following: datetime | None = None
    by: Literal["schedule", "catch_up", "hand"] = "schedule"
    fresh: bool = False


@record
class Terms:
    """Under what a turn runs that nobody sits in front of, frozen when it was claimed.

    ``rules`` were shown and approved with the job; ``secrets`` are pairs of variable and reference,
    never values; ``deadline``: seconds after the wake until which it may start and ask;
    ``standing``: as whom it acts, None: as ``Wake.person``. ``to``: where its report goes, as
    written; ``place``: the same, when it was known already."""

    name: str
    rules: tuple[str, ...] = ()
    secrets: tuple[tuple[str, str], ...] = ()
    deadline: float | None = None
    when: Literal["always", "changed", "wrong"] = "always"
    standing: Literal["guest", "user", "admin", "owner"] | None = None
    to: str | None = None
    place: Address | None = None


@record
class Again:
    """A call that nobody allowed in time, and that ``by`` allowed afterwards: exactly this one
    (``digest``), once. ``standing``: as whom it acts. ``name`` "": no call, but an old message that
    is wanted after all."""

    name: str
    arguments: Mapping[str, Json]
    digest: str
    by: str
    standing: Literal["guest", "user", "admin", "owner"]


@record
class Wake:
    key: str  # stable: job@slot, child id, Idempotency-Key
    origin: Literal["cron", "child", "hook", "owner", "api", "again"]
    place: Address  # the thread whose mind runs (channel "house" for a job without a thread)
    deliver: Address | None  # where the answer goes; None: nowhere unless the agent posts
    # on whose authority: "owner", or CHANNEL:PERSON; with ``again`` the person's id in ``place``
    person: str
    prompt: str
    at: datetime
    occurrence: Occurrence | None = None  # stored with the wake in one transaction
    terms: Terms | None = None
    account: str = ""  # of ``person``, when it is CHANNEL:PERSON
    # whose mind of the place, where everybody has one of their own (``sessions.scope: per_person``)
    mind: str = ""
    again: Again | None = None  # runs first; then the model is asked


Arrival = FromPlatform | Wake
