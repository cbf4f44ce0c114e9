"""A process of a module of ours that answers a line for each line it reads: begun when it is first
asked, gone when nobody asks any more."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import Mapping
from contextlib import suppress

from ohmo.contracts.messages import Json
from ohmo.processes.job import child_environment

_SECONDS = 40.0  # for one question; the process itself stops looking before
_LONGEST = 4 << 20  # bytes of an answer


class AnsweringProcess:
    """One question after the other. ``module``: what ``python -m`` runs."""

    def __init__(self, module: str, seconds: float = _SECONDS) -> None:
        self._module = module
        self._seconds = seconds
        self._process: Process | None = None
        self._lock = asyncio.Lock()

    async def ask(self, order: Mapping[str, Json]) -> tuple[bool, str]:
        """Whether there is an answer, and its words, or why there is none. Raises TimeoutError;
        OSError when the process cannot be begun or ends."""
        line = json.dumps(order).encode("utf-8", "surrogatepass") + b"\n"
        async with self._lock:
            answer = await self._asked(line)
            if not answer:  # it had just gone because nobody asked
                answer = await self._asked(line)
        if not answer:
            raise OSError(f"{self._module} ended before it answered")
        answered, text = json.loads(answer)
        return answered, text

    async def _asked(self, line: bytes) -> bytes:
        process = self._process
        if process is None or process.returncode is not None:
            process = self._process = await _begin(self._module)
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            async with asyncio.timeout(self._seconds):
                with suppress(ConnectionError):
                    process.stdin.write(line)
                    await process.stdin.drain()
                answer = await process.stdout.readline()
        except BaseException:
            await self.close()  # what it would still say belongs to nobody
            raise
        if not answer:
            await self.close()
        return answer

    async def close(self) -> None:
        """Ends the process, if there is one."""
        process, self._process = self._process, None
        if process is not None:
            with suppress(ProcessLookupError):
                process.kill()
            await process.wait()


async def _begin(module: str) -> Process:
    return await asyncio.create_subprocess_exec(
        sys.executable,
        "-P",
        "-m",
        module,
        cwd="/",
        env=child_environment(os.environ),
        stdin=PIPE,
        stdout=PIPE,
        stderr=DEVNULL,
        start_new_session=True,
        limit=_LONGEST,
    )
