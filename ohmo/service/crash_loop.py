"""Counts starts that came to no good end, so that a daemon that dies again and again comes up in
safe mode; and remembers what the owner was told."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, cast

from channels.durable import write_whole

WINDOW = 60.0  # seconds
MOST = 3  # starts within the window after which the next one is a safe one
AGAIN = 6 * 3600.0  # seconds after which the same thing is told again


class CrashLoop:
    """A small file in the home. It never stops a start: what cannot be read counts as nothing, what
    cannot be written is forgotten."""

    def __init__(self, file: Path, now: Callable[[], float] = time.time) -> None:
        self._file = file
        self._now = now

    def begin(self) -> bool:
        """One more start. True: it follows ``MOST`` others within ``WINDOW`` of which none was
        stopped in good order."""
        found = self._read()
        now = self._now()
        recent = [at for at in _numbers(found.get("starts")) if 0 <= now - at < WINDOW]
        self._write({**found, "starts": [*recent[-9:], now]})
        return len(recent) >= MOST

    def ended(self) -> None:
        """Stopped as asked: the count begins anew."""
        found = self._read()
        if found.get("starts"):
            self._write({**found, "starts": []})

    def first_time(self, text: str) -> bool:
        """Whether the owner was not told ``text`` in the last hours, also by earlier processes;
        from now on they were."""
        found = self._read()
        now = self._now()
        name = hashlib.sha256(text.encode()).hexdigest()[:16]
        written = cast("dict[str, object]", found.get("told"))
        told: dict[str, float] = {}
        for key, at in written.items() if isinstance(written, dict) else ():
            if isinstance(at, int | float) and 0 <= now - at < AGAIN:
                told[key] = float(at)
        if name in told:
            return False
        self._write({**found, "told": {**told, name: now}})
        return True

    def _read(self) -> dict[str, Any]:
        try:
            found: object = json.loads(self._file.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return {}
        return cast("dict[str, Any]", found) if isinstance(found, dict) else {}

    def _write(self, found: dict[str, Any]) -> None:
        with suppress(OSError):
            write_whole(self._file, json.dumps(found))


def _numbers(found: object) -> list[float]:
    if not isinstance(found, list):
        return []
    return [float(one) for one in cast("list[object]", found) if isinstance(one, int | float)]
