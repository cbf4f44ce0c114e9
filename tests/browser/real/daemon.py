"""The real daemon in a process of its own: start it, kill it, start it again at the same door."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
from pathlib import Path
from typing import Any

from tests import warm
from tests.platforms.door import held_port
from tests.programs import OHMO, run_process

LINK = re.compile(r"http://\S+/login\?code=\S+")
START, END = 60.0, 30.0  # seconds: two cores, many tests


class Daemon:
    """One home, one port, as many lives as a test wants."""

    def __init__(self, home: Path, model: str | None) -> None:
        """``model``: the address of an endpoint; None: no model is configured."""
        self.home = home
        self.workspace = home.parent / "workspace"
        self.workspace.mkdir(exist_ok=True)
        self._held = held_port()
        self.port = int(self._held.getsockname()[1])
        self.url = f"http://127.0.0.1:{self.port}"
        self.link = ""
        self._process: warm.Process | None = None
        self._said: list[str] = []
        self._reading: asyncio.Task[None] | None = None
        real = {
            "provider": "anthropic",
            "base_url": model,
            "api_key": "sk-ant-test",
            "models": ["claude-sonnet-4-5"],
        }
        config = {
            "profiles": {"default": {"provider": "offline"} if model is None else real},
            "workspace": str(self.workspace),
            "control": {"listen": f"127.0.0.1:{self.port}"},
        }
        path = home / "config.yaml"
        path.write_text(json.dumps(config), encoding="utf-8")
        path.chmod(0o600)

    def _environment(self) -> dict[str, str]:
        kept = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("OHMO", "ANTHROPIC_", "OPENAI_", "PYTHON"))
        }
        return {**kept, "OHMO_HOME": str(self.home), "NO_COLOR": "1"}

    async def start(self) -> None:
        """Returns when it printed its link."""
        assert self._process is None, "it is running already"
        heard, spoken = os.pipe()
        try:
            self._process = await warm.start(warm.RUN, self._environment(), spoken, spoken)
        finally:
            os.close(spoken)
        lines = asyncio.StreamReader()
        await asyncio.get_running_loop().connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(lines), os.fdopen(heard, "rb", 0)
        )
        printed: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._reading = asyncio.create_task(self._read(lines, self._process, printed))
        try:
            async with asyncio.timeout(START):
                self.link = await printed
        except TimeoutError:
            raise AssertionError(f"no link after {START} s:\n{self.said}") from None

    async def _read(
        self, lines: asyncio.StreamReader, process: warm.Process, printed: asyncio.Future[str]
    ) -> None:
        async for line in lines:
            self._said.append(line.decode(errors="replace"))
            found = LINK.search(self._said[-1])
            if found is not None and not printed.done():
                printed.set_result(found[0])
        if not printed.done():
            printed.set_exception(
                AssertionError(f"ended with {await process.wait()}:\n{self.said}")
            )

    @property
    def said(self) -> str:
        return "".join(self._said)

    async def kill(self) -> None:
        """``kill -9``."""
        await self._end(signal.SIGKILL)

    async def stop(self) -> int:
        """As Ctrl-C does."""
        return await self._end(signal.SIGINT)

    async def _end(self, how: signal.Signals) -> int:
        assert self._process is not None, "it is not running"
        process, self._process = self._process, None
        if process.returncode is None:
            os.kill(process.pid, how)
        async with asyncio.timeout(END):
            code = await process.wait()
            if self._reading is not None:
                await self._reading
        return code

    async def close(self) -> None:
        if self._process is not None:
            await self.kill()
        self._held.close()

    async def ask(self, *arguments: str) -> Any:
        """What a command of the keyboard says with ``--json``."""
        command = [*OHMO, *arguments, "--json"]
        done = await asyncio.to_thread(run_process, *command, code=0, env=self._environment())
        return json.loads(done.stdout)
