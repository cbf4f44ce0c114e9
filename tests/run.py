"""``python -m tests.run [--within SECONDS] [--strict] PYTEST_ARGS``: one run of pytest that has an
end and leaves nothing behind.

It needs nothing of the shell it was started from (ignored or blocked signals, a terminal, a umask),
ends after ``--within`` whatever hangs, and then names what is still there of it: processes that
descend from it (whoever lost its parent is handed to this process, prctl(2)
PR_SET_CHILD_SUBREAPER), mounts, folders and sockets below its own TMPDIR. All of that is removed;
with ``--strict`` a run that left something has failed. ``OHMO_TEST_KEEP=1`` keeps the folder of the
tests for whoever looks for a fault.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import os
import resource
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from tests.children import default_signals, descendants, described, die_with_parent

GRACE = 5.0  # seconds for what is just ending
LAST_WORDS = 20.0  # seconds for pytest to say what it was at, once it was told to end
OVER = 124  # as timeout(1)
SUBREAPER = 36


class Run:
    """``within``: seconds."""

    def __init__(self, within: float, words: Sequence[str]) -> None:
        self._deadline = time.monotonic() + within
        self._within = within
        self.folder = Path(tempfile.mkdtemp(prefix="ohmo-"))
        self.folder.chmod(0o711)  # PostgreSQL runs under another user where the tests are root
        self._ended: int | None = None
        self._told: list[int] = []
        self._woken, waking = socket.socketpair()
        for end in (self._woken, waking):
            end.setblocking(False)
        self._waking = waking
        signal.set_wakeup_fd(waking.fileno())
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            # who may not be reached from the keyboard stays so
            if signal.getsignal(number) != signal.SIG_IGN:
                signal.signal(number, lambda told, _: self._told.append(told))
        signal.signal(signal.SIGCHLD, lambda *_: None)
        with contextlib.suppress(OSError, AttributeError):
            ctypes.CDLL(None).prctl(SUBREAPER, 1)
        base = (
            []
            if any(word.startswith("--basetemp") for word in words)
            else ["--basetemp", str(self.folder / "t")]
        )
        self._pytest = subprocess.Popen(
            [sys.executable, "-m", "pytest", *base, *words],
            env={**os.environ, "TMPDIR": str(self.folder)},
            stdin=subprocess.DEVNULL,
            start_new_session=True,
            umask=0o022,
            preexec_fn=_begin,  # noqa: PLW1509 - no thread runs here
        )

    def wait(self) -> int:
        """The exit code of pytest, or why there is none."""
        said = ""
        while self._ended is None:
            left = self._deadline - time.monotonic()
            if self._told:
                how = self._told.pop(0)
                said = said or f"ended by {signal.Signals(how).name}"
                self._end(signal.SIGINT)
            elif left <= 0:
                if said:
                    break
                said = f"not done within {self._within:g} s"
                self._end(signal.SIGINT)
            self._sleep(min(max(left, 0.1), 1.0))
        if said:
            print(f"tests: {said}", file=sys.stderr)
        if self._ended is None or said.startswith("not"):
            return OVER
        return self._ended if self._ended >= 0 else 128 - self._ended

    def leftovers(self) -> list[str]:
        """What is still there, one line each; it is gone afterwards."""
        until = time.monotonic() + GRACE
        while descendants(os.getpid()) and time.monotonic() < until:
            self._sleep(0.1)
        found = [described(pid) for pid in descendants(os.getpid())]
        until = time.monotonic() + GRACE
        while (left := descendants(os.getpid())) and time.monotonic() < until:
            for pid in left:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            self._sleep(0.1)
        for place in _mounts(self.folder):
            found.append(f"mount {place}")
            subprocess.run(["umount", "-l", place], check=False, timeout=30)
        found += [
            f"{_kind(path)} {path}" for path in sorted(self.folder.iterdir()) if path.name != "t"
        ]
        if os.environ.get("OHMO_TEST_KEEP"):
            print(f"tests: kept {self.folder}", file=sys.stderr)
        else:
            shutil.rmtree(self.folder, onerror=_opened)
        return found

    def _end(self, how: signal.Signals) -> None:
        self._deadline = time.monotonic() + LAST_WORDS
        with contextlib.suppress(ProcessLookupError):
            os.kill(self._pytest.pid, how)

    def _sleep(self, seconds: float) -> None:
        """Until a child has ended, a signal came, or ``seconds`` are over."""
        select.select([self._woken], [], [], seconds)
        with contextlib.suppress(BlockingIOError):
            self._woken.recv(4096)
        with contextlib.suppress(ChildProcessError):
            while True:
                pid, status = os.waitpid(-1, os.WNOHANG)
                if pid == 0:
                    return
                if pid == self._pytest.pid:
                    self._ended = self._pytest.returncode = os.waitstatus_to_exitcode(status)


def _begin() -> None:
    default_signals()
    die_with_parent()


def _mounts(folder: Path) -> list[str]:
    """The innermost first."""
    try:
        table = Path("/proc/self/mountinfo").read_text()
    except OSError:
        return []
    return [
        line.split()[4]
        for line in reversed(table.splitlines())
        if line.split()[4].startswith(f"{folder}/")
    ]


def _kind(path: Path) -> str:
    return (
        "socket"
        if path.is_socket()
        else "folder"
        if path.is_dir() and not path.is_symlink()
        else "file"
    )


def _opened(remove: object, path: str, _: object) -> None:
    """A folder that a test closed against itself is opened and removed."""
    with contextlib.suppress(OSError):
        Path(path).parent.chmod(0o700)
        Path(path).chmod(0o700)
        shutil.rmtree(path, ignore_errors=True)
        Path(path).unlink(missing_ok=True)


def main(words: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.run", description=__doc__, add_help=False
    )
    parser.add_argument("--within", type=float, default=3600, metavar="SECONDS")
    parser.add_argument("--strict", action="store_true", help="what is left behind fails the run")
    wanted, more = parser.parse_known_args(words)
    began, run = time.monotonic(), Run(wanted.within, more)
    code = run.wait()
    took, used = time.monotonic() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
    load = os.getloadavg()[1]
    print(
        f"tests: {took:.0f} s, {used.ru_utime + used.ru_stime:.0f} s of processor, load of the last"
        f" five minutes {load:.1f}"
    )
    left = run.leftovers()
    for line in left:
        print(f"tests: left behind by this run: {line}", file=sys.stderr)
    return code or int(bool(left) and wanted.strict)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
