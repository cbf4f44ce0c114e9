"""One daemon, one model server, one loopback Telegram, and what the kernel says they cost."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import sys
import tempfile
import time
from collections.abc import AsyncGenerator, Generator, Iterable, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from statistics import median
from typing import Any

import aiohttp

from tests.platforms.telegram.server import Call, Server

ROOT = Path(__file__).parents[1]
TICK = os.sysconf("SC_CLK_TCK")
FIRST_CHAT = 20_001
CONFIG = """\
profiles: {{default: {{provider: anthropic, base_url: "{model}", api_key: "sk-ant-loopback", models: [claude-sonnet-4-5]}}}}
workspace: "{workspace}"
control: {{listen: "127.0.0.1:0"}}
channels:
  telegram: {{enabled: true, token: "{token}", api_url: "{telegram}", dm: open}}
"""


@cache
def cores() -> tuple[int | None, int | None]:
    """A core for the daemon and another for everything else; None when there is only one. As it
    was when first asked: afterwards this process keeps to one of them."""
    have = sorted(os.sched_getaffinity(0))
    return (have[0], have[1]) if len(have) > 1 else (None, None)


def percentile(values: Sequence[float], share: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


# What the kernel says


def cpu(pid: int) -> float:
    """Seconds of user and system time of a process so far, all its threads (proc(5),
    /proc/PID/stat)."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICK


def written(pid: int) -> int:
    """Bytes that went on their way to the disk (proc(5), /proc/PID/io, write_bytes)."""
    for line in Path(f"/proc/{pid}/io").read_text().splitlines():
        if line.startswith("write_bytes:"):
            return int(line.split()[1])
    return 0


def tree(pid: int) -> list[int]:
    """A process and everything below it."""
    found = [pid]
    for one in found:
        for task in Path(f"/proc/{one}/task").iterdir():
            with contextlib.suppress(OSError):
                found += [int(child) for child in (task / "children").read_text().split()]
    return found


def pss(pid: int) -> float:
    """MiB of a process tree, shared pages divided among those who share them (proc(5),
    smaps_rollup)."""
    total = 0
    for one in tree(pid):
        for line in Path(f"/proc/{one}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                total += int(line.split()[1])
    return total / 1024


# Processes


@asynccontextmanager
async def process(
    command: Sequence[str],
    *,
    core: int | None = None,
    env: dict[str, str] | None = None,
    log: Path | None = None,
    folder: Path = ROOT,
) -> AsyncGenerator[asyncio.subprocess.Process]:
    """Runs inside ``folder``; asked to end, then killed. ``core``: where it may run."""
    pinned = [*(["taskset", "-c", str(core)] if core is not None else []), *command]
    with (log or Path(os.devnull)).open("ab") as out:
        child = await asyncio.create_subprocess_exec(
            *pinned,
            stdout=asyncio.subprocess.PIPE,
            stderr=out,
            cwd=folder,
            env={**os.environ, **(env or {})},
        )
        try:
            yield child
        finally:
            if child.returncode is None:
                child.terminate()
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(child.wait(), 15)
            if child.returncode is None:
                child.kill()
                await child.wait()


@asynccontextmanager
async def model_server(
    core: int | None = None, module: str = "tests.platforms.model"
) -> AsyncGenerator[str]:
    """Its address. It answers at once, and always the echo of what was said. ``module``: another
    one is ``benchmarks.echo``."""
    async with process([sys.executable, "-m", module], core=core) as child:
        assert child.stdout is not None
        line = await asyncio.wait_for(child.stdout.readline(), 60)
        yield f"http://127.0.0.1:{int(line)}"


class Daemon:
    """``ohmo run`` in a home of its own. ``start`` returns at once; ``ready`` waits for its login
    link."""

    def __init__(
        self,
        home: Path,
        core: int | None = None,
        python: Sequence[str] = (sys.executable,),
        checkout: Path = ROOT,
    ) -> None:
        self.home = home
        self.checkout = checkout
        self.core = core
        self.python = python
        self.started = 0.0
        self._stack = contextlib.AsyncExitStack()
        self._child: asyncio.subprocess.Process | None = None

    @property
    def pid(self) -> int:
        assert self._child is not None
        return self._child.pid

    async def start(self) -> None:
        self.started = time.perf_counter()
        env = {
            "OHMO_HOME": str(self.home),
            "PYTHONDONTWRITEBYTECODE": "",
            "OHMO_DUMPABLE": "1",
        }  # what it costs is read from outside
        command = [*self.python, "-m", "ohmo", "run"]
        self._child = await self._stack.enter_async_context(
            process(
                command, core=self.core, env=env, log=self.home / "stderr.txt", folder=self.checkout
            )
        )

    async def ready(self) -> None:
        assert self._child is not None
        assert self._child.stdout is not None
        line = await asyncio.wait_for(self._child.stdout.readline(), 60)
        if not line:
            raise SystemExit(f"the daemon did not start: {(self.home / 'stderr.txt').read_text()}")

    async def stop(self) -> None:
        await self._stack.aclose()

    async def kill(self) -> None:
        """``kill -9``."""
        assert self._child is not None
        os.kill(self._child.pid, signal.SIGKILL)
        await self._child.wait()
        await self._stack.aclose()

    async def get(self, path: str, session: aiohttp.ClientSession) -> Any:
        async with session.get(f"http://localhost{path}") as response:
            return await response.json()

    def client(self) -> aiohttp.ClientSession:
        return aiohttp.ClientSession(
            connector=aiohttp.UnixConnector(str(self.home / "run" / "ohmo.sock"))
        )


@contextmanager
def home(model: str, telegram: Server, **more: str) -> Generator[Path]:
    """A private folder with a configuration. ``OHMO_BENCH_DIR``: on which disk."""
    with tempfile.TemporaryDirectory(
        prefix="ohmo-bench-", dir=os.environ.get("OHMO_BENCH_DIR"), ignore_cleanup_errors=True
    ) as folder:
        root = Path(folder) / "home"
        root.mkdir(mode=0o700)
        text = CONFIG.format(
            model=model,
            telegram=telegram.url,
            token=telegram.token,
            workspace=Path(folder) / "work",
        )
        text += "".join(f"{name}: {value}\n" for name, value in more.items())
        config = root / "config.yaml"
        config.touch(mode=0o600)
        config.write_text(text)
        yield root


# People


class _Seen(list[Call]):
    """The server's history, and a bell for whoever waits for a call."""

    def __init__(self) -> None:
        super().__init__()
        self.bell = asyncio.Event()
        self.total = 0

    def append(self, call: Call) -> None:
        self.total += 1
        super().append(call)
        self.bell.set()


@dataclass(slots=True)
class Chats:
    """People in private chats with the bot, each waiting for the answer before saying more."""

    server: Server
    seen: _Seen = field(default_factory=_Seen)
    counts: dict[str, int] = field(default_factory=dict)
    answers: dict[tuple[int, str], list[float]] = field(default_factory=dict)
    _read: int = 0

    def says(self, chat: int, text: str) -> float:
        at = time.perf_counter()
        self.server.world.says(text, f"dm:{chat}")
        return at

    def sent(self) -> int:
        """How many messages the bot has sent."""
        self._look()
        return self.counts.get("sendMessage", 0)

    def _look(self) -> None:
        now = time.perf_counter()
        for call in self.seen[self._read :]:
            self.counts[call.method] = self.counts.get(call.method, 0) + 1
            if call.method == "sendMessage":
                text = str(call.parameters.get("text", ""))
                self.answers.setdefault((int(call.parameters["chat_id"]), text), []).append(now)
        self._read = len(self.seen)

    async def answered(self, chat: int, text: str, seconds: float = 60.0) -> float:
        """When the echo of ``text`` became visible."""
        wanted = (chat, f"echo: {text}")
        async with asyncio.timeout(seconds):
            while True:
                self._look()
                if wanted in self.answers:
                    return self.answers[wanted][0]
                self.seen.bell.clear()
                await self.seen.bell.wait()

    async def all_answered(
        self, wanted: Iterable[tuple[int, str]], seconds: float
    ) -> set[tuple[int, str]]:
        """Those that are still missing after ``seconds``."""
        missing = {(chat, f"echo: {text}") for chat, text in wanted}
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while True:
                    self._look()
                    missing -= self.answers.keys()
                    if not missing:
                        break
                    self.seen.bell.clear()
                    await self.seen.bell.wait()
        return missing


@asynccontextmanager
async def telegram() -> AsyncGenerator[Chats]:
    """The loopback Bot API in this process (never in the daemon's), without rate limits."""
    server = Server()
    chats = Chats(server)
    server.calls = chats.seen
    async with server.running():
        yield chats


@dataclass(frozen=True, slots=True)
class Bench:
    """A ready daemon that people talk with. ``model``: the address of its model server. ``core``:
    where the daemon runs, None: anywhere."""

    daemon: Daemon
    chats: Chats
    model: str
    core: int | None


@asynccontextmanager
async def bench(
    checkout: Path = ROOT, model: str = "tests.platforms.model", **more: str
) -> AsyncGenerator[Bench]:
    """The daemon on a core of its own, everything else, this process too, on another. ``more``:
    further keys of its configuration. ``checkout``: of which tree it is, another one runs in the
    environment that lies in it. ``model``: see ``model_server``. It may be stopped inside; its home is there until the
    end."""
    ours, theirs = cores()
    if theirs is not None:
        os.sched_setaffinity(0, {theirs})
    async with telegram() as chats, model_server(theirs, model) as url:
        with home(url, chats.server, **more) as root:
            python = sys.executable if checkout == ROOT else str(checkout / ".venv/bin/python")
            daemon = Daemon(root, ours, [python], checkout)
            await daemon.start()
            try:
                await daemon.ready()
                yield Bench(daemon, chats, url, ours)
            finally:
                await daemon.stop()


def show(label: str, value: float, unit: str, goal: str = "") -> None:
    print(f"  {label:58} {value:9.2f} {unit:6} {goal}", flush=True)


def middle(values: Sequence[float]) -> float:
    return median(values)


def dumped(value: object) -> str:
    return json.dumps(value)
