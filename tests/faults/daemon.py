"""The real daemon as a process of its own: started, killed, started again; its API over the unix
socket, what it left behind after its end."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import signal
import sqlite3
import sys
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from aiohttp import ClientError, ClientSession, ClientTimeout, UnixConnector

from tests import warm

ROOT = warm.ROOT
PATIENCE = 90.0  # seconds: many processes may share few cores


async def until(
    what: str,
    done: Callable[[], Awaitable[bool]],
    within: float = PATIENCE,
    *,
    every: float | None = None,
) -> None:
    """Looks again ``every`` so many seconds; fails with ``what`` was waited for. Without ``every``
    the more rarely the longer it waits: each look costs who is watched time that its work would
    need."""
    began = time.monotonic()
    while not await done():
        waited = time.monotonic() - began
        if waited > within:
            raise AssertionError(f"not within {within:g} s: {what}")
        await asyncio.sleep(every or min(max(waited / 10, 0.03), 0.25))


@dataclass(frozen=True, slots=True)
class Awake:
    """Seconds from the start of the process until the house was ready, all channels could speak,
    and the first words were out. ``work``: CPU seconds until it was ready, which no other load of
    the machine makes longer."""

    ready: float
    work: float
    connected: float
    out: float | None  # None: nothing was waiting


class Daemon:
    """One home, many lives. ``channels``: those that must be connected before it counts as ready;
    ``start``: ``warm.cold`` or ``warm.start``."""

    def __init__(
        self,
        home: Path,
        channels: Sequence[str] = (),
        command: Sequence[str] = warm.RUN,
        *,
        name: str = "stderr",
        environ: Mapping[str, str] | None = None,
        start: warm.Start = warm.cold,
    ) -> None:
        self.home = home
        self.lives = 0
        self._channels = channels
        self._command = command
        self._name = name
        self.environ: dict[str, str] = dict(environ or {})
        self._start_process = start
        self._process: warm.Process | None = None
        self._began = 0.0

    def twin(self) -> Daemon:
        """Another instance on the same home."""
        return Daemon(
            self.home, self._channels, self._command, name="twin", start=self._start_process
        )

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    @property
    def alive(self) -> bool:
        return self._process is not None and self._process.returncode is None

    @property
    def said(self) -> str:
        """Standard error of every life."""
        return "".join(
            path.read_text(errors="replace") for path in sorted(self.home.glob(f"{self._name}.*"))
        )

    @property
    def log(self) -> str:
        folder = self.home / "logs"  # the file before stays as it is, older ones are compressed
        files = [*sorted(folder.glob("*.jsonl.[0-9]")), *sorted(folder.glob("*.jsonl"))]
        return "".join(path.read_text(errors="replace") for path in files)

    async def start(
        self, failpoints: str = "", *, ready: bool = True, errors: int | None = None
    ) -> None:
        """``errors``: a file descriptor that becomes its standard error."""
        assert not self.alive
        self.lives += 1
        self._began = time.monotonic()
        environ = {
            "PATH": os.environ["PATH"],
            "HOME": str(self.home.parent),
            "OHMO_HOME": str(self.home),
            **({"OHMO_FAILPOINTS": failpoints} if failpoints else {}),
            **self.environ,
        }
        with (self.home / f"{self._name}.{self.lives:03d}").open("wb") as said:
            self._process = await self._start_process(
                self._command, environ, said.fileno(), said.fileno() if errors is None else errors
            )
        if ready:
            await self.ready()

    async def ready(self) -> None:
        """The house is ready and every channel can speak."""
        await until(f"the daemon is ready; it said {self.said[-500:]}", self._looks_ready)

    async def _looks_ready(self) -> bool:
        assert self.alive, (
            f"the daemon ended with {self._process.returncode if self._process else None}:"
            f" {self.said[-2000:]}"
        )
        with contextlib.suppress(ClientError, OSError, TimeoutError):
            status, found = await self.call("GET", "/readyz")
            return status == 200 and all(found["channels"].get(name) for name in self._channels)
        return False

    async def ready_or_dead(self) -> None:
        """Whichever comes first."""
        try:
            await self.ready()
        except AssertionError:
            if self.alive:
                raise

    async def awake(self, within: float = 5.0) -> Awake:
        """How soon this life was there; for its first words it is watched ``within`` seconds after
        all channels could speak."""
        ready = work = connected = out = 0.0

        def passed() -> float:
            assert self.alive, f"the daemon ended: {self.said[-2000:]}"
            return time.monotonic() - self._began

        async def stands() -> bool:
            nonlocal ready, work, connected
            with contextlib.suppress(ClientError, OSError, TimeoutError):
                status, found = await self.call("GET", "/readyz")
                if status == 200 and not ready:
                    ready, work = passed(), self._cpu()
                if ready and all(found["channels"].get(name) for name in self._channels):
                    connected = passed()
            return passed() > 0 and bool(connected)

        async def spoke() -> bool:
            nonlocal out
            with contextlib.suppress(ClientError, OSError, TimeoutError):
                _, found = await self.call("GET", "/api/v1/status")
                out = (
                    passed()
                    if any(one["last_delivery"] for one in found["channels"].values())
                    else 0.0
                )
            return bool(out) or passed() > connected + within

        await until("all channels are connected", stands, every=0.03)  # these are figures
        # to count an old store's messages takes it a moment
        await until("words are out", spoke, every=0.2)
        return Awake(ready, work, connected, out or None)

    def _cpu(self) -> float:
        """Seconds of user and system time, all threads (proc(5), /proc/PID/stat)."""
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    async def died(self, within: float = PATIENCE) -> None:
        """Killed itself at its failpoint."""
        assert self._process is not None
        try:
            code = await asyncio.wait_for(self._process.wait(), within)
        except TimeoutError:
            raise AssertionError(f"the failpoint was not met within {within:g} s") from None
        assert code == -signal.SIGKILL, f"ended with {code}: {self.said[-2000:]}"

    async def kill(self) -> None:
        assert self._process is not None
        with contextlib.suppress(ProcessLookupError):
            self._process.kill()
        await self._process.wait()

    async def stop(self, within: float = PATIENCE) -> int:
        """SIGTERM; the exit code."""
        assert self._process is not None
        with contextlib.suppress(ProcessLookupError):
            os.kill(self._inner(), signal.SIGTERM)
        try:
            return await asyncio.wait_for(self._process.wait(), within)
        except TimeoutError:
            await self.kill()
            raise AssertionError(f"SIGTERM did not end it within {within:g} s") from None

    def _inner(self) -> int:
        """The daemon itself, where the command is a wrapper that keeps signals to itself."""
        if self._command[0] == sys.executable:
            return self.pid
        return int(Path(f"/proc/{self.pid}/task/{self.pid}/children").read_text().split()[0])

    async def ended(self) -> int:
        """The exit code of a life that ends by itself."""
        assert self._process is not None
        return await asyncio.wait_for(self._process.wait(), PATIENCE)

    async def call(self, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        """Status and JSON. Raises ClientError or OSError when nobody answers."""
        connector = UnixConnector(str(self.home / "run" / "ohmo.sock"))
        async with ClientSession(
            connector=connector, timeout=ClientTimeout(total=PATIENCE)
        ) as session:
            async with session.request(method, f"http://localhost{path}", json=body) as response:
                return response.status, await response.json()

    async def idle(self) -> bool:
        """Nothing waits, nothing runs, nothing is to be sent."""
        _, status = await self.call("GET", "/api/v1/status")
        return not any(status["inbox"].get(state) for state in ("waiting", "taken")) and _all_sent(
            status
        )

    async def sent(self) -> bool:
        """Nothing is to be sent: of everything that is shown it knows that it is."""
        return _all_sent((await self.call("GET", "/api/v1/status"))[1])

    async def histories(self) -> dict[str, list[dict[str, Any]]]:
        """What every thread went through, by thread; of its steps those of the present session,
        which are all that a model is sent."""
        _, found = await self.call("GET", "/api/v1/sessions?limit=1000")
        assert not found["next"], "more than a thousand threads"
        return {
            session["thread"]: await self.history(session["thread"], session["session_seq"])
            for session in found["sessions"]
        }

    async def history(self, thread: str, first_step: int = 0) -> list[dict[str, Any]]:
        """What one thread went through; steps from ``first_step`` on."""
        items: list[dict[str, Any]] = []
        since: int | None = 0
        while since is not None:
            _, page = await self.call("GET", f"/api/v1/sessions/{thread}?limit=1000&since={since}")
            items += [
                one
                for one in page["history"]
                if one["type"] != "step_info" or one["seq"] >= first_step
            ]
            since = page["next"]
        return items

    # after its end

    def integrity(self) -> list[str]:
        """What SQLite says of the store; empty when it is sound."""
        with contextlib.closing(
            sqlite3.connect(f"file:{self.home / 'ohmo.db'}?mode=ro", uri=True)
        ) as connection:
            found = [str(row[0]) for row in connection.execute("PRAGMA integrity_check")]
            found += [
                f"foreign key: {row}" for row in connection.execute("PRAGMA foreign_key_check")
            ]
        return [line for line in found if line != "ok"]

    def rows(self, statement: str) -> list[tuple[Any, ...]]:
        with contextlib.closing(
            sqlite3.connect(f"file:{self.home / 'ohmo.db'}?mode=ro", uri=True)
        ) as connection:
            return connection.execute(statement).fetchall()

    def holders(self) -> set[str]:
        """Lives that hold a conversation or a platform, as the store has it."""
        threads = (
            "SELECT owner FROM threads WHERE ready_at IS NOT NULL AND owner IS NOT NULL AND"
            " until > 0"
        )
        return {
            str(owner)
            for (owner,) in self.rows(f"{threads} UNION SELECT owner FROM leases WHERE until > 0")
        }

    async def left_behind(self) -> list[str]:
        """Processes, a held lock, temp files: what is still there 5 s after the end."""
        deadline = time.monotonic() + 5
        while (
            found := [*_orphans(self.home.parent), *self._held()]
        ) and time.monotonic() < deadline:
            await asyncio.sleep(0.1)
        strays = [
            path
            for pattern in ("*.tmp*", "*.part", "*.new", "*-journal")
            for path in self.home.rglob(pattern)
        ]
        return found + [f"temp file {path}" for path in strays]

    def _held(self) -> list[str]:
        with (self.home / "lock").open("rb") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return ["the lock of the home is still held"]
        return []


def _all_sent(status: Mapping[str, Any]) -> bool:
    return not any(status["outbox"].get(state) for state in ("ready", "sending"))


def _orphans(place: Path) -> list[str]:
    """Processes that work below this folder or were started with it in their environment or on
    their command line."""
    found: list[str] = []
    name = str(place).encode()
    for process in Path("/proc").glob("[0-9]*"):
        if int(process.name) == os.getpid():
            continue
        with contextlib.suppress(OSError):
            words = (process / "cmdline").read_bytes()
            if (
                name in words
                or name in (process / "environ").read_bytes()
                or name in os.fsencode((process / "cwd").readlink())
            ):
                found.append(
                    f"process {process.name}:"
                    f" {words.replace(bytes(1), b' ')[:200].decode(errors='replace')}"
                )
    return found
