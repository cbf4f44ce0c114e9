"""Notices that somebody has set the clock, and moves along what waits for a time before the house
believes the new one."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import structlog

from channels.contract import Clock
from channels.errors import Unavailable
from channels.record import record

log = structlog.get_logger("ohmo.clock")
JUMP = timedelta(minutes=5)  # that a clock may drift or be corrected by
LOOK = 5.0  # seconds between two looks
_NONE = timedelta()
_NEVER = datetime(1, 1, 1, tzinfo=UTC)


def _wall() -> datetime:
    return datetime.now(UTC)


def _elapsed() -> float:
    """Seconds that really went by, those in which the machine slept too: clock_gettime(2),
    CLOCK_BOOTTIME on Linux."""
    if hasattr(time, "CLOCK_BOOTTIME"):
        return time.clock_gettime(time.CLOCK_BOOTTIME)
    return time.monotonic()


class HeldClock:
    """The wall clock as the house sees it. Set by more than JUMP (or after a sleep of the machine)
    it goes on from where it was until ``follow`` is called, so that nothing that waits looks
    overdue meanwhile. ``steady``, ``elapsed``: seconds of clocks that nobody sets; the second one
    counts while the machine sleeps, too."""

    def __init__(
        self,
        wall: Clock = _wall,
        *,
        steady: Callable[[], float] = time.monotonic,
        elapsed: Callable[[], float] | None = None,
    ) -> None:
        self._wall = wall
        self._steady = steady
        self._elapsed = elapsed or (_elapsed if steady is time.monotonic else steady)
        self._ahead = _NONE
        self._until = _NEVER
        self._base = self._seen = self._offset()
        self._slept = self._elapsed() - steady()

    def __call__(self) -> datetime:
        wall = self._wall()
        steady = timedelta(seconds=self._steady())
        if abs(wall - steady - self._base) > JUMP:
            return self._seen + steady
        self._seen = wall - steady
        return wall

    def jump(self) -> timedelta:
        """By how much the clock stands elsewhere than the house believes; zero: it was not set."""
        by = self._offset() - self._base
        return by if abs(by) > JUMP else _NONE

    def follow(self, by: timedelta) -> None:
        """From now on the house believes the clock, which was set by so much."""
        slept = self._elapsed() - self._steady()
        really = by - timedelta(seconds=slept - self._slept)  # what the machine slept did go by
        if really > JUMP:
            self._ahead += really
            self._until = self()
        elif really < -JUMP:
            self._ahead = max(_NONE, self._ahead + really)
        self._base += by
        self._seen = self._base
        self._slept = slept

    def set_since(self, at: datetime) -> timedelta:
        """By how much the clock was set forward after it showed ``at``: so much less time than it
        seems went by. Sleep of the machine is no setting."""
        return self._ahead if at <= self._until else _NONE

    def before(self, span: timedelta) -> datetime:
        """What happened before this moment happened longer ago than ``span``; hours by which
        somebody set the clock forward did not go by."""
        now = self()
        limit = now - min(span, now - _NEVER - self._ahead)
        earlier = limit - self._ahead
        return earlier if earlier <= self._until else limit

    def mark(self) -> Mark:
        """What ``recall`` needs after a restart."""
        return Mark(self._base - timedelta(seconds=self._slept), self._ahead, self._until)

    def recall(self, mark: Mark) -> None:
        """The house goes on with the time it believed in before it was restarted. A clock that was
        set meanwhile is not believed before ``follow``."""
        self._ahead = mark.ahead
        self._until = mark.until
        believed = mark.zero + timedelta(seconds=self._slept)
        if abs(believed - self._base) > JUMP:
            self._base = self._seen = believed

    def _offset(self) -> datetime:
        """What the wall clock showed when the steady one stood at zero."""
        return self._wall() - timedelta(seconds=self._steady())


class Clockwatch:
    """``rebase`` moves the store's times by seconds (None: by what the newest row tells) and
    returns by how many. ``followed``: the clock is another one now. ``marks`` remembers over
    restarts which time was believed."""

    def __init__(
        self,
        clock: HeldClock,
        rebase: Callable[[float | None], Awaitable[float]],
        *,
        followed: Callable[[], None] = lambda: None,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        marks: MarkFile | None = None,
    ) -> None:
        self._clock = clock
        self._rebase = rebase
        self._followed = followed
        self._sleep = sleep
        self._marks = marks
        self._owed = _NONE
        self._known = marks.read() if marks is not None else None
        if self._known is not None:
            clock.recall(self._known)

    async def run(self) -> None:
        """Until cancelled. A clock that was set while nobody ran is noticed by the mark; after
        another start of the machine, when it was set back, by the newest row."""
        while self._known is None and not await self._move(None):
            await self._sleep(LOOK)
        while True:
            await self.look()
            await self._sleep(LOOK)

    async def look(self) -> None:
        """Once. Set forward, the rows go first; set back, the clock: in between everything waits a
        little longer, never shorter. A store that is away is asked again at the next look."""
        by = self._clock.jump()
        if by < _NONE:
            self._clock.follow(by)
            self._owed += by
        owed = self._owed or by
        if owed:
            # Whoever dies in the middle, when nobody knows whether the rows went, leaves no mark:
            # by an old one they would go once more.
            mark = self._marks.take() if self._marks is not None else None
            if not await self._move(owed.total_seconds()):
                if self._marks is not None and mark is not None:
                    self._marks.write(mark)
                return
        self._owed = _NONE
        if by > _NONE and owed == by:
            self._clock.follow(by)
        if self._marks is not None:
            self._marks.write(self._clock.mark())
        if owed:
            self._followed()

    async def _move(self, seconds: float | None) -> bool:
        try:
            moved = await self._rebase(seconds)
        except Unavailable as error:
            log.error("store_unavailable", doing="rebase", error=str(error))
            return False
        if moved:
            log.warning("clock_was_set", seconds=round(moved, 1))
        return True


@record
class Mark:
    """``zero``: what the wall clock would have shown when the machine started. ``ahead``: by how
    much it was set forward since, the last time when it showed ``until``."""

    zero: datetime
    ahead: timedelta
    until: datetime


def boot_id() -> str:
    """Names this start of the machine, random(4); "" where the system does not tell, which is
    everywhere but on Linux."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        return ""


class MarkFile:
    """``boot``: the clock that counts from the machine's start says nothing about another start."""

    def __init__(self, path: Path, boot: str) -> None:
        self._path = path
        self._boot = boot
        self._written: Mark | None = None
        self._complained = False

    def read(self) -> Mark | None:
        """None: nothing is known of this start of the machine."""
        try:
            fields = json.loads(self._path.read_text(encoding="utf-8"))
            if not self._boot or fields["boot"] != self._boot:
                return None
            ahead = timedelta(seconds=fields["ahead"])
            return Mark(_moment(fields["zero"]), ahead, _moment(fields["until"]))
        except (OSError, ValueError, TypeError, KeyError, OverflowError):
            return None

    def take(self) -> Mark | None:
        """It is not there any more, until it is written again: a mark that does not fit what is
        stored is worse than none."""
        mark = self.read()
        self._written = None
        try:
            self._path.unlink(missing_ok=True)
        except OSError as error:
            self._complain(error)
        return mark

    def write(self, mark: Mark) -> None:
        """Once for each state of the clock; a file that cannot be written costs only what it is
        for, and is tried again with the next call."""
        if not self._boot or mark == self._written:
            return
        fields = {
            "boot": self._boot,
            "zero": mark.zero.timestamp(),
            "ahead": mark.ahead.total_seconds(),
            "until": mark.until.timestamp(),
        }
        fresh = self._path.with_suffix(".new")
        # not synced: a loss of power starts the machine anew, and of another start it says nothing
        try:
            fresh.write_text(json.dumps(fields), encoding="utf-8")
            fresh.replace(self._path)
        except OSError as error:
            self._complain(error)
        else:
            self._written = mark
            self._complained = False

    def _complain(self, error: OSError) -> None:
        if not self._complained:
            log.warning("clock_mark_not_written", error=str(error))
        self._complained = True


def _moment(seconds: float) -> datetime:
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=seconds)
