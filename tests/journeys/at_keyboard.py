"""A person at a terminal: the real daemon, the real command in a process of its own, and a scripted
model behind a real endpoint."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from tests import warm
from tests.faults.daemon import ROOT, Daemon
from tests.platforms.model.server import ModelServer, serving

BOUND = 90.0


@dataclass(frozen=True, slots=True)
class Said:
    code: int
    out: str
    err: str


class Keyboard:
    """``home`` with its configuration, its daemon (started by the story, or not at all), and the
    person's shell."""

    def __init__(self, folder: Path, model_url: str, **configuration: Any) -> None:
        self.home = folder / "home"
        self.work = folder / "work"
        for made in (self.home, self.work):
            made.mkdir(mode=0o700, exist_ok=True)
        profile = {
            "provider": "openai",
            "base_url": f"{model_url}/v1",
            "models": ["gpt-5"],
            "api_key": "env:KEY",
        }
        written = {
            "workspace": str(self.work),
            "control": {"listen": "127.0.0.1:0"},
            "profiles": {"default": profile},
        }
        self.configure({**written, **configuration})
        self.environ = {
            "PATH": os.environ["PATH"],
            "HOME": str(folder),
            "OHMO_HOME": str(self.home),
            "PYTHONPATH": str(ROOT),
            "KEY": "sk-test",
            "LANG": "C.UTF-8",
        }
        self.daemon = Daemon(self.home, environ={"KEY": "sk-test"}, start=warm.start)

    def configure(self, written: dict[str, Any]) -> None:
        self.written = written
        (self.home / "config.yaml").write_text(yaml.safe_dump(written))

    async def start(
        self, *arguments: str, stdin: int = asyncio.subprocess.DEVNULL, **environ: str
    ) -> asyncio.subprocess.Process:
        """The command, as it goes on by itself."""
        pipe = asyncio.subprocess.PIPE
        return await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "ohmo",
            *arguments,
            stdin=stdin,
            stdout=pipe,
            stderr=pipe,
            env=self.environ | environ,
            cwd=self.work,
        )

    async def ohmo(self, *arguments: str, **environ: str) -> Said:
        nothing = asyncio.subprocess.DEVNULL
        return await heard(await self.start(*arguments, stdin=nothing, **environ))


async def heard(process: asyncio.subprocess.Process) -> Said:
    """What a command said until its end, which it reaches within ``BOUND``."""
    try:
        out, err = await asyncio.wait_for(process.communicate(), BOUND)
    except TimeoutError:
        process.kill()
        out, err = await process.communicate()
        raise AssertionError(f"it did not end within {BOUND:g} s: {out!r} {err!r}") from None
    return Said(process.returncode or 0, out.decode(), err.decode())


@asynccontextmanager
async def keyboard(
    folder: Path, server: ModelServer, *, running: bool = True, **configuration: Any
) -> AsyncGenerator[Keyboard]:
    """``running``: the daemon stands beside it."""
    async with serving(server):
        one = Keyboard(folder, server.url, **configuration)
        if running:
            await one.daemon.start()
        try:
            yield one
        finally:
            if one.daemon.alive:
                await one.daemon.kill()
