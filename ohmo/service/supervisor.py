"""Keeps one daemon where nobody else does: starts it, restarts what crashes or hangs, adopts one
whose supervisor was killed, keeps its log short.

A small process (standard library only): ``python -m ohmo.service.supervisor COMMAND…`` with
OHMO_HOME set. It speaks the protocol of sd_notify(3), so the daemon behaves here as it does under
systemd."""

from __future__ import annotations

import json
import os
import secrets
import select
import signal
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from channels.record import record
from ohmo.processes.process_tree import adopt_orphans, descendants, seal, send
from ohmo.service.protocol import NEVER_AGAIN, STOP_WITHIN, WATCHDOG, reason_in
from ohmo.service.versions import enter
from ohmo.storefile.lock import holder, take

# exit codes after which another start would end the same way, or nobody wants one
FINAL = (0, *NEVER_AGAIN)
_LOG_SIZE = 5 * 1024 * 1024  # bytes of service.log; one older file is kept
_ROUNDS = 100  # of killing what was left; who is stuck in the kernel cannot be waited for
_SUSPENDED = 10.0  # seconds one wait of at most two took: the machine slept, and so did the daemon
_CREDENTIALS = struct.Struct("3i")  # struct ucred, unix(7)


@record
class Timeouts:
    """Seconds."""

    start: float = 300.0  # to the daemon's first READY=1
    hang: float = WATCHDOG  # without a sign of life from the event loop
    abort: float = 5.0  # from SIGABRT, which writes the stacks, to SIGKILL
    stop: float = STOP_WITHIN  # from SIGTERM to SIGKILL
    first: float = 1.0  # between an end and the next start; doubling, up to ``most``
    most: float = 60.0
    quiet: float = 600.0  # a daemon that ran so long is restarted quickly again


class Supervisor:
    """One home, one daemon."""

    def __init__(
        self, home: Path, command: Sequence[str], environ: Mapping[str, str], timeouts: Timeouts
    ) -> None:
        self._home = home
        self._command = command
        self._environ = dict(environ)
        self._timeouts = timeouts
        self._log = home / "logs" / "service.log"
        self._state = home / "run" / "service.state"
        self._asked_to_stop = False
        self._restarts = 0
        self._daemon: int | None = None  # its process
        self._adopted: int | None = None  # descriptor, readable when an adopted daemon has ended
        self._ready = False
        self._beat = 0.0  # monotonic seconds of its last sign of life
        self._kill_at = 0.0  # when it gets SIGKILL; 0: it was not asked to end
        self._wake, wake = os.pipe()
        os.set_blocking(wake, False)
        os.set_blocking(self._wake, False)
        signal.set_wakeup_fd(wake)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._stop)
        signal.signal(signal.SIGHUP, self._hand_on)
        signal.signal(signal.SIGCHLD, _heard)

    def run(self) -> int:
        """Until it is stopped or starting again would not help; 0 then, because whoever keeps us
        shall not start us again."""
        pause = self._timeouts.first
        orphan = self._orphan()
        self._listen(orphan[1] if orphan else "")
        while True:
            began = time.monotonic()
            if orphan:
                pid = self._daemon = orphan[0]
                orphan = None
                self._adopted = os.pidfd_open(pid)
                self._begin(ready=True)
                self._say(f"took over the running daemon {pid}")
                self._write("running", "serving")
            else:
                self._start()
            code = self._watch()
            if self._asked_to_stop:
                return self._end("stopped", "stopped as asked")
            if code in FINAL:
                return self._end("stopped" if code == 0 else "failed", self._last_words(code))
            if time.monotonic() - began > self._timeouts.quiet:
                pause = self._timeouts.first
            why = f"exit code {code}"
            if code is None:
                why = "nobody saw how"
            elif code < 0:
                with suppress(ValueError):
                    why = signal.Signals(-code).name
            self._restarts += 1
            self._say(f"the daemon ended ({why}); start {self._restarts + 1} in {pause:g} s")
            self._write("restarting", f"ended: {why}; again in {pause:g} s")
            # shorter when it is asked to stop; reaps meanwhile whoever was left to us
            until = time.monotonic() + pause
            while not self._asked_to_stop and (left := until - time.monotonic()) > 0:
                select.select([self._wake], [], [], left)
                self._forget_wakes()
                _reap()
            if self._asked_to_stop:
                return self._end("stopped", "stopped as asked")
            pause = min(self._timeouts.most, pause * 2)

    def _listen(self, name: str) -> None:
        """Where the daemon says READY=1 and WATCHDOG=1: a name that lies on no disk on Linux, a
        file elsewhere."""
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.setblocking(False)
        if sys.platform == "linux":
            name = name or f"@ohmo-{secrets.token_hex(12)}"
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
            self._socket.bind("\0" + name[1:])
        else:
            name = str(self._home / "run" / "notify")
            Path(name).unlink(missing_ok=True)
            self._socket.bind(name)
        self._environ |= {
            "NOTIFY_SOCKET": name,
            "WATCHDOG_USEC": str(int(self._timeouts.hang * 1e6)),
        }
        self._environ.setdefault("OHMO_SERVICE", "background")

    def _orphan(self) -> tuple[int, str] | None:
        """A daemon of a supervisor that was killed: its pid and where it speaks. Linux only;
        elsewhere it is found running and left alone."""
        if (pid := holder(self._home / "lock")) is not None:
            with suppress(OSError, ValueError, KeyError, TypeError):
                state = json.loads(self._state.read_text(encoding="utf-8"))
                if state["daemon"] == pid and state["socket"].startswith("@"):
                    return pid, state["socket"]
        return None

    def _start(self) -> None:
        # What an earlier life left below us ends, as systemd's KillMode=mixed ends it: the next
        # daemon could not tell it from its owner.
        for _ in range(_ROUNDS):
            left = descendants(os.getpid())
            if not left:
                break
            send(left, signal.SIGKILL)
            time.sleep(0.01)
            _reap()
        self._begin(ready=False)
        self._write("starting", "")
        folder = self._environ.get("HOME", "/")
        child = subprocess.Popen(  # noqa: S603
            self._command,
            stdin=subprocess.DEVNULL,
            env=self._environ,
            cwd=folder,
            start_new_session=True,
        )
        child.returncode = 0  # we reap it ourselves
        self._daemon = child.pid
        self._write("starting", "")

    def _begin(self, *, ready: bool) -> None:
        self._ready = ready
        self._beat = time.monotonic()
        self._kill_at = 0.0

    def _watch(self) -> int | None:
        """Until the daemon has ended: its exit code, negative for a signal; None when nobody can
        know (it was adopted)."""
        while True:
            before = time.monotonic()
            waits: list[Any] = [self._wake, self._socket]
            if self._adopted is not None:
                waits.append(self._adopted)
            readable, _, _ = select.select(waits, [], [], 1.0 if self._kill_at else 2.0)
            self._forget_wakes()
            self._hear()
            if time.monotonic() - before > _SUSPENDED:
                self._beat = time.monotonic()  # it was us who slept
            over = False
            code = None
            if self._adopted is not None and self._adopted in readable:
                os.close(self._adopted)
                self._adopted = None
                over = True
            with suppress(ChildProcessError):
                while True:
                    pid, status = os.waitpid(-1, os.WNOHANG)
                    if not pid:
                        break
                    if pid == self._daemon:
                        over = True
                        code = os.waitstatus_to_exitcode(status)
            if over:
                self._daemon = None
                return code
            self._judge()
            with suppress(OSError):
                if self._log.stat().st_size > _LOG_SIZE:
                    # copied and cut, not renamed: the daemon appends to the file we gave it
                    older = self._log.with_name("service.log.1")
                    with self._log.open("rb") as source, older.open("wb") as target:
                        while chunk := source.read(1 << 20):
                            target.write(chunk)
                    older.chmod(0o600)
                    os.truncate(self._log, 0)

    def _hear(self) -> None:
        while True:
            try:
                data, extra, _, _ = self._socket.recvmsg(4096, socket.CMSG_SPACE(_CREDENTIALS.size))
            except BlockingIOError:
                return
            sender = self._daemon  # elsewhere than on Linux nobody vouches for it
            for level, _, content in extra:
                if level == socket.SOL_SOCKET:
                    sender = _CREDENTIALS.unpack(content)[0]
            if sender != self._daemon:
                continue  # somebody else's word counts nothing
            for line in data.decode("utf-8", "replace").splitlines():
                if line == "WATCHDOG=1":
                    self._beat = time.monotonic()
                elif line == "READY=1":
                    self._ready = True
                    self._beat = time.monotonic()
                    self._write("running", "serving")

    def _judge(self) -> None:
        """Ends what was asked to end, and what hangs."""
        now = time.monotonic()
        silent = self._timeouts.hang if self._ready else self._timeouts.start
        if self._asked_to_stop and not self._kill_at:
            self._send(signal.SIGTERM)
            self._kill_at = now + self._timeouts.stop
        elif self._kill_at and now > self._kill_at:
            self._send(signal.SIGKILL)
            self._kill_at = now + 1.0
        elif not self._kill_at and now - self._beat > silent:
            self._say(
                f"no sign of life for {now - self._beat:.0f} s: ended; the stack of every thread"
                " stands above or below this line"
            )
            self._send(signal.SIGABRT)
            self._kill_at = now + self._timeouts.abort

    def _send(self, number: int) -> None:
        if self._daemon is not None:
            with suppress(ProcessLookupError):
                os.kill(self._daemon, number)

    def _stop(self, *_: object) -> None:
        self._asked_to_stop = True

    def _hand_on(self, *_: object) -> None:
        self._send(signal.SIGHUP)

    def _forget_wakes(self) -> None:
        """Signals that came are looked at now."""
        with suppress(BlockingIOError):
            os.read(self._wake, 512)

    def _end(self, state: str, detail: str) -> int:
        self._say(f"{state}: {detail}")
        self._write(state, detail)
        return 0

    def _last_words(self, code: int | None) -> str:
        """The line with which the daemon said why."""
        if code == 0:
            return "it was stopped by a signal"
        with suppress(OSError):
            with self._log.open("rb") as file:
                size = file.seek(0, os.SEEK_END)
                file.seek(max(0, size - 8192))
                text = file.read().decode("utf-8", "replace")
            reason = reason_in(text.splitlines())
            if reason:
                return reason
        return f"exit code {code}; ohmo service logs says why"

    def _write(self, state: str, detail: str) -> None:
        body = {
            "state": state,
            "detail": detail,
            "supervisor": os.getpid(),
            "daemon": self._daemon,
            "restarts": self._restarts,
            "at": time.time(),
            "socket": self._environ.get("NOTIFY_SOCKET", ""),
        }
        unfinished = self._state.with_name(".service.state.new")
        with suppress(OSError):  # not synced: a loss of power ends what it tells of
            unfinished.write_text(json.dumps(body), encoding="utf-8")
            unfinished.chmod(0o600)
            unfinished.replace(self._state)

    def _say(self, line: str) -> None:
        now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        with suppress(OSError):
            print(f"{now} service {line}", file=sys.stderr, flush=True)


def _heard(_number: int, _frame: object) -> None:
    """The descriptor of ``set_wakeup_fd`` does the work; a handler must only exist."""


def _reap() -> None:
    """Whoever was left to us and has ended."""
    with suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def timeouts_of(environ: Mapping[str, str]) -> Timeouts:
    """``OHMO_WATCHDOG``: seconds without a sign of life, for whoever wants it stricter or has a
    slow machine."""
    text = environ.get("OHMO_WATCHDOG", "")
    if not text.replace(".", "", 1).isdigit():
        return Timeouts()
    return Timeouts(hang=max(2.0, float(text)))


def main(arguments: Sequence[str]) -> int:
    """Holds the lock of the supervisor while it runs; a second one ends at once with 75."""
    home = Path(os.environ["OHMO_HOME"])
    for folder in (home, home / "run", home / "logs"):
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    lock = os.open(home / "run" / "service.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    if not take(lock):
        return 75
    os.ftruncate(lock, 0)
    os.pwrite(lock, f"{os.getpid()}\n".encode(), 0)
    adopt_orphans()
    seal(os.environ)
    return Supervisor(home, arguments, os.environ, timeouts_of(os.environ)).run()


if __name__ == "__main__":
    enter("ohmo.service.supervisor", supervises=True)
    sys.exit(main(sys.argv[1:]))
