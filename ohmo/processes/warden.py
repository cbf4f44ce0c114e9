"""A small process above one program that lives long and speaks over its own standard streams, an
MCP server: it confines the program, holds all that it starts to the limits of its cage, and ends it
with the daemon. Only its words about that are its own, on standard error.

``warden ORDER LIFELINE``: two descriptors, a file with the order as JSON, and a pipe whose other
end the daemon holds.
"""

from __future__ import annotations

import json
import os
import select
import signal
import sys
import time
from contextlib import suppress
from functools import partial
from typing import Any

from ohmo.processes.confinement import Guard, confine
from ohmo.processes.process_tree import adopt_orphans, become, descendants, send

_PAUSE = 0.5  # seconds between two looks at what it takes


def main() -> None:
    """Ends with the program, as it ended."""
    order_fd, lifeline = int(sys.argv[2]), int(sys.argv[3])
    with os.fdopen(order_fd, "rb") as file:
        order: dict[str, Any] = json.loads(file.read())
    adopt_orphans()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)  # the daemon says when
    wake, woken = os.pipe()
    os.set_blocking(woken, False)
    signal.set_wakeup_fd(woken)
    signal.signal(signal.SIGCHLD, _wake_up)
    parent = os.getpid()
    child = os.fork()
    if child == 0:
        give_up = partial(confine, order["rules"])
        become(order["argv"], order["cwd"], order["env"], (0, 1, 2), parent, order["fds"], give_up)
    nothing = os.open(os.devnull, os.O_RDWR)
    for fd in (0, 1):  # who reads of them shall see when the program closes its own
        os.dup2(nothing, fd)
    for fd in order["fds"]:
        os.close(fd)
    os._exit(_watch(child, wake, lifeline, Guard(order["rules"])))


def _wake_up(_number: int, _frame: object) -> None:
    """The descriptor of ``set_wakeup_fd`` does the work; a handler must only exist."""


def _watch(child: int, wake: int, lifeline: int, guard: Guard) -> int:
    status: int | None = None
    while status is None:
        ready, _, _ = select.select([wake, lifeline], [], [], _PAUSE)
        if wake in ready:
            os.read(wake, 512)
        if lifeline in ready:
            break
        if too_much := guard.too_much(lambda: descendants(os.getpid())):
            os.write(2, f"ended: {too_much}\n".encode())
            break
        status = _reaped(child)
    while below := descendants(os.getpid()):
        send(below, signal.SIGKILL)
        found = _reaped(child)
        status = found if status is None else status
        time.sleep(0.005)
    code = os.waitstatus_to_exitcode(status) if status is not None else -signal.SIGKILL
    return code if code >= 0 else 128 - code


def _reaped(child: int) -> int | None:
    """How the child ended; None: not among those that did."""
    found = None
    with suppress(ChildProcessError):
        while True:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if pid == 0:
                break
            found = status if pid == child else found
    return found
