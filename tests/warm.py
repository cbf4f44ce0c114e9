"""``ohmo …`` without its imports: a process that has made them once forks for every daemon and
command.

Imports are two thirds of the processor's time of a start, and tests start hundreds of daemons and
commands. What is forked has read nothing, started no thread and opened no file of ohmo: from there
on it is the command itself, ``ohmo.cli.main``, with its own environment, folder and signals. Tests
whose subject is the start (``cold_start``) and the campaigns start the real program; so does
whoever asks for another program, a locale, a preloaded library or a switch of Python's.
"""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import functools
import importlib
import json
import os
import pkgutil
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Protocol

import pydantic

from tests.children import default_signals, die_with_parent

ROOT = Path(__file__).parents[1]
RUN = (sys.executable, "-m", "ohmo", "run")
# Read before Python's own start: a fork cannot follow them.
_BEFORE_PYTHON = ("LD_", "PYTHON", "MALLOC_", "GLIBC_", "OHMO_LOOP")
_WHEN_CONFIGURED = (
    "ohmo.providers.anthropic.client",
    "ohmo.providers.openai.client",
    "channels.web.adapter",
    *(f"channels.{name}.adapter" for name in ("discord", "feishu", "matrix", "slack", "telegram")),
    "ohmo.processes.keeper",
    "ohmo.providers.offline",
    "httpcore2",
    "markdown_it.tree",
    "truststore",
    "uvloop",
)
_SHELVES = ("ohmo.commands", "ohmo.control", "ohmo.tools")  # of which a start takes all there is
_LARGEST = 1 << 17  # bytes read at once
_PATIENCE = 60.0  # seconds: the imports, on a busy machine


class Process(Protocol):
    """What asyncio.subprocess.Process and a forked daemon have in common."""

    @property
    def pid(self) -> int: ...

    @property
    def returncode(self) -> int | None: ...

    async def wait(self) -> int: ...

    def kill(self) -> None: ...


Start = Callable[[Sequence[str], Mapping[str, str], int, int], Awaitable[Process]]


class Forked:
    """A child of the zygote; ``status`` carries its exit code when it has ended."""

    def __init__(self, pid: int, status: socket.socket) -> None:
        self.pid = pid
        self._status = status
        self._status.setblocking(False)
        self._code: int | None = None

    @property
    def returncode(self) -> int | None:
        if self._code is None:
            with contextlib.suppress(BlockingIOError):
                self._read()
        return self._code

    def _read(self) -> None:
        word = self._status.recv(64)
        # No word: the zygote is gone, and its children with it.
        self._code = int(word) if word else -signal.SIGKILL
        self._status.close()

    async def wait(self) -> int:
        while self.returncode is None:
            readable = asyncio.Event()
            loop = asyncio.get_running_loop()
            loop.add_reader(self._status, readable.set)
            try:
                await readable.wait()
            finally:
                loop.remove_reader(self._status)
        assert self._code is not None
        return self._code

    def kill(self) -> None:
        if self.returncode is None:
            os.kill(self.pid, signal.SIGKILL)


class Zygote:
    """The process that forks, for the tests of one worker."""

    def __init__(self) -> None:
        self._orders, theirs = socket.socketpair()
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.warm", str(theirs.fileno())],
                cwd=ROOT,
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                env={"PATH": os.environ["PATH"], "HOME": "/nonexistent"},
            )  # ends with the orders: not with its parent, which may be a thread

    @property
    def alive(self) -> bool:
        return self._process.poll() is None

    def fork(
        self, words: Sequence[str], folder: str, environ: Mapping[str, str], fds: Sequence[int]
    ) -> tuple[int, socket.socket]:
        """``fds``: standard input, output, errors. Its pid, and where its exit code will be said.
        Raises OSError when the zygote is gone."""
        # its pid and its end are two messages, also where both are there at once
        status, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            order = json.dumps([list(words), folder, dict(environ)]).encode() + b"\n"
            socket.send_fds(self._orders, [order], [*fds, theirs.fileno()])
        status.settimeout(_PATIENCE)
        return int(status.recv(64)), status


class _Worker:
    """What the tests of one worker share."""

    def __init__(self) -> None:
        self.cold = False  # the test that runs is marked
        self._lock = threading.Lock()  # commands are also typed by threads
        self._zygote: Zygote | None = None

    def zygote(self) -> Zygote:
        """A test that hung may have taken the last one along."""
        with self._lock:
            if self._zygote is None or not self._zygote.alive:
                self._zygote = Zygote()
            return self._zygote


@functools.cache
def worker() -> _Worker:
    return _Worker()


async def start(
    command: Sequence[str], environ: Mapping[str, str], out: int, errors: int
) -> Process:
    """As ``cold``, from the zygote where that is the same."""
    if tuple(command) != RUN or any(name.startswith(_BEFORE_PYTHON) for name in environ):
        return await cold(command, environ, out, errors)
    with Path(os.devnull).open("rb") as nothing:
        pid, status = (
            worker().zygote().fork(("run",), str(ROOT), environ, (nothing.fileno(), out, errors))
        )
    return Forked(pid, status)


def follows(environ: Mapping[str, str]) -> bool:
    """Whether a command with this environment may be a fork, in the test that runs."""
    return not worker().cold and not any(
        name.startswith(_BEFORE_PYTHON) or (name.startswith(("LANG", "LC_")) and value != "C.UTF-8")
        for name, value in environ.items()
    )


def ohmo(
    *words: str, folder: Path, environ: Mapping[str, str], stdin: str, within: float
) -> subprocess.CompletedProcess[str]:
    """One command line to its end. ``within``: seconds; raises subprocess.TimeoutExpired."""
    with contextlib.ExitStack() as open_files:
        given, out, errors = (open_files.enter_context(tempfile.TemporaryFile()) for _ in range(3))
        given.write(stdin.encode())
        given.seek(0)
        pid, status = (
            worker()
            .zygote()
            .fork(words, str(folder), environ, (given.fileno(), out.fileno(), errors.fileno()))
        )
        open_files.enter_context(status)
        status.settimeout(within)
        try:
            code = int(status.recv(64) or -signal.SIGKILL)
        except TimeoutError:
            os.kill(pid, signal.SIGKILL)
            raise subprocess.TimeoutExpired(["ohmo", *words], within) from None
        for file in (out, errors):
            file.seek(0)
        return subprocess.CompletedProcess(
            ["ohmo", *words], code, out.read().decode(), errors.read().decode()
        )


async def cold(
    command: Sequence[str], environ: Mapping[str, str], out: int, errors: int
) -> Process:
    """The program itself. ``out``, ``errors``: file descriptors."""
    return await asyncio.create_subprocess_exec(
        *command,
        cwd=ROOT,
        env=environ,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=out,
        stderr=errors,
        preexec_fn=die_with_parent,
    )


# in the zygote


def _import_the_house() -> None:
    """What ``ohmo run`` imports until it is ready, in its order (``ohmo.cli.commands.run``)."""
    import gc

    gc.disable()  # as the command does; what it collects is the daemon's own
    import ohmo.cli.commands.run
    import ohmo.cli.home_config
    import ohmo.config.load
    from channels.entry_points import offered
    from ohmo.cli.connect import import_structlog_alone

    import_structlog_alone()
    offered("")  # read again where packages came or went

    import ohmo.daemon.serving
    import ohmo.tools.search.engine  # noqa: F401 - the imports are the purpose

    for name in _WHEN_CONFIGURED:
        importlib.import_module(name)
    for shelf in _SHELVES:
        for one in pkgutil.iter_modules(importlib.import_module(shelf).__path__, f"{shelf}."):
            importlib.import_module(one.name)
    _build_the_forms(pydantic.BaseModel)


def _build_the_forms(above: type[pydantic.BaseModel]) -> None:
    """Which every start would build at its first use."""
    for form in above.__subclasses__():
        if form.__module__.startswith("ohmo."):
            form.model_rebuild()
        _build_the_forms(form)


def _serve(orders: socket.socket) -> list[str] | None:
    """Forks for every order; its words in the child, None when there are no more."""
    woken, waking = socket.socketpair()
    for end in (woken, waking):
        end.setblocking(False)
    signal.set_wakeup_fd(waking.fileno(), warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    living: dict[int, int] = {}
    while True:
        readable, _, _ = select.select([orders, woken], [], [])
        if woken in readable:
            with contextlib.suppress(BlockingIOError):
                woken.recv(4096)
            _report(living)
        if orders not in readable:
            continue
        order, fds, _, _ = socket.recv_fds(orders, _LARGEST, 4)
        if not order:
            return None
        while not order.endswith(b"\n"):
            order += orders.recv(_LARGEST)
        *streams, status = fds
        pid = os.fork()
        if pid == 0:
            signal.set_wakeup_fd(-1)
            for mine in (
                *living.values(),
                status,
                orders.detach(),
                woken.detach(),
                waking.detach(),
            ):
                os.close(mine)
            words, folder, environ = json.loads(order)
            _become(folder, environ, streams)
            return words
        living[pid] = status
        for stream in streams:
            os.close(stream)
        os.write(status, str(pid).encode())


def _report(living: dict[int, int]) -> None:
    with contextlib.suppress(ChildProcessError):
        while living:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if pid == 0:
                return
            report = living.pop(pid)
            with contextlib.suppress(OSError):  # nobody waits for it any more
                os.write(report, str(os.waitstatus_to_exitcode(status)).encode())
            os.close(report)


def _become(folder: str, environ: Mapping[str, str], streams: Sequence[int]) -> None:
    """The process that ``cold`` would have started."""
    die_with_parent()
    default_signals()
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environ)
    time.tzset()


def _end(code: object) -> None:
    """As Python ends, but for what costs a fork a copy of every page: taking modules apart."""
    threading._shutdown()  # type: ignore[attr-defined] # waits for threads that are no daemons
    atexit._run_exitfuncs()
    if isinstance(code, str):
        print(code, file=sys.stderr)
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code if isinstance(code, int) else int(code is not None))


def main() -> None:
    import gc

    import ohmo.cli.main

    _import_the_house()
    gc.freeze()
    # A fork takes neither threads nor what they hold along.
    assert threading.active_count() == 1, threading.enumerate()
    words = _serve(socket.socket(fileno=int(sys.argv[1])))
    if words is not None:
        sys.argv[:] = ["ohmo", *words]
        gc.enable()
        try:
            ohmo.cli.main.main()
        except SystemExit as end:
            _end(end.code)
    _end(0)


if __name__ == "__main__":
    main()
