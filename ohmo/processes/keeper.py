"""A small process that stands between the daemon and one command: it captures, bounds and ends
everything the command starts, keeps head and tail of its outputs, and spills the whole to a file.

The daemon holds the other end of the keeper's stdin. When the daemon dies, however it dies, that
pipe ends and the keeper ends the command. Orphans of the command become the keeper's children (it
is a subreaper), so double forks, ``nohup`` and ``setsid`` do not escape. The first line on stdin is
the order as JSON; later lines are ``stop``, ``leave`` (the daemon stops) and ``read``; on stdout
every line is one JSON report. ``kept``: all of the output and its end stay in files.
"""

from __future__ import annotations

import fcntl
import json
import os
import select
import signal
import struct
import sys
import termios
import time
from collections import deque
from contextlib import suppress
from functools import partial
from typing import Any

from ohmo.processes.confinement import Guard, confine
from ohmo.processes.process_tree import (
    adopt_orphans,
    become,
    descendants,
    reads_terminal,
    send,
    send_group,
)
from ohmo.processes.spill import Spill

_CHUNK = 1 << 16
_DRAIN = 1.0  # seconds a pipe may stay open after the last process
ROWS, COLUMNS = 40, 120  # of a command's terminal
_KEYBOARD = 5.0  # seconds a read of the terminal may block
WITH_THE_DAEMON = "the daemon ended, and its commands with it"


class Keeper:
    """One command from start to the last of its processes. ``said``: what followed its order."""

    def __init__(self, order: dict[str, Any], said: bytes = b"") -> None:
        self._grace = float(order["grace"])
        self._keep = int(order["keep"])
        self._deadline = time.monotonic() + float(order["timeout"]) if order["timeout"] else None
        self._kept = bool(order["kept"])
        quiet = 0 if self._kept else self._keep
        self._spill = Spill(order["spill"], quiet, int(order["spill_half"]))
        self._out = Ends(self._keep, self._keep)
        self._err = Ends(self._keep, self._keep)
        self._reason = ""
        self._status: int | None = None
        self._left = 0
        self._kill_at: float | None = None
        self._quit_at: float | None = None
        self._last_line = b""
        self._told = 0.0
        self._commands = b""
        self._said = said
        self._pipes: dict[int, Ends] = {}
        self._terminal = ""
        self._blocked_since = 0.0
        self._own = order["rules"].get("own", 0)  # of the cage: they end a moment later
        self._guard = Guard(order["rules"]) if order["rules"] else None
        self._wake, wake = os.pipe()
        os.set_blocking(wake, False)
        signal.set_wakeup_fd(wake)
        signal.signal(signal.SIGCHLD, _wake_up)
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGPIPE):
            signal.signal(number, signal.SIG_IGN)
        if order["terminal"]:
            master, slave = os.openpty()
            size = struct.pack("HHHH", ROWS, COLUMNS, 0, 0)
            fcntl.ioctl(slave, termios.TIOCSWINSZ, size)  # ioctl_tty(2)
            self._terminal = os.ttyname(slave)
            self._pipes = {master: self._out}
            fds = (slave, slave, slave)
        else:
            out, out_write = os.pipe()
            err, err_write = os.pipe()
            self._pipes = {out: self._out, err: self._err}
            fds = (os.open(order["stdin"], os.O_RDONLY), out_write, err_write)
        parent = os.getpid()
        ready, unready = os.pipe()
        self._child = os.fork()
        if self._child == 0:
            give_up = partial(confine, order["rules"])
            become(order["argv"], order["cwd"], order["env"], fds, parent, order["fds"], give_up)
        for fd in {*fds, unready, *order["fds"]}:
            os.close(fd)
        os.read(ready, 1)  # ends when the child closes its copy: until then it would ignore a TERM
        os.close(ready)

    def run(self) -> None:
        lifeline = True
        self._heed(self._said)
        while True:
            waiting = [self._wake, *self._pipes]
            if lifeline:
                waiting.append(0)
            now = time.monotonic()
            due = [at for at in (self._deadline, self._kill_at, self._quit_at) if at is not None]
            if self._status is not None or self._kill_at is not None:
                due.append(now + 0.02)
            if self._guard is not None:
                due.append(now + Guard.PAUSE)
            if self._terminal or self._told:
                due.append(now + 0.5)
            # Without anything due only events matter.
            seconds = max(0.0, min(due) - now) if due else None
            ready, _, _ = select.select(waiting, [], [], seconds)
            if self._wake in ready:
                os.read(self._wake, 512)
            for fd in [fd for fd in ready if fd in self._pipes]:
                try:
                    data = os.read(fd, _CHUNK)
                except OSError:  # a terminal whose other side is closed
                    data = b""
                if not data:
                    os.close(fd)
                    del self._pipes[fd]
                    continue
                self._pipes[fd].feed(data)
                self._spill.feed(data)
                self._blocked_since = 0.0
                self._last_line = data[-400:]
                self._told = self._told or time.monotonic()
            if 0 in ready:
                lifeline = self._obey()
            self._reap()
            self._limits()
            if self._status is None or descendants(os.getpid()):
                continue
            self._quit_at = self._quit_at or time.monotonic() + _DRAIN
            if not self._pipes or time.monotonic() >= self._quit_at:
                break
        self._finish()

    def _obey(self) -> bool:
        data = os.read(0, 4096)
        if not data:
            self._stop(WITH_THE_DAEMON)
            return False
        self._heed(data)
        return True

    def _heed(self, data: bytes) -> None:
        """Lines that the daemon said."""
        self._commands += data
        *lines, self._commands = self._commands.split(b"\n")
        for line in lines:
            if line == b"stop":
                self._stop("stopped")
            elif line == b"leave":
                self._stop(WITH_THE_DAEMON)
            elif line == b"read":
                self._report("output", self._output())
                former = self._out
                self._out = Ends(self._keep, self._keep)
                self._err = Ends(self._keep, self._keep)
                for fd, ends in self._pipes.items():
                    self._pipes[fd] = self._out if ends is former else self._err

    def _stop(self, reason: str) -> None:
        if self._kill_at is None:
            self._reason = self._reason or reason
            self._end_all(signal.SIGTERM)
            self._kill_at = time.monotonic() + self._grace

    def _end_all(self, number: int) -> None:
        if self._status is None:
            send_group(self._child, number)
        below = descendants(os.getpid())
        send(below, number)
        if number == signal.SIGTERM:
            send(below, signal.SIGCONT)  # a stopped process cannot end

    def _reap(self) -> None:
        with suppress(ChildProcessError):
            while True:
                pid, status = os.waitpid(-1, os.WNOHANG)
                if pid == 0:
                    break
                if pid == self._child:
                    self._status = status
                    survivors = descendants(os.getpid())
                    self._left = max(0, len(survivors) - self._own) if not self._reason else 0
                    if survivors and self._kill_at is None:
                        self._end_all(signal.SIGTERM)
                        self._kill_at = time.monotonic() + self._grace

    def _limits(self) -> None:
        now = time.monotonic()
        if self._deadline is not None and now >= self._deadline and self._status is None:
            self._deadline = None
            self._stop("timeout")
        if self._guard is not None and self._status is None and not self._reason:
            too_much = self._guard.too_much(lambda: descendants(os.getpid()))
            if too_much:
                self._stop(too_much)
                self._kill_at = now
        if self._kill_at is not None and now >= self._kill_at:
            self._end_all(signal.SIGKILL)
        if self._terminal and self._status is None and not self._reason:
            if not any(reads_terminal(pid, self._terminal) for pid in descendants(os.getpid())):
                self._blocked_since = 0.0
            elif not self._blocked_since:
                self._blocked_since = now
            elif now - self._blocked_since >= _KEYBOARD:
                self._stop("keyboard")
        if self._told and now - self._told >= 1.0:
            self._report("progress", self._last_line.decode("latin-1"))
            self._told = 0.0

    def _output(self) -> dict[str, Any]:
        def ends(part: Ends) -> list[Any]:
            head, tail, total = part.take()
            return [head.decode("latin-1"), tail.decode("latin-1"), total]

        return {"out": ends(self._out), "err": ends(self._err)}

    def _finish(self) -> None:
        assert self._status is not None
        if self._reason == WITH_THE_DAEMON and not self._kept:
            self._spill.drop()
            return
        code = os.waitstatus_to_exitcode(self._status)
        spill, problem = None, ""
        try:
            spill = self._spill.finish()
        except OSError as error:
            problem = str(error)
        ended = {
            "code": code if code >= 0 else None,
            "signal": signal.Signals(-code).name if code < 0 else None,
            "reason": self._reason,
            "left": self._left,
            "spill": spill,
            "cut": self._spill.cut,
            "problem": problem,
        }
        if self._kept:
            with suppress(OSError):  # the daemon of now hears of it
                self._spill.note(json.dumps(ended).encode())
        self._report("ended", {**self._output(), **ended})

    def _report(self, kind: str, body: object) -> None:
        data = json.dumps({kind: body}).encode() + b"\n"
        with suppress(BrokenPipeError):
            while data:
                data = data[os.write(1, data) :]


def _wake_up(_number: int, _frame: object) -> None:
    """The descriptor of ``set_wakeup_fd`` does the work; a handler must only exist."""


class Ends:
    """The first and the last bytes of a stream."""

    def __init__(self, head: int, tail: int) -> None:
        self._head_room = head
        self._tail_room = tail
        self._head = bytearray()
        self._tail: deque[bytes] = deque()
        self._tail_size = 0
        self.total = 0

    def feed(self, data: bytes) -> None:
        self.total += len(data)
        free = self._head_room - len(self._head)
        if free > 0:
            self._head += data[:free]
            data = data[free:]
        if not data:
            return
        self._tail.append(data[-self._tail_room :])
        self._tail_size += len(self._tail[-1])
        while self._tail_size - len(self._tail[0]) >= self._tail_room:
            self._tail_size -= len(self._tail.popleft())

    def take(self) -> tuple[bytes, bytes, int]:
        """Head, tail and the true size."""
        tail = b"".join(self._tail)
        return bytes(self._head), tail[-self._tail_room :] if tail else b"", self.total


def main() -> None:
    """Reads the order and runs it."""
    order = b""
    while b"\n" not in order:
        data = os.read(0, _CHUNK)
        if not data:
            sys.exit(1)
        order += data
    order, _, said = order.partition(b"\n")
    adopt_orphans()
    Keeper(json.loads(order), said).run()
