"""A server that is a program: started by us, in the environment that commands get and in a cage;
the SDK is given streams. It ends with all its processes."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncGenerator, Callable
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager, suppress
from pathlib import Path
from typing import Any, cast

import anyio
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.shared.message import SessionMessage
from mcp.types import jsonrpc_message_adapter

from ohmo.content import one_line
from ohmo.mcp.contract import Endpoint, ServerFailed
from ohmo.processes.job import outside
from ohmo.processes.process_tree import MARK, descendants, send, send_group, sweep

MOST_BYTES = 16 << 20  # of one message
_GARBAGE = 100  # lines in a row that are no messages, after which it is no server
_LAST = 200  # characters of what it said before it ended
#: Behind which Node.js and others say where it was, and what they are.
_NAMES = re.compile(
    r"(?:\b|[a-z])Error\b|\berror:|Cannot find|[Nn]ot found|No module|No such file|denied"
    r"|of sandbox\."
)
_BESIDE = ("at ", "Node.js v")
_GRACE = 2.0  # seconds to end by itself when its input is closed, as the protocol wants it
_SWIFT = 1.0  # seconds in which its warden ends it
_LATER = 4_096  # processes of the machine that may come while it lives: RLIMIT_NPROC counts all
_ROOT = str(Path(__file__).parents[2])
_BOOT = "import sys; sys.path.append(sys.argv[1]); from ohmo.processes.warden import main; main()"
Streams = tuple[
    MemoryObjectReceiveStream[SessionMessage | Exception], MemoryObjectSendStream[SessionMessage]
]


class Watched:
    """A stream of the SDK that tells when it is over."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream
        self.ended = asyncio.Event()

    @property
    def last_context(self) -> Any:
        """Of whoever sent what was received last, as the SDK asks for it."""
        return getattr(self._stream, "last_context", None)

    async def receive(self) -> Any:
        try:
            return await self._stream.receive()
        except (anyio.EndOfStream, anyio.ClosedResourceError, anyio.BrokenResourceError):
            self.ended.set()
            raise

    async def aclose(self) -> None:
        await self._stream.aclose()

    def close(self) -> None:
        self._stream.close()

    def __aiter__(self) -> Watched:
        return self

    async def __anext__(self) -> Any:
        try:
            return await self.receive()
        except anyio.EndOfStream:
            raise StopAsyncIteration from None

    async def __aenter__(self) -> Watched:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()


class Complaints:
    """What a program says on its standard error, which nobody reads before it ends."""

    def __init__(self) -> None:
        self._tail = b""
        self.caged = False
        self.cut = ""  # why we hear it no more, for its own fault

    def hear(self, data: bytes) -> None:
        self._tail = (self._tail + data)[-4_096:]

    def last(self) -> str:
        """Its last line that names an error, or says anything, to stand behind another one; and
        where it ran."""
        if self.cut:
            return f"; {self.cut}"
        lines = [
            line
            for line in map(str.strip, self._tail.decode("utf-8", "replace").splitlines())
            if any(map(str.isalpha, line)) and not line.startswith(_BESIDE)
        ]
        line = next(filter(_NAMES.search, reversed(lines)), lines[-1] if lines else "")
        plain = "".join(char if char.isprintable() else " " for char in line)
        said = f"; it last said: {plain.strip()[:_LAST]}" if plain else ""
        return f"{said} (in the sandbox: docs/mcp.md says how it is opened)" * self.caged or said


@asynccontextmanager
async def program(endpoint: Endpoint, complaints: Complaints) -> AsyncGenerator[Streams]:
    """Its messages both ways. One that a killed house left behind, which may never read that its
    input is closed, ends first. Raises ServerFailed: it cannot be started."""
    environ = dict(endpoint.env or {})
    if MARK in environ:
        await asyncio.to_thread(sweep, environ[MARK])
    async with AsyncExitStack() as held:
        try:
            process, lifeline = await _started(endpoint, environ, complaints, held)
        except (OSError, ValueError) as error:
            why = getattr(error, "strerror", None) or str(error)
            raise ServerFailed(f"{endpoint.argv[0]} cannot be started: {why}") from None
        to_us, ours = anyio.create_memory_object_stream[SessionMessage | Exception](0)
        to_it, theirs = anyio.create_memory_object_stream[SessionMessage](0)
        tasks = [
            asyncio.create_task(_read(process, to_us, complaints)),
            asyncio.create_task(_write(process, theirs)),
            asyncio.create_task(_drain(process.stderr, complaints.hear)),
        ]
        try:
            yield ours, to_it
        finally:
            await _end(process, tasks, lifeline)
            for stream in (to_us, ours, to_it, theirs):
                stream.close()


async def _started(
    endpoint: Endpoint, environ: dict[str, str], complaints: Complaints, held: AsyncExitStack
) -> tuple[Process, ExitStack]:
    """And what ends it when it is closed. Raises OSError, ValueError."""
    lifeline = held.enter_context(ExitStack())
    argv, cwd, programs = endpoint.argv, endpoint.cwd, endpoint.programs
    cage = await programs.cage(argv, cwd, endpoint.terms) if programs is not None else None
    if programs is None or cage is None:
        return await _spawned(argv, cwd, environ), lifeline
    complaints.caged = True
    launch = await held.enter_async_context(programs.launch(argv, cwd, cage))
    rules: dict[str, Any] = dict(launch.rules)
    if "rlimits" in rules:  # else the backend holds it to its limits itself
        rules["rlimits"] = {**rules["rlimits"], "NPROC": rules["rlimits"]["NPROC"] + _LATER}
    env = outside(launch, {**environ, **launch.env})
    order = {"argv": launch.argv, "cwd": str(cwd), "env": env, "fds": launch.fds, "rules": rules}
    with ExitStack() as passed:
        told = os.memfd_create("order")
        passed.callback(os.close, told)
        with os.fdopen(os.dup(told), "wb") as file:
            file.write(json.dumps(order).encode())
        os.lseek(told, 0, os.SEEK_SET)
        theirs, ours = os.pipe()
        passed.callback(os.close, theirs)
        lifeline.callback(os.close, ours)
        words = (sys.executable, "-I", "-S", "-c", _BOOT, _ROOT, str(told), str(theirs))
        fds = (told, theirs, *launch.fds)
        return await _spawned(words, Path("/"), {"LANG": "C.UTF-8"}, fds), lifeline


async def _spawned(
    argv: tuple[str, ...], cwd: Path, env: dict[str, str], fds: tuple[int, ...] = ()
) -> Process:
    pipes = {"stdin": PIPE, "stdout": PIPE, "stderr": PIPE, "limit": MOST_BYTES}
    more = {"cwd": cwd, "env": env, "start_new_session": True, "pass_fds": fds}
    return await asyncio.create_subprocess_exec(*argv, **cast("dict[str, Any]", pipes | more))


async def _read(
    process: Process,
    to_us: MemoryObjectSendStream[SessionMessage | Exception],
    complaints: Complaints,
) -> None:
    """Until it ends, sends a message that is too long, or nothing but garbage."""
    assert process.stdout is not None
    garbage = 0
    with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
        async with to_us:
            while True:
                try:
                    line = await process.stdout.readline()
                except ValueError:
                    complaints.cut = f"it sent a message of more than {MOST_BYTES >> 20} MiB"
                    return
                if not line:
                    return
                if not line.strip():
                    continue
                try:
                    message = jsonrpc_message_adapter.validate_json(line, by_name=False)
                except ValueError:
                    garbage += 1
                    if garbage < _GARBAGE:
                        continue
                    last = one_line(line.decode("utf-8", "replace"))[:80]
                    complaints.cut = (
                        f"its standard output, which is for messages, had {_GARBAGE} lines in a row"
                        f" that are none, the last: {last}"
                    )
                    return
                garbage = 0
                await to_us.send(SessionMessage(message))


async def _write(process: Process, theirs: MemoryObjectReceiveStream[SessionMessage]) -> None:
    assert process.stdin is not None
    with suppress(OSError, anyio.ClosedResourceError):
        async for message in theirs:
            text = message.message.model_dump_json(by_alias=True, exclude_unset=True)
            process.stdin.write(text.encode() + b"\n")
            await process.stdin.drain()


async def _drain(output: asyncio.StreamReader | None, hear: Callable[[bytes], None]) -> None:
    """A program must not stop because nobody reads it."""
    assert output is not None
    while data := await output.read(1 << 16):
        hear(data)


async def _end(process: Process, tasks: list[asyncio.Task[None]], lifeline: ExitStack) -> None:
    """Also when whoever waits is cancelled."""
    if process.stdin is not None:
        process.stdin.close()
    below = descendants(process.pid)
    tasks[0].cancel()
    await asyncio.wait(tasks[:1])
    # asyncio sees no end of a process whose output nobody reads
    tasks.append(asyncio.create_task(_drain(process.stdout, lambda _: None)))
    try:
        with suppress(TimeoutError):
            async with asyncio.timeout(_GRACE):
                await process.wait()
        lifeline.close()
        with suppress(TimeoutError):
            async with asyncio.timeout(_SWIFT):
                await process.wait()
    finally:
        lifeline.close()
        send_group(process.pid, signal.SIGKILL)
        send(below, signal.SIGKILL)
        await process.wait()
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
