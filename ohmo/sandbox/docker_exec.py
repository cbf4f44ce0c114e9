"""One command in a container that runs: its streams, its end, and TERM as TERM of everything that
it started. A program of its own, which the keeper starts as any other; without packages, as it
starts with every command, and the official SDK takes half a second. The API of the engine is HTTP
(Docker Engine API, "Exec"), spoken by version 1.0 so that no answer comes in chunks."""

from __future__ import annotations

import json
import os
import signal
import socket
import sys
import threading
import tty
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from typing import Any

#: Every process of the user in the container but the asking one: kill(2) with -1.
_TERM = "kill -TERM -1; kill -CONT -1; sleep 1.5; kill -KILL -1"  # before the keeper's own KILL
_HEADER = 8  # bytes before each piece: which stream, three of nothing, its size
_PIECE = 1 << 16


def ask(
    engine: str, method: str, target: str, body: object = None
) -> tuple[int, bytes, socket.socket]:
    """Status, what of the answer came with its head, and the connection, whose end is the end of
    the answer. ``engine``: its socket. Raises OSError."""
    text = b"" if body is None else json.dumps(body).encode()
    with ExitStack() as held:
        made = held.enter_context(socket.socket(socket.AF_UNIX))
        made.connect(engine)
        head = f"{method} {target} HTTP/1.0\r\nHost: docker\r\nContent-Type: application/json\r\n"
        made.sendall(f"{head}Content-Length: {len(text)}\r\n\r\n".encode() + text)
        got = b""
        while b"\r\n\r\n" not in got:
            more = made.recv(_PIECE)
            if not more:
                raise OSError("the container engine said nothing")
            got += more
        held.pop_all()
    head, _, rest = got.partition(b"\r\n\r\n")
    return int(head.split(None, 2)[1]), rest, made


def told(engine: str, method: str, target: str, body: object = None) -> Any:
    """The whole answer, from JSON. Raises OSError with what the engine said."""
    status, text, connection = ask(engine, method, target, body)
    with connection:
        while more := connection.recv(_PIECE):
            text += more
    if status >= 300:
        raise OSError(f"the container engine says {status}: {text.decode(errors='replace')[:500]}")
    return json.loads(text) if text.strip() else None


def prepared(engine: str, container: str, words: list[str], **more: object) -> str:
    """The id of an exec that is not started."""
    order = {"AttachStdout": True, "AttachStderr": True, "Cmd": words, **more}
    return told(engine, "POST", f"/containers/{container}/exec", order)["Id"]


def started(engine: str, exec_id: str, *, terminal: bool = False) -> tuple[bytes, socket.socket]:
    order = {"Detach": False, "Tty": terminal}
    status, rest, connection = ask(engine, "POST", f"/exec/{exec_id}/start", order)
    if status not in (101, 200):
        connection.close()
        raise OSError(f"the container engine did not start it: {rest.decode(errors='replace')}")
    return rest, connection


def pieces(rest: bytes, connection: socket.socket) -> Iterator[tuple[int, bytes]]:
    """Of which stream, and what."""
    while True:
        while len(rest) < _HEADER or len(rest) < _HEADER + int.from_bytes(rest[4:8], "big"):
            more = connection.recv(_PIECE)
            if not more:
                return
            rest += more
        end = _HEADER + int.from_bytes(rest[4:8], "big")
        yield rest[0], rest[_HEADER:end]
        rest = rest[end:]


def code_of(engine: str, exec_id: str) -> int:
    """Of one whose streams have ended."""
    code = told(engine, "GET", f"/exec/{exec_id}/json")["ExitCode"]
    return 126 if code is None else int(code)


def main() -> None:
    """``environment engine container user cwd word ...``; the first is a descriptor."""
    environment, engine, container, user, cwd, *words = sys.argv[2:]
    try:
        with os.fdopen(int(environment), "rb") as file:
            env = os.fsdecode(file.read()).split("\0")[:-1]
        sys.exit(_run(engine, container, user, cwd, words, env))
    except OSError as error:
        print(f"no cage: {error}", file=sys.stderr)
        sys.exit(126)


def _run(engine: str, container: str, user: str, cwd: str, words: list[str], env: list[str]) -> int:
    terminal = os.isatty(0)
    more = {
        "User": user,
        "WorkingDir": cwd,
        "Tty": terminal,
        "AttachStdin": not terminal,
        "Env": env,
    }
    exec_id = prepared(engine, container, words, **more)

    def end(_number: int, _frame: object) -> None:
        with suppress(OSError):
            ending = prepared(engine, container, ["/bin/bash", "-c", _TERM], User=user)
            told(engine, "POST", f"/exec/{ending}/start", {"Detach": True})

    signal.signal(signal.SIGTERM, end)
    rest, connection = started(engine, exec_id, terminal=terminal)
    with connection:
        if terminal:
            _relay(rest, connection)
        else:
            threading.Thread(target=_feed, args=(connection,), daemon=True).start()
            for stream, data in pieces(rest, connection):
                _written(2 if stream == 2 else 1, data)
    return code_of(engine, exec_id)


def _feed(connection: socket.socket) -> None:
    with suppress(OSError):
        while data := os.read(0, _PIECE):
            connection.sendall(data)
        connection.shutdown(socket.SHUT_WR)


def _relay(rest: bytes, connection: socket.socket) -> None:
    """The terminal inside has its lines ended already."""
    tty.setraw(1)
    while rest:
        _written(1, rest)
        rest = b""
    while data := connection.recv(_PIECE):
        _written(1, data)


def _written(fd: int, data: bytes) -> None:
    while data:
        data = data[os.write(fd, data) :]
