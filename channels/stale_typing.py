"""What a channel began and has to end: written down, so that the next life ends what a killed one
left."""

from __future__ import annotations

import asyncio
import json
import logging
import threading
from collections.abc import Callable
from pathlib import Path
from typing import cast

_log = logging.getLogger(__name__)


class OpenIndicators:
    """Each is a word of the channel's own. ``folder``: the channel's private one, None: nothing is
    remembered. ``file``: its name there. ``write`` puts what is on into the file, in a thread;
    raises OSError."""

    def __init__(
        self,
        folder: Path | None,
        file: str = "lights.json",
        write: Callable[[Path, list[str]], None] | None = None,
    ) -> None:
        self._file = folder / file if folder is not None else None
        self._write_to = write or _written
        self._on: set[str] = set()
        self._writing = asyncio.Lock()
        # A cancelled write goes on in its thread, and lets go of the other lock.
        self._in_file = threading.Lock()
        self._asked = 0
        self._stored = 0
        self._left = self._read()

    def __contains__(self, indicator: str) -> bool:
        return indicator in self._on

    def any(self, beginning: str) -> bool:
        return any(indicator.startswith(beginning) for indicator in self._on)

    def left(self) -> tuple[str, ...]:
        """What an earlier life left on and this one did not take up, until ``forget``."""
        return tuple(sorted(self._left - self._on))

    def keep(self) -> None:
        """What an earlier life left on is on in this one, too."""
        self._on |= self._left
        self._left.clear()

    def oldest(self) -> str | None:
        """The first by name, None: none is on."""
        return min(self._on, default=None)

    def __len__(self) -> int:
        return len(self._on)

    async def forget(self) -> None:
        """What an earlier life left on is off."""
        if self._left:
            self._left.clear()
            await self._write()

    async def on(self, indicator: str) -> None:
        """Called before the platform is told, so that a death in between leaves a line too many,
        never one too few."""
        if indicator not in self._on:
            self._on.add(indicator)
            await self._write()

    async def off(self, indicator: str) -> None:
        if indicator in self._on:
            self._on.discard(indicator)
            await self._write()

    def _read(self) -> set[str]:
        if self._file is None:
            return set()
        try:
            value = json.loads(self._file.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return set()
        items = cast("list[object]", value) if isinstance(value, list) else []
        return {item for item in items if isinstance(item, str)}

    async def _write(self) -> None:
        """A full disk costs an indicator that stays, nothing more."""
        if self._file is None:
            return
        async with self._writing:
            self._asked += 1
            indicators = sorted(self._on | self._left)
            try:
                await asyncio.to_thread(self._put, self._file, self._asked, indicators)
            except OSError as error:
                _log.warning("%s cannot be written: %s", self._file, error.strerror)

    def _put(self, file: Path, number: int, indicators: list[str]) -> None:
        with self._in_file:
            if number > self._stored:  # else a later one was faster
                self._stored = number
                self._write_to(file, indicators)


def _written(file: Path, indicators: list[str]) -> None:
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    fresh = file.with_suffix(".new")
    # Not synced, which would cost more than the indicator: a death of ours loses nothing, one of
    # the machine only leaves an indicator on.
    fresh.write_text(json.dumps(indicators), encoding="utf-8")
    fresh.replace(file)
