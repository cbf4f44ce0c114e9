"""What a thread's turn is, from the claim to its end."""

from __future__ import annotations

from dataclasses import field, fields, replace
from datetime import datetime, timedelta
from typing import Literal

from channels.contract import Address
from channels.record import record
from ohmo.contracts.arrivals import Arrival
from ohmo.contracts.causes import Cause
from ohmo.contracts.cron import Report
from ohmo.contracts.messages import Step
from ohmo.contracts.policy import BegunUnder

FREE = timedelta(hours=8)  # how long ``full_auto`` holds that was chosen for one thread
Shelf = Literal["open", "pinned", "archived", "deleted"]
"""Where the owner put a conversation in the list of the page; ``deleted``: nothing that was said in
it is kept."""


@record
class ThreadSettings:
    """What a person chose for one thread; None: the configuration's default."""

    mode: Literal["default", "plan", "full_auto"] | None = None
    model: str | None = None
    free_until: datetime | None = None  # when ``full_auto`` ends
    busy: Literal["queue", "steer", "interrupt", "collect"] | None = None
    workspace: str | None = None
    title: str | None = None
    shelf: Shelf | None = None

    def over(self, older: ThreadSettings) -> ThreadSettings:
        """These choices, and the older ones where nothing was chosen now."""
        chosen = {name: value for name in _CHOICES if (value := getattr(self, name)) is not None}
        return replace(older, **chosen)

    def at(self, now: datetime) -> ThreadSettings:
        """Without a ``full_auto`` whose time is over. One that ends later than any may, because the
        clock was set back, is over too."""
        if self.mode != "full_auto":
            return self
        left = timedelta() if self.free_until is None else self.free_until - now
        return self if timedelta() < left <= FREE else replace(self, mode=None, free_until=None)


_CHOICES = tuple(each.name for each in fields(ThreadSettings))


@record
class Claim:
    """The right to write one thread; every write states its generation."""

    thread: str
    generation: int
    until: float  # monotonic seconds, a second early
    owner: str
    address: Address = field(compare=False)
    session_seq: int = field(default=0, compare=False)  # steps from here on are the present session
    settings: ThreadSettings = field(default=ThreadSettings(), compare=False)


@record
class Work:
    """One turn and what it took from the mailbox, revisions applied."""

    turn: str
    starts: int  # 1 + process deaths that interrupted it
    attempts: int  # exceptions that ended an earlier try
    arrivals: tuple[Arrival, ...]
    resumed: bool
    steps: tuple[tuple[int, Step], ...] = ()  # of a new turn: what was said, with its numbers
    under: BegunUnder | None = None  # None: begun by an ohmo that did not keep it


@record
class End:
    """How a turn ends. ``done``: its first message is answered, the others merged; ``failed``: dead
    letters; ``stopped``: stopped, all with the ``reason``. With a ``report`` the occurrences of its
    wakes end too."""

    state: Literal["done", "failed", "stopped"]
    reason: str = ""
    report: Report | None = None
    cause: Cause | None = None  # None: its state says it all
