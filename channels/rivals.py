"""Somebody else is connected with our credentials: what counts as a sign of it, and when a channel stops and leaves them the place.

Only what another ohmo certainly said counts. Each post of ours carries its key (``Channel.send``), which begins with the moment its row was made; so a
post of our own account with a key that was made after we came, and that we did not send, was said by another house that lives now. A script with our
token sends no such key; a former life, a restored home's or one that was killed, made none after we came. Telegram
tells by itself (409), and may still count a former life that was killed: within an hour of a stop that costs one rest."""

from __future__ import annotations

import json
import logging
import re
from collections import OrderedDict
from datetime import UTC, datetime, timedelta
from pathlib import Path

from channels.contract import Clock
from channels.errors import InUse

_log = logging.getLogger(__name__)

CONFLICTS = 3  # before a channel stops
REMEMBERED = timedelta(hours=1)  # for so long after a stop one more conflict is enough: a try every five minutes is one try
SENT = 2_000  # keys of ours
_KEY = re.compile(r"([0-9a-z]{9})[0-9a-z]{13}\.[0-9a-z]{1,2}")
_LATE = timedelta(minutes=1)  # what was on its way when we stopped is shown until then
_FUTURE = timedelta(days=1)  # names that only look like keys stand further off


class Rivals:
    """Of one connection. ``folder``: the channel's private one, where a stop is remembered; None: it is not."""

    def __init__(self, folder: Path | None, clock: Clock) -> None:
        self._clock = clock
        self._file = folder / "conflict.json" if folder is not None else None
        self._sent: OrderedDict[str, None] = OrderedDict()
        self._rows: set[str] = set()
        self._count = 0
        self._came = clock()
        self._stopped, self._silent = self._read()

    @property
    def since(self) -> int:
        """When this connection began, in ms: of two the younger one leaves."""
        return round(self._came.timestamp() * 1000)

    @property
    def rested(self) -> datetime | None:
        """When we stopped for somebody, unless that is long ago."""
        return self._stopped if self._stopped is not None and timedelta(0) <= self._clock() - self._stopped < REMEMBERED else None

    def silent_at(self, moment: datetime) -> bool:
        """Whether we rested then and have said nothing since, so that whatever our account said is not ours."""
        return self._silent and self.rested is not None and moment > self.rested + _LATE

    def send(self, key: str) -> None:
        """Said before the call, so that no echo is faster."""
        self._sent[key] = None
        while len(self._sent) > SENT:
            self._sent.popitem(last=False)
        if self._silent and self._stopped is not None:
            self._silent = False
            self._write(self._stopped, silent=False)

    def sent(self, key: object) -> bool:
        return key in self._sent

    def said(self, key: object, at: datetime) -> bool:
        """Whether a post of our account was said by another ohmo while we were here, or while we rested. ``at``: the platform's time of it."""
        found = _KEY.fullmatch(key) if isinstance(key, str) else None
        if found is None or self.sent(key):
            return False
        after, now = (self.rested if self._silent else None) or self._came, self._clock()
        return at > after and after.timestamp() * 1000 < int(found.group(1), 36) < (now + _FUTURE).timestamp() * 1000

    def conflict(self, what: str, about: str = "", *, sure: bool = True) -> None:
        """``what`` happened; ``about``: what several signs of one conflict have in common. Raises InUse when it is enough.
        ``sure``: another ohmo said so; a script with our token may have, and must not hold a channel for ever: the next try listens for itself."""
        if about and about in self._rows:
            return
        self._rows.add(about)
        self._count += 1
        if self.rested is None and self._count < CONFLICTS:
            _log.warning("%s (%d of %d times)", what, self._count, CONFLICTS)
            return
        times = "still" if self.rested is not None else f"{CONFLICTS} times in a row"
        self._write(self._clock(), silent=sure)
        raise InUse(f"{what} ({times}): stop the other one, or take a token of your own")

    def calm(self) -> None:
        """It was not in a row."""
        self._count = 0
        self._rows.clear()

    def _read(self) -> tuple[datetime | None, bool]:
        """When we stopped, and whether nothing was said since."""
        if self._file is None:
            return None, False
        try:
            note = json.loads(self._file.read_text(encoding="utf-8"))
            return datetime.fromtimestamp(float(note["stopped"]), UTC), note["silent"] is True
        except (OSError, ValueError, TypeError, KeyError, OverflowError):
            return None, False

    def _write(self, stopped: datetime, *, silent: bool) -> None:
        """A full disk costs two more tries."""
        if self._file is None:
            return
        try:
            self._file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._file.write_text(json.dumps({"stopped": stopped.timestamp(), "silent": silent}), encoding="utf-8")
        except OSError as error:
            _log.warning("%s cannot be written: %s", self._file, error.strerror)
