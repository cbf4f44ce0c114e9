"""A small process that stands between the daemon and one command: it captures, bounds and ends
everything the command starts.

The daemon holds the other end of the keeper's stdin. When the daemon dies, however it dies, that
pipe ends and the keeper ends the command. Orphans of the command become the keeper's children (it
is a subreaper), so double forks, ``nohup`` and ``setsid`` do not escape. The first line on stdin is
the order as JSON; later lines are ``stop`` and ``read``; on stdout every line is one JSON report.
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
from contextlib import suppress
from typing import Any

from ohmo.processes.capture import Ends, Spill
from ohmo.processes.process_tree import (
    adopt_orphans,
    descendants,
    die_with_parent,
    reads_terminal,
    send,
    send_group,
)

_CHUNK = 1 << 16
_DRAIN = 1.0  # seconds a pipe may stay open after the last process
ROWS, COLUMNS = 40, 120  # of a command's terminal
_KEYBOARD = 5.0  # seconds a read of the terminal may block


class Keeper:
    """One command from start to the last of its processes."""

    def __init__(self, order: dict[str, Any]) -> None:
        self._grace = float(order["grace"])
        self._keep = int(order["keep"])
        self._deadline = time.monotonic() + float(order["timeout"]) if order["timeout"] else None
        self._spill = Spill(order["spill"], self._keep, int(order["spill_half"]))
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
        self._pipes: dict[int, Ends] = {}
        self._terminal = ""
        self._blocked_since = 0.0
        self._wake, wake = os.pipe()
        os.set_blocking(wake, False)
        signal.set_wakeup_fd(wake)
        signal.signal(signal.SIGCHLD, _wake_up)
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGPIPE):
            signal.signal(number, signal.SIG_IGN)
        self._child = self._start(order)

    def _start(self, order: dict[str, Any]) -> int:
        if order["terminal"]:
            master, slave = os.openpty()
            fcntl.ioctl(
                slave, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0)
            )  # ioctl_tty(2)
            self._terminal = os.ttyname(slave)
            ends, fds = {master: self._out}, (slave, slave, slave)
        else:
            out, out_write = os.pipe()
            err, err_write = os.pipe()
            ends, fds = (
                {out: self._out, err: self._err},
                (os.open(os.devnull, os.O_RDONLY), out_write, err_write),
            )
        parent = os.getpid()
        ready, unready = os.pipe()
        child = os.fork()
        if child == 0:
            _become(order, fds, parent, terminal=bool(order["terminal"]))
        for fd in {*fds, unready}:
            os.close(fd)
        os.read(ready, 1)  # ends when the child closes its copy: until then it would ignore a TERM
        os.close(ready)
        self._pipes = ends
        return child

    def run(self) -> None:
        lifeline = True
        while True:
            waiting = [self._wake, *self._pipes, *([0] if lifeline else [])]
            ready, _, _ = select.select(waiting, [], [], self._patience())
            if self._wake in ready:
                os.read(self._wake, 512)
            for fd in [fd for fd in ready if fd in self._pipes]:
                self._collect(fd)
            if 0 in ready:
                lifeline = self._obey()
            self._reap()
            self._limits()
            if self._done():
                break
        self._finish()

    def _patience(self) -> float | None:
        """Seconds until something is due; None: only events matter."""
        now = time.monotonic()
        due = [at for at in (self._deadline, self._kill_at, self._quit_at) if at is not None]
        if self._status is not None or self._kill_at is not None:
            due.append(now + 0.02)
        if self._terminal or self._told:
            due.append(now + 0.5)
        return max(0.0, min(due) - now) if due else None

    def _collect(self, fd: int) -> None:
        try:
            data = os.read(fd, _CHUNK)
        except OSError:  # a terminal whose other side is closed
            data = b""
        if not data:
            os.close(fd)
            del self._pipes[fd]
            return
        self._pipes[fd].feed(data)
        self._spill.feed(data)
        self._blocked_since = 0.0
        self._last_line = data[-400:]
        self._told = self._told or time.monotonic()

    def _obey(self) -> bool:
        data = os.read(0, 4096)
        if not data:
            self._stop("the daemon went away")
            return False
        self._commands += data
        *lines, self._commands = self._commands.split(b"\n")
        for line in lines:
            if line == b"stop":
                self._stop("stopped")
            elif line == b"read":
                self._report("output", self._output())
                former, self._out, self._err = (
                    self._out,
                    Ends(self._keep, self._keep),
                    Ends(self._keep, self._keep),
                )
                self._pipes = {
                    fd: self._out if ends is former else self._err
                    for fd, ends in self._pipes.items()
                }
        return True

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
                    self._left = len(survivors) if not self._reason else 0
                    if survivors and self._kill_at is None:
                        self._end_all(signal.SIGTERM)
                        self._kill_at = time.monotonic() + self._grace

    def _limits(self) -> None:
        now = time.monotonic()
        if self._deadline is not None and now >= self._deadline and self._status is None:
            self._deadline = None
            self._stop("timeout")
        if self._kill_at is not None and now >= self._kill_at:
            self._end_all(signal.SIGKILL)
        if self._terminal and self._status is None and not self._reason:
            self._watch_keyboard(now)
        if self._told and now - self._told >= 1.0:
            self._report("progress", self._last_line.decode("latin-1"))
            self._told = 0.0

    def _watch_keyboard(self, now: float) -> None:
        if not any(reads_terminal(pid, self._terminal) for pid in descendants(os.getpid())):
            self._blocked_since = 0.0
        elif not self._blocked_since:
            self._blocked_since = now
        elif now - self._blocked_since >= _KEYBOARD:
            self._stop("keyboard")

    def _done(self) -> bool:
        if self._status is None or descendants(os.getpid()):
            return False
        if not self._pipes:
            return True
        self._quit_at = self._quit_at or time.monotonic() + _DRAIN
        return time.monotonic() >= self._quit_at

    def _output(self) -> dict[str, Any]:
        def ends(part: Ends) -> list[Any]:
            head, tail, total = part.take()
            return [head.decode("latin-1"), tail.decode("latin-1"), total]

        return {"out": ends(self._out), "err": ends(self._err)}

    def _finish(self) -> None:
        assert self._status is not None
        if self._reason == "the daemon went away":
            self._spill.drop()
            return
        code = os.waitstatus_to_exitcode(self._status)
        try:
            spill, problem = self._spill.finish(), ""
        except OSError as error:
            spill, problem = None, str(error)
        self._report(
            "ended",
            {
                **self._output(),
                "code": code if code >= 0 else None,
                "signal": signal.Signals(-code).name if code < 0 else None,
                "reason": self._reason,
                "left": self._left,
                "spill": spill,
                "cut": self._spill.cut,
                "problem": problem,
            },
        )

    def _report(self, kind: str, body: object) -> None:
        data = json.dumps({kind: body}).encode() + b"\n"
        with suppress(BrokenPipeError):
            while data:
                data = data[os.write(1, data) :]


def _wake_up(_number: int, _frame: object) -> None:
    """The descriptor of ``set_wakeup_fd`` does the work; a handler must only exist."""


def _become(
    order: dict[str, Any], fds: tuple[int, int, int], parent: int, *, terminal: bool
) -> None:
    """In the child: a session of its own, three descriptors, the working directory, then the
    command. Never returns."""
    try:
        os.setsid()
        die_with_parent()
        if os.getppid() != parent:
            os._exit(125)
        for target, fd in enumerate(fds):
            os.dup2(fd, target)
        if terminal:
            os.close(
                os.open(os.ttyname(0), os.O_RDWR)
            )  # the first terminal a session leader opens controls it
        for number in (
            signal.SIGINT,
            signal.SIGTERM,
            signal.SIGHUP,
            signal.SIGPIPE,
            signal.SIGCHLD,
        ):
            signal.signal(number, signal.SIG_DFL)
        signal.set_wakeup_fd(-1)
        path = "/proc/self/oom_score_adj"
        with suppress(OSError), open(path, "w", encoding="ascii") as score:  # noqa: PTH123
            score.write("500")  # when memory ends, the command goes first, not the daemon
        os.chdir(order["cwd"])
        os.closerange(3, 256)
        os.execvpe(order["argv"][0], order["argv"], order["env"])  # noqa: S606
    except OSError as error:
        os.write(2, f"cannot run {order['argv'][0]}: {error.strerror}\n".encode())
    finally:
        os._exit(126)


def main() -> None:
    """Reads the order and runs it."""
    order = b""
    while not order.endswith(b"\n"):
        byte = os.read(0, 1)  # byte by byte: what follows the line belongs to the loop
        if not byte:
            sys.exit(1)
        order += byte
    adopt_orphans()
    Keeper(json.loads(order)).run()
