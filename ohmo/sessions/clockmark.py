"""Where the wall clock stood, kept in a file, so that a clock that was set while nobody ran is
noticed afterwards."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import structlog

from channels.record import record

log = structlog.get_logger("ohmo.clock")


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
            found = json.loads(self._path.read_text(encoding="utf-8"))
            if not self._boot or found["boot"] != self._boot:
                return None
            return Mark(
                _moment(found["zero"]), timedelta(seconds=found["ahead"]), _moment(found["until"])
            )
        except (OSError, ValueError, TypeError, KeyError, OverflowError):
            return None

    def take(self) -> Mark | None:
        """It is not there any more, until it is written again: a mark that does not fit what is
        stored is worse than none."""
        found, self._written = self.read(), None
        try:
            self._path.unlink(missing_ok=True)
        except OSError as error:
            self._complain(error)
        return found

    def write(self, mark: Mark) -> None:
        """Once for each state of the clock; a file that cannot be written costs only what it is
        for, and is tried again with the next call."""
        if not self._boot or mark == self._written:
            return
        told = {
            "boot": self._boot,
            "zero": mark.zero.timestamp(),
            "ahead": mark.ahead.total_seconds(),
            "until": mark.until.timestamp(),
        }
        fresh = self._path.with_suffix(".new")
        # not synced: a loss of power starts the machine anew, and of another start it says nothing
        try:
            fresh.write_text(json.dumps(told), encoding="utf-8")
            fresh.replace(self._path)
        except OSError as error:
            self._complain(error)
        else:
            self._written, self._complained = mark, False

    def _complain(self, error: OSError) -> None:
        if not self._complained:
            log.warning("clock_mark_not_written", error=str(error))
        self._complained = True


def _moment(seconds: float) -> datetime:
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=seconds)
