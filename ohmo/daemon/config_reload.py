"""Notices that ``config.yaml`` or ``.env`` changed. What does not load is never taken over: the
owner hears file, line and key, and the old one goes on."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable
from pathlib import Path

import structlog

from ohmo.config.load import Config
from ohmo.contracts.errors import ConfigError
from ohmo.lifecycle import within

log = structlog.get_logger("ohmo.config_reload")
TICK = 20_000_000  # nanoseconds by which a file's time may lag behind the clock
LOOK = 2.0  # seconds between two looks; a file counts as written when two looks see the same
Stamp = tuple[int, int, int] | None


class ConfigReload:
    """``reread`` loads the configuration afresh and raises ConfigError. ``file`` may not be there
    yet; ``secrets``: a file beside it, whose change is always taken over, since nobody compares
    secrets. ``since``: when the present one began to be read, in nanoseconds of the epoch; what was
    written later is new."""

    def __init__(
        self,
        reread: Callable[[], Config],
        file: Path,
        secrets: Path | None = None,
        *,
        since: int | None = None,
        look: float = LOOK,
    ) -> None:
        self._reread = reread
        self._look = look
        self._file = file
        self._secrets = secrets
        now = self._stamps()
        self._seen = now if since is None else (_before(now[0], since), _before(now[1], since))
        self.asked = asyncio.Event()  # somebody wants it now (SIGHUP)
        self.problem = ""  # why the file as it stands is not taken over

    async def changed(self, present: Config, tell: Callable[[str], Awaitable[object]]) -> Config:
        """Waits for a configuration that loads and differs from ``present`` (or was asked for).
        ``tell`` hears of one that does not load."""
        before = self._stamps()
        while True:
            asked = await self._wait()
            now = self._stamps()
            if not asked and (now == self._seen or now != before):
                before = now
                continue
            asked = asked or now[1] != self._seen[1]
            self._seen = before = now
            try:
                found = await asyncio.to_thread(self._reread)
            except ConfigError as error:
                await self.refuse(str(error), tell)
                continue
            self.problem = ""
            if asked or found.source.data != present.source.data:
                return found

    async def refuse(self, why: str, tell: Callable[[str], Awaitable[object]]) -> None:
        """Says once that the file as it stands is not taken over."""
        line = (
            "The changed configuration is not taken over:"
            f" {why.splitlines()[0] if why else 'it does not load'}. The old one goes on."
        )
        if line != self.problem:
            self.problem = line
            log.error("configuration_refused", problems=why.splitlines()[:20])
            await tell(line)

    def _stamps(self) -> tuple[Stamp, Stamp]:
        return _stamp(self._file), None if self._secrets is None else _stamp(self._secrets)

    async def _wait(self) -> bool:
        try:
            await within(self._look, self.asked.wait())
        except TimeoutError:
            return False
        self.asked.clear()
        return True


def _before(stamp: Stamp, since: int) -> Stamp:
    return stamp if stamp is None or stamp[0] < since - TICK else None


def _stamp(file: Path) -> Stamp:
    try:
        found = os.stat(file)  # noqa: PTH116
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino
