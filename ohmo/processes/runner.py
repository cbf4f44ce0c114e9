"""Starts commands under a keeper each; nothing they start outlives the call or the daemon."""

from __future__ import annotations

import asyncio
import json
import secrets
import sys
from collections.abc import Mapping
from dataclasses import field
from pathlib import Path

from channels.record import record
from ohmo.processes.family import MARK
from ohmo.processes.job import Job, JobEnded, Progress

_ROOT = str(Path(__file__).parents[2])
_BOOT = "import sys; sys.path.append(sys.argv[1]); from ohmo.processes.keeper import main; main()"
_LINE = 1 << 20  # a report holds at most 4 x keep bytes, JSON makes at most six of one


@record
class Command:
    """What to run. ``timeout`` in seconds, None: until stopped. ``keep``: bytes of head and of tail
    kept of each stream."""

    argv: tuple[str, ...]
    cwd: Path
    env: Mapping[str, str]
    spill: Path
    timeout: float | None
    keep: int = 12 * 1024
    terminal: bool = False
    spill_half: int = field(default=8 * 1024 * 1024)


class ProcessRunner:
    """``grace``: seconds between TERM and KILL. ``patience``: seconds a keeper gets beyond them
    before it is taken for stuck."""

    def __init__(self, *, grace: float = 2.0, patience: float = 10.0) -> None:
        self._grace = grace
        self._patience = patience

    async def start(self, command: Command, progress: Progress) -> Job:
        """A running job; the caller must ``close`` it. Raises OSError when no process can be
        made."""
        starting = asyncio.ensure_future(self._spawn(command, progress))
        try:
            return await asyncio.shield(starting)
        except asyncio.CancelledError:
            job = await starting
            await job.close()
            raise

    async def run(self, command: Command, progress: Progress) -> JobEnded:
        """Start and wait. When cancelled, everything is ended before the cancellation goes on."""
        job = await self.start(command, progress)
        try:
            return await asyncio.shield(job.ended)
        finally:
            await job.close()

    async def _spawn(self, command: Command, progress: Progress) -> Job:
        keeper = await asyncio.create_subprocess_exec(
            sys.executable,
            "-I",
            "-S",
            "-c",
            _BOOT,
            _ROOT,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
            env={"LANG": "C.UTF-8"},
            cwd="/",
            start_new_session=True,
            limit=max(_LINE, command.keep * 32),
        )
        assert keeper.stdin is not None
        mark = secrets.token_hex(8)
        order = {
            "argv": command.argv,
            "cwd": str(command.cwd),
            "env": {**command.env, MARK: mark},
            "spill": str(command.spill),
            "timeout": command.timeout,
            "keep": command.keep,
            "terminal": command.terminal,
            "spill_half": command.spill_half,
            "grace": self._grace,
        }
        keeper.stdin.write(json.dumps(order).encode() + b"\n")
        life = None if command.timeout is None else command.timeout + self._grace + self._patience
        return Job(keeper, mark, progress, life=life, patience=self._grace + self._patience)
