"""ohmo beside other agents that are always on, in one run: ``python -m benchmarks.peers``. Each
lives in an environment of its own in a cache folder, made with pip from the machine's registry; one
that cannot be had is left out and said so.

All are driven through their Telegram channel against a loopback Bot API each and one model server
that answers at once (``benchmarks.echo``). They are alive together on one core and answer in turn, so
that a slow minute of the machine falls on all.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import subprocess
import sys
import tempfile
import time
import venv
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.paired import cpu_seconds
from benchmarks.rig import (
    CONFIG,
    FIRST_CHAT,
    ROOT,
    TICK,
    Chats,
    cores,
    model_server,
    percentile,
    process,
    pss,
    telegram,
)
from benchmarks.start import polls

CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "ohmo-bench"
# Neither has a setting for the address of the Bot API: python-telegram-bot's builder is told it.
LAUNCH = """
import runpy, sys
from telegram.ext import ApplicationBuilder
build = ApplicationBuilder.build
ApplicationBuilder.build = lambda self: build(self.base_url(sys.api + "/bot"))
sys.api, module = sys.argv[1:3]
sys.argv[:] = [module, *sys.argv[3:]]
runpy.run_module(module, run_name="__main__")
"""


@dataclass(frozen=True, slots=True)
class Place:
    """Where one program runs: an empty folder, the model server, the Bot API and its token."""

    root: Path
    model: str
    api: str
    token: str

    def file(self, name: str, content: object) -> Path:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content if isinstance(content, str) else json.dumps(content))
        path.chmod(0o600)
        return path


Command = tuple[Sequence[str], dict[str, str]]  # with what is in its environment


def ohmo(place: Place, _: str) -> Command:
    work = place.root / "work"
    text = CONFIG.format(model=place.model, telegram=place.api, token=place.token, workspace=work)
    home = place.file("home/config.yaml", text).parent
    home.chmod(0o700)
    environment = {"OHMO_HOME": str(home), "OHMO_DUMPABLE": "1"}
    return [sys.executable, "-m", "ohmo", "run"], environment


def openharness(place: Place, python: str) -> Command:
    channel = {"token": place.token, "allow_from": ["*"], "reply_to_message": False}
    settings = {"provider_profile": "claude-api", "enabled_channels": ["telegram"]}
    settings |= {"send_progress": False, "channel_configs": {"telegram": channel}}
    place.file(".ohmo/gateway.json", settings)
    environment = {"ANTHROPIC_BASE_URL": place.model, "ANTHROPIC_API_KEY": "sk-ant-loopback"}
    words = ["gateway", "run", "--cwd", str(place.root), "--workspace", str(place.root / ".ohmo")]
    return [python, "-c", LAUNCH, place.api, "ohmo", *words], environment


def nanobot(place: Place, python: str) -> Command:
    channel = {"enabled": True, "token": place.token, "allowFrom": ["*"], "streaming": False}
    defaults = {"workspace": str(place.root / "work"), "model": "anthropic/claude-sonnet-4-5"}
    settings = {
        "agents": {"defaults": defaults | {"provider": "anthropic"}},
        "providers": {"anthropic": {"apiKey": "sk-ant-loopback", "apiBase": place.model}},
        "channels": {"telegram": channel},
        "gateway": {"port": 0},
    }
    path = place.file("config.json", settings)
    words = ["gateway", "--foreground", "--config", str(path)]
    return [python, "-c", LAUNCH, place.api, "nanobot", *words], {}


@dataclass(frozen=True, slots=True)
class Kind:
    name: str
    packages: tuple[str, ...]  # as pip is told; none: this tree
    command: Callable[[Place, str], Command]


KINDS = (
    Kind("this tree", (), ohmo),
    Kind("OpenHarness", ("openharness-ai==0.1.9",), openharness),
    # The second is what it asks for when its Telegram channel is set up.
    Kind(
        "nanobot", ("nanobot-ai==0.3.5", "python-telegram-bot[socks,webhooks]>=22.6,<23"), nanobot
    ),
)


def installed(kind: Kind) -> str | None:
    """Its Python; None, with a line that says why, when it cannot be had."""
    if not kind.packages:
        return sys.executable
    folder = CACHE / kind.packages[0]
    done = folder / "installed"
    python = str(folder / "bin" / "python")
    if done.exists():
        return python
    print(f"making an environment for {kind.packages[0]} in {CACHE}", flush=True)
    try:
        venv.create(folder, with_pip=True, clear=True)
        command = [python, "-m", "pip", "install", "-q", *kind.packages]
        subprocess.run(command, check=True, capture_output=True, text=True, timeout=900)
    except (OSError, subprocess.SubprocessError) as error:
        told = (getattr(error, "stderr", "") or str(error)).strip().splitlines()
        print(f"{kind.name} is left out: {told[-1] if told else error}")
        return None
    done.touch()
    return python


@dataclass(slots=True)
class Program:
    """One of them, running."""

    kind: Kind
    chats: Chats
    pid: int
    figures: dict[str, list[float]] = field(default_factory=dict[str, list[float]])
    said: int = 0

    def note(self, name: str, value: float) -> None:
        self.figures.setdefault(name, []).append(value)

    def cpu(self) -> float:
        """Seconds so far, with those of processes that it started and that have ended."""
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return cpu_seconds(self.pid) + (int(fields[13]) + int(fields[14])) / TICK

    async def person(self, chat: int, messages: int) -> list[float]:
        """Seconds from each message to its answer."""
        times: list[float] = []
        for _ in range(messages):
            self.said += 1
            text = f"bench-word-{self.said}-{chat}"
            began = self.chats.says(chat, text)
            times.append(await self.chats.answered(chat, text, 120) - began)
        return times

    async def turn(self, messages: int, width: int, each: int) -> None:
        began = self.cpu()
        times = await self.person(FIRST_CHAT, messages)
        between, wall = self.cpu(), time.perf_counter()
        await asyncio.gather(*(self.person(FIRST_CHAT + 1 + n, each) for n in range(width)))
        count = width * each
        self.note("overhead p50, ms", 1e3 * percentile(times, 0.5))
        self.note("overhead p95, ms", 1e3 * percentile(times, 0.95))
        self.note("CPU per message, one chat, ms", 1e3 * (between - began) / messages)
        self.note(f"CPU per message, {width} chats, ms", 1e3 * (self.cpu() - between) / count)
        self.note(f"answers a second, {width} chats", count / (time.perf_counter() - wall))


@asynccontextmanager
async def running(kind: Kind, python: str, model: str) -> AsyncGenerator[Program]:
    """In a home of its own, after its first answer."""
    async with telegram() as chats:
        with tempfile.TemporaryDirectory(prefix="ohmo-peer-", ignore_cleanup_errors=True) as folder:
            server = chats.server
            place = Place(Path(folder), model, server.url, server.token)
            command, more = kind.command(place, python)
            more |= {"HOME": folder, "PYTHONDONTWRITEBYTECODE": ""}
            log = CACHE / f"{kind.name}.txt"
            at = ROOT if not kind.packages else place.root
            with polls(chats) as polled:
                began = time.perf_counter()
                async with process(command, core=cores()[0], env=more, log=log, folder=at) as child:
                    await asyncio.wait_for(polled.wait(), 120)
                    program = Program(kind, chats, child.pid)
                    program.note("start to the first poll, s", time.perf_counter() - began)
                    await program.person(FIRST_CHAT, 1)
                    program.note("start to the first answer, s", time.perf_counter() - began)
                    yield program


async def main(given: Any) -> None:
    found = [(kind, installed(kind)) for kind in KINDS]
    ready = [(kind, python) for kind, python in found if python is not None]
    _, other = cores()
    if other is not None:
        os.sched_setaffinity(0, {other})
    async with AsyncExitStack() as stack:
        model = await stack.enter_async_context(model_server(other, "benchmarks.echo"))
        starts: dict[str, dict[str, list[float]]] = {}
        for _ in range(given.starts):
            for kind, python in random.sample(ready, len(ready)):
                async with running(kind, python, model) as program:
                    await asyncio.sleep(3)
                    program.note("PSS idle, MiB", pss(program.pid))
                    for name, values in program.figures.items():
                        starts.setdefault(kind.name, {}).setdefault(name, []).extend(values)
        programs = [
            await stack.enter_async_context(running(kind, python, model)) for kind, python in ready
        ]
        for program in programs:  # what is done once is done
            await program.turn(5, given.chats, 1)
            program.figures = starts.get(program.kind.name, {})
        for _ in range(given.rounds):
            for program in random.sample(programs, len(programs)):
                await program.turn(given.messages, given.chats, given.each)
        for program in programs:
            program.note("PSS after load, MiB", pss(program.pid))
    many = given.chats * given.each
    print(
        f"{given.rounds} rounds of {given.messages} messages in one chat, {many} in {given.chats}"
    )
    print("| median (least to most) | " + " | ".join(one.kind.name for one in programs) + " |")
    print("|---|" + "--:|" * len(programs))
    for row in programs[0].figures:
        cells = [one.figures[row] for one in programs]
        told = [f"{median(all_):.1f} ({min(all_):.1f} to {max(all_):.1f})" for all_ in cells]
        print(f"| {row} | " + " | ".join(told) + " |")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--messages", type=int, default=30, help="of a round, in one chat")
    parser.add_argument("--chats", type=int, default=50)
    parser.add_argument("--each", type=int, default=2, help="messages of each chat in a round")
    parser.add_argument("--starts", type=int, default=3)
    asyncio.run(main(parser.parse_args()))
