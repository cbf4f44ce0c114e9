"""One running command as the daemon sees it: reports come in, ``stop`` and ``read`` go out; and
what it may know of the daemon's environment: a short list, never a secret."""

from __future__ import annotations

import asyncio
import json
import os
import re
import secrets
import sys
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, suppress
from dataclasses import field, replace
from pathlib import Path
from typing import Any, Literal

from channels.record import record
from ohmo.contracts.sandbox import Cage, Launch, Sandbox
from ohmo.processes.keeper import WITH_THE_DAEMON
from ohmo.processes.process_tree import MARK, sweep

Progress = Callable[[str], None]
_ROOT = str(Path(__file__).parents[2])
_BOOT = "import sys; sys.path.append(sys.argv[1]); from ohmo.processes.keeper import main; main()"
_KEPT = re.compile(
    "PATH|HOME|USER|LOGNAME|SHELL|LANG|LANGUAGE|LC_.*|TZ|TMPDIR|XDG_RUNTIME_DIR|SSL_CERT_FILE"
    "|SSL_CERT_DIR|OHMO_HOME",
    re.DOTALL,
)
_QUIET = {  # nobody sits at a keyboard: ask nothing, page nothing, colour nothing, open no editor
    "TERM": "dumb",
    "NO_COLOR": "1",
    "PAGER": "cat",
    "GIT_PAGER": "cat",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_MERGE_AUTOEDIT": "no",
    "GIT_EDITOR": "false",
    "EDITOR": "false",
    "VISUAL": "false",
    "DEBIAN_FRONTEND": "noninteractive",
    "PIP_NO_INPUT": "1",
    "PIP_DISABLE_PIP_VERSION_CHECK": "1",
    "SYSTEMD_PAGER": "cat",
}
_LINE = 1 << 20  # a report holds at most 4 x keep bytes, JSON makes at most six of one


@record
class Stream:
    """What is left of one output: its first and last bytes and its true size."""

    head: bytes = b""
    tail: bytes = b""
    total: int = 0


@record
class Output:
    out: Stream = Stream()
    err: Stream = Stream()


@record
class JobEnded:
    """``code`` or ``signal``, never both. ``reason``: why we ended it ("timeout", "keyboard",
    "stopped"), "" when it ended by itself. ``left``: processes it had left running, ended by us.
    ``problem``: why there is no spill file though there should be one. ``cut``: bytes in the middle
    that the spill file does not hold."""

    output: Output
    code: int | None
    signal: str | None
    reason: str
    left: int
    spill: Path | None
    problem: str = ""
    cut: int = 0


async def _nothing() -> None:
    """There is nothing to give back."""


class Job:
    """Talks to one keeper. Its reader task lives until the keeper's last word. A command may stop
    or hold up its keeper: one that has not ended ``life`` seconds after its start (None: as long as
    it likes), or ``patience`` seconds after it was told to stop, is killed. ``release``: called
    once it has ended."""

    def __init__(
        self,
        keeper: asyncio.subprocess.Process,
        mark: str,
        progress: Progress,
        *,
        life: float | None = None,
        patience: float = 10.0,
        release: Callable[[], Awaitable[None]] = _nothing,
    ) -> None:
        self._keeper = keeper
        self._release = release
        self._mark = mark
        self._progress = progress
        self._patience = patience
        self._end: asyncio.TimerHandle | None = None
        if life is not None:
            self._end = asyncio.get_running_loop().call_later(life, self._kill)
        self._outputs: asyncio.Queue[Output] = asyncio.Queue()
        self._reading = asyncio.Lock()
        self.ended: asyncio.Task[JobEnded] = asyncio.create_task(
            self._listen(), name=f"keeper-{keeper.pid}"
        )

    async def read(self) -> Output:
        """What came since the last read; the final output once it ended."""
        async with self._reading:
            if not self.ended.done() and self._say(b"read\n"):
                answer = asyncio.create_task(self._outputs.get())
                await asyncio.wait({answer, self.ended}, return_when=asyncio.FIRST_COMPLETED)
                if answer.done():
                    return answer.result()
                answer.cancel()
            return (await asyncio.shield(self.ended)).output

    def stop(self, word: Literal["stop", "leave"] = "stop") -> None:
        """TERM to everything, KILL after the grace. Await ``ended`` for the end. ``leave``: because
        the daemon stops."""
        self._say(f"{word}\n".encode())
        due = asyncio.get_running_loop().time() + self._patience
        if self._end is None or self._end.cancelled() or self._end.when() > due:
            if self._end is not None:
                self._end.cancel()
            self._end = asyncio.get_running_loop().call_at(due, self._kill)

    async def close(self) -> None:
        """Stop, and return when nothing is left. Safe to cancel: the keeper goes on ending by
        itself."""
        if not self.ended.done():
            self.stop()
        await asyncio.shield(self.ended)

    def _kill(self) -> None:
        """Its command goes with it, and the sweep after its last word ends the rest."""
        if self._keeper.returncode is None:
            self._keeper.kill()

    def _say(self, line: bytes) -> bool:
        if self._keeper.stdin is None or self._keeper.stdin.is_closing():
            return False
        with suppress(OSError, RuntimeError):
            self._keeper.stdin.write(line)
            return True
        return False

    async def _listen(self) -> JobEnded:
        assert self._keeper.stdout is not None
        ended: JobEnded | None = None
        try:
            # Half a line: it was killed while it wrote.
            while (line := await self._keeper.stdout.readline()).endswith(b"\n"):
                report: dict[str, Any] = json.loads(line)
                if "progress" in report:
                    text = report["progress"].encode("latin-1").decode("utf-8", "replace")
                    last = text.rstrip("\n").rpartition("\n")[2].rpartition("\r")[2]
                    self._progress(last[-200:])
                elif "output" in report:
                    self._outputs.put_nowait(_output(report["output"]))
                else:
                    ended = _ended(report["ended"], _output(report["ended"]))
        finally:
            if self._keeper.stdin is not None:
                self._keeper.stdin.close()
            await self._keeper.wait()
            if self._end is not None:
                self._end.cancel()
            if ended is None:
                await asyncio.to_thread(sweep, self._mark)
            await self._release()
        return ended or JobEnded(Output(), None, "SIGKILL", "its keeper was killed", 0, None)


def _ended(told: Mapping[str, Any], output: Output) -> JobEnded:
    return JobEnded(
        output=output,
        code=told["code"],
        signal=told["signal"],
        reason=told["reason"],
        left=told["left"],
        spill=Path(told["spill"]) if told["spill"] else None,
        problem=told["problem"],
        cut=told["cut"],
    )


def kept_end(path: Path, keep: int) -> JobEnded:
    """How a ``kept`` command ended whose daemon is gone, and its outputs, one among the other:
    ``keep`` bytes of the head and of the tail of ``path``."""
    for file in (path, path.with_name(f"{path.name}.part")):  # the second: its keeper was killed
        try:
            with file.open("rb") as opened:
                size = opened.seek(0, os.SEEK_END)
                opened.seek(0)
                head = opened.read(keep)
                opened.seek(max(len(head), size - keep))
                out = Output(Stream(head, opened.read(keep), size))
                break
        except OSError:
            continue
    else:
        out, file = Output(), None
    try:
        told = json.loads(path.with_name(f"{path.name}.end").read_bytes())
        return replace(_ended(told, out), spill=file)
    except (OSError, ValueError, KeyError, TypeError):
        return JobEnded(out, None, None, WITH_THE_DAEMON, 0, file)


def _output(report: dict[str, Any]) -> Output:
    return Output(_stream(report["out"]), _stream(report["err"]))


def _stream(part: tuple[str, str, int]) -> Stream:
    head, tail, total = part
    return Stream(head.encode("latin-1"), tail.encode("latin-1"), total)


@record
class Command:
    """What to run. ``timeout`` in seconds, None: until stopped. ``keep``: bytes of head and of tail
    kept of each stream. ``kept``: its output and its end stay in files (``kept_end``). ``stdin``: a
    file it reads, opened by its keeper; not with a terminal. ``cage``: what it may reach; None:
    what we may."""

    argv: tuple[str, ...]
    cwd: Path
    env: Mapping[str, str]
    spill: Path
    timeout: float | None
    keep: int = 12 * 1024
    terminal: bool = False
    kept: bool = False
    spill_half: int = field(default=8 * 1024 * 1024)
    stdin: Path = Path(os.devnull)
    cage: Cage | None = None


class ProcessRunner:
    """``grace``: seconds between TERM and KILL. ``patience``: seconds a keeper gets beyond them
    before it is taken for stuck. ``sandbox``: starts what has a cage."""

    def __init__(
        self, *, grace: float = 2.0, patience: float = 10.0, sandbox: Sandbox | None = None
    ) -> None:
        self._sandbox = sandbox
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
        async with AsyncExitStack() as held:
            launch = Launch(command.argv)
            if command.cage is not None:
                if self._sandbox is None:
                    raise OSError("there is no sandbox to run it in")
                launching = self._sandbox.launch(command.argv, command.cwd, command.cage)
                launch = await held.enter_async_context(launching)
            return await self._kept(command, launch, progress, held)

    async def _kept(
        self, command: Command, launch: Launch, progress: Progress, held: AsyncExitStack
    ) -> Job:
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
            pass_fds=launch.fds,
            limit=max(_LINE, command.keep * 32),
        )
        assert keeper.stdin is not None
        mark = secrets.token_hex(8)
        order = {
            "argv": launch.argv,
            "cwd": str(command.cwd),
            "env": outside(launch, {**command.env, **launch.env, MARK: mark}),
            "stdin": str(command.stdin),
            "fds": launch.fds,
            "rules": dict(launch.rules),
            "spill": str(command.spill),
            "timeout": command.timeout,
            "keep": command.keep,
            "terminal": command.terminal,
            "kept": command.kept,
            "spill_half": command.spill_half,
            "grace": self._grace,
        }
        keeper.stdin.write(json.dumps(order).encode() + b"\n")
        life = None if command.timeout is None else command.timeout + self._grace + self._patience
        patience = self._grace + self._patience
        release = held.pop_all().aclose
        return Job(keeper, mark, progress, life=life, patience=patience, release=release)


def outside(launch: Launch, environ: Mapping[str, str]) -> dict[str, str]:
    """The environment of the program that is started; that of the command, where it is another one,
    goes by its descriptor: ``NAME=VALUE`` with a NUL behind each."""
    if launch.within is None:
        return dict(environ)
    with os.fdopen(os.dup(launch.within), "wb") as file:
        file.writelines(os.fsencode(f"{name}={value}\0") for name, value in environ.items())
    os.lseek(launch.within, 0, os.SEEK_SET)
    marked = {MARK: environ[MARK]} if MARK in environ else {}
    return {"PATH": "/usr/bin:/bin", "LANG": "C.UTF-8", **marked}


def child_environment(
    environ: Mapping[str, str], extra: Mapping[str, str] | None = None
) -> dict[str, str]:
    """The few variables a command needs from ``environ``, settings that keep programs from asking,
    and ``extra`` on top."""
    least = {"PATH": "/usr/local/bin:/usr/bin:/bin", "LANG": "C.UTF-8"}
    allowed = {name: value for name, value in environ.items() if _KEPT.fullmatch(name)}
    return {**least, **allowed, **_QUIET, **(extra or {})}
