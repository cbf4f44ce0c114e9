"""Somebody else is connected with our credentials: what counts as a sign of it, and when a channel
stops and leaves them the place.

Only what another ohmo certainly said counts. Each post of ours carries its key (``Channel.send``),
which begins with the moment its row was made; so a post of our own account with a key that was made
after we came, and that we did not send, was said by another house that lives now. A script with our
token sends no such key; a former life, a restored home's or one that was killed, made none after we
came. Telegram tells by itself (409)."""

from __future__ import annotations

import json
import logging
import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from channels.contract import Clock
from channels.errors import InUse
from channels.record import Recent, record

_log = logging.getLogger(__name__)

CONFLICTS = 3  # before a channel stops
# For so long a sign counts, and after a stop one more is enough: a try every five minutes is one
# try.
REMEMBERED = timedelta(hours=1)
SENT = 2_000  # keys of ours
_KEY = re.compile(r"([0-9a-z]{9})[0-9a-z]{13}\.[0-9a-z]{1,2}")
_LATE = timedelta(minutes=1)  # what was on its way when we stopped is shown until then
_FUTURE = timedelta(days=1)  # names that only look like keys stand further off


@dataclass(slots=True)
class _Note:
    """What is remembered of a stop. ``silent``: we have certainly said nothing since; ``back``:
    when the connection came that spoke again."""

    stopped: datetime | None = None
    silent: bool = False
    back: datetime | None = None


@record
class _Sign:
    """Of another one."""

    about: str
    at: datetime
    lost: bool  # our answer came second


class CompetingInstance:
    """Of one connection. ``folder``: the channel's private one, where a stop is remembered; None:
    it is not. ``began``: the house, whose connections come and go; None: with this one."""

    def __init__(self, folder: Path | None, clock: Clock, began: datetime | None = None) -> None:
        self._clock = clock
        self._file = folder / "conflict.json" if folder is not None else None
        self._sent = Recent[str, None](SENT)
        self._signs: list[_Sign] = []
        self._came = clock()
        self._note = self._read()
        # A lost connection costs no place. One that left its place to another begins anew.
        self._since = min(began or self._came, self._came)
        stopped = self._note.stopped
        if self.rested is not None or (stopped is not None and stopped >= self._since):
            self._since = max(self._since, self._note.back or self._came)

    @property
    def since(self) -> int:
        """Since when we have this place, in ms: of two the younger one leaves."""
        return round(self._since.timestamp() * 1000)

    @property
    def rested(self) -> datetime | None:
        """When we stopped for somebody, unless that is long ago."""
        stopped = self._note.stopped
        if stopped is None or not timedelta(0) <= self._clock() - stopped < REMEMBERED:
            return None
        return stopped

    def silent_at(self, moment: datetime) -> bool:
        """Whether we rested then and have said nothing since, so that whatever our account said is
        not ours."""
        rested = self.rested
        return self._note.silent and rested is not None and moment > rested + _LATE

    def send(self, key: str) -> None:
        """Said before the call, so that no echo is faster."""
        self._sent[key] = None
        if self._note.stopped is not None and self._note.back is None:
            self._note.silent = False
            self._note.back = self._came
            self._write(self._note)

    def sent(self, key: object) -> bool:
        return key in self._sent

    def said(self, key: object, at: datetime) -> bool:
        """Whether a post of our account was said by another ohmo while we were here, or while we
        rested. ``at``: the platform's time of it."""
        match = _KEY.fullmatch(key) if isinstance(key, str) else None
        if match is None or self.sent(key):
            return False
        after = self.rested if self._note.silent else None
        if after is None:
            after = self._came
        latest = self._clock() + _FUTURE
        made = int(match[1], 36)  # ms
        is_new = after.timestamp() * 1000 < made < latest.timestamp() * 1000
        return at > after and is_new

    def conflict(
        self,
        what: str,
        about: str = "",
        *,
        sure: bool = True,
        lost: bool = True,
        enough: int = CONFLICTS,
        again: int = 1,
    ) -> None:
        """``what`` happened; ``about``: what several signs of one conflict have in common. Raises
        InUse when it is ``enough``: so many signs within an hour, or, after a stop, ``again``;
        where they may be ``lost`` or not, when most of them were. ``sure``: another ohmo said so; a
        script with our token may have, and must not hold a channel for ever: the next try listens
        for itself."""
        now = self._clock()
        stopped = self.rested
        self._signs = [sign for sign in self._signs if now - sign.at < REMEMBERED]
        if about and any(about == sign.about for sign in self._signs):
            return
        enough = enough if stopped is None else again
        self._signs.append(_Sign(about, now, lost))
        del self._signs[:-enough]
        count = len(self._signs)
        losses = sum(sign.lost for sign in self._signs)
        if count < enough or 2 * losses <= enough:
            _log.warning("%s (%d of %d times)", what, count, enough)
            return
        times = "still" if stopped is not None else f"{enough} times in a row"
        self._write(_Note(now, silent=sure))
        raise InUse(f"{what} ({times}): stop the other one, or take a token of your own")

    def calm(self) -> None:
        """It was not in a row: the platform shows that nobody else is there."""
        self._signs.clear()

    def _read(self) -> _Note:
        if self._file is None:
            return _Note()
        try:
            note = json.loads(self._file.read_text(encoding="utf-8"))
            back = note.get("back")
            return _Note(
                _moment(note["stopped"]),
                note["silent"] is True,
                _moment(back) if back is not None else None,
            )
        except (OSError, ValueError, TypeError, KeyError, AttributeError, OverflowError):
            return _Note()

    def _write(self, note: _Note) -> None:
        """A full disk costs two more tries."""
        if self._file is None or note.stopped is None:
            return
        value = {
            "stopped": note.stopped.timestamp(),
            "silent": note.silent,
            "back": note.back.timestamp() if note.back is not None else None,
        }
        try:
            self._file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._file.write_text(json.dumps(value), encoding="utf-8")
        except OSError as error:
            _log.warning("%s cannot be written: %s", self._file, error.strerror)


def _moment(seconds: object) -> datetime:
    return datetime.fromtimestamp(float(seconds), UTC)  # pyright: ignore[reportArgumentType]
