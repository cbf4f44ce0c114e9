"""``ohmo run`` without its imports: a process that has made them once forks for every daemon.

Imports are two thirds of the processor's time of a start, and the fault rows start hundreds of
daemons. What is forked has read nothing, started no thread and opened no file of ohmo: from there
on it is the command itself, ``ohmo.cli.main``, with its own environment and signals. Tests whose
subject is the start (and the campaigns, and ``tests/journeys``) start the real program; so does
whoever asks for another command, a preloaded library or a switch of Python's.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import importlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Protocol

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
    "markdown_it.tree",
    "uvloop",
)
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
                preexec_fn=die_with_parent,  # noqa: PLW1509 - it only makes a system call
            )

    @property
    def alive(self) -> bool:
        return self._process.poll() is None

    def fork(self, environ: Mapping[str, str], out: int, errors: int) -> Forked:
        """``out``, ``errors``: file descriptors. Raises OSError when the zygote is gone."""
        status, theirs = socket.socketpair()
        with theirs:
            order = json.dumps(dict(environ)).encode() + b"\n"
            socket.send_fds(self._orders, [order], [out, errors, theirs.fileno()])
        status.settimeout(_PATIENCE)
        return Forked(int(status.recv(64)), status)


@functools.cache
def _zygotes() -> list[Zygote]:
    """The one of this worker, the last of the list: a test that hung may have taken it along."""
    return []


async def start(
    command: Sequence[str], environ: Mapping[str, str], out: int, errors: int
) -> Process:
    """As ``cold``, from the zygote where that is the same."""
    if tuple(command) != RUN or any(name.startswith(_BEFORE_PYTHON) for name in environ):
        return await cold(command, environ, out, errors)
    zygotes = _zygotes()
    if not zygotes or not zygotes[-1].alive:
        zygotes[:] = [Zygote()]
    return zygotes[-1].fork(environ, out, errors)


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
    from ohmo.cli.connect import import_structlog_without_rich

    import_structlog_without_rich()

    import ohmo.daemon.serving
    import ohmo.tools.search.engine  # noqa: F401 - the imports are the purpose

    for name in _WHEN_CONFIGURED:
        importlib.import_module(name)


def _serve(orders: socket.socket) -> bool:
    """Forks for every order; True in the child, False when there are no more."""
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
        order, fds, _, _ = socket.recv_fds(orders, _LARGEST, 3)
        if not order:
            return False
        while not order.endswith(b"\n"):
            order += orders.recv(_LARGEST)
        out, errors, status = fds
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
            _become(json.loads(order), out, errors)
            return True
        living[pid] = status
        os.close(out)
        os.close(errors)
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


def _become(environ: Mapping[str, str], out: int, errors: int) -> None:
    """The process that ``cold`` would have started."""
    die_with_parent()
    default_signals()
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)
    os.dup2(out, 1)
    os.dup2(errors, 2)
    os.close(out)
    os.close(errors)
    os.environ.clear()
    os.environ.update(environ)
    time.tzset()


def main() -> None:
    import threading

    _import_the_house()
    # A fork takes neither threads nor what they hold along.
    assert threading.active_count() == 1, threading.enumerate()
    if _serve(socket.socket(fileno=int(sys.argv[1]))):
        import ohmo.cli.main

        sys.argv[:] = ["ohmo", "run"]
        ohmo.cli.main.main()


if __name__ == "__main__":
    main()
