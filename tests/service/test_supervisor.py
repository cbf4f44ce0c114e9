"""The supervisor of our own, with a small daemon that speaks sd_notify(3) and does as it is
told."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

import pytest

from ohmo.storefile.lock import is_held

pytestmark = pytest.mark.needs("linux")  # the small daemon speaks over abstract sockets
DAEMON = """
import fcntl, os, signal, socket, sys, time, faulthandler
faulthandler.enable()
home = os.environ["OHMO_HOME"]
lives = os.path.join(home, "lives")
with open(lives, "a") as file: file.write("x")
lock = os.open(os.path.join(home, "lock"), os.O_RDWR | os.O_CREAT)
fcntl.flock(lock, fcntl.LOCK_EX); os.ftruncate(lock, 0); os.pwrite(lock, str(os.getpid()).encode(), 0)
number = os.path.getsize(lives)
script = open(os.path.join(home, "script")).read().split()
act = script[min(number, len(script)) - 1]
wire = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
def say(text):
    try: wire.sendto(text.encode(), chr(0) + os.environ["NOTIFY_SOCKET"][1:])
    except ConnectionRefusedError: pass
signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
if act.startswith("exit"):
    print("ohmo: because of " + act, flush=True)
    sys.exit(int(act[4:]))
say("READY=1")
if act == "leave" and os.fork() == 0:
    os.setsid()
    os.execve("/bin/sleep", [home, "60"], {})
if act == "hang": time.sleep(1000)
if act == "deaf": signal.signal(signal.SIGTERM, signal.SIG_IGN)
while True:
    say("WATCHDOG=1"); time.sleep(0.2)
"""


class Kept:
    """A home with a supervisor in it."""

    def __init__(self, home: Path) -> None:
        self.home = home
        (home / "run").mkdir()
        (home / "logs").mkdir()
        self.processes: list[subprocess.Popen[bytes]] = []

    def begin(self, script: str = "") -> subprocess.Popen[bytes]:
        if script:
            (self.home / "script").write_text(script)
        environ = {
            "PATH": os.environ["PATH"],
            "HOME": str(self.home.parent),
            "OHMO_HOME": str(self.home),
            "OHMO_SERVICE": "background",
            "OHMO_WATCHDOG": (
                "2" if "hang" in script else "60"
            ),  # who is well is not taken for dead on a busy machine
        }
        with (self.home / "logs" / "service.log").open("ab") as log:
            found = subprocess.Popen(
                [
                    sys.executable,
                    "-P",
                    "-m",
                    "ohmo.service.supervisor",
                    sys.executable,
                    "-c",
                    DAEMON,
                ],
                env=environ,
                stdout=log,
                stderr=log,
            )
        self.processes.append(found)
        return found

    def state(self) -> dict[str, Any]:
        with contextlib.suppress(OSError, ValueError):
            return json.loads((self.home / "run" / "service.state").read_text())
        return {}

    def lives(self) -> int:
        return (self.home / "lives").stat().st_size if (self.home / "lives").exists() else 0

    def log(self) -> str:
        return (self.home / "logs" / "service.log").read_text(errors="replace")

    def until(self, what: str, done: Callable[[], bool]) -> None:
        deadline = time.monotonic() + 30
        while not done():
            assert time.monotonic() < deadline, (
                f"not within 30 s: {what}; state {self.state()}; log {self.log()[-1500:]}"
            )
            time.sleep(0.02)

    def running(self, lives: int = 1) -> dict[str, Any]:
        self.until(
            f"life {lives} is ready",
            lambda: self.lives() >= lives and self.state().get("state") == "running",
        )
        return self.state()

    def end(self) -> None:
        for one in self.processes:
            if one.poll() is None:
                one.kill()
            one.wait()
        if (daemon := self.state().get("daemon")) and is_held(self.home / "lock", unclear=False):
            with contextlib.suppress(ProcessLookupError):
                os.kill(daemon, signal.SIGKILL)


@pytest.fixture
def kept(tmp_path: Path) -> Generator[Kept]:
    found = Kept(tmp_path)
    yield found
    found.end()


def test_what_was_killed_is_started_again(kept: Kept) -> None:
    kept.begin("fine")
    os.kill(kept.running()["daemon"], signal.SIGKILL)
    found = kept.running(2)
    assert found["restarts"] == 1
    assert "SIGKILL" in kept.log()


def test_who_put_itself_aside_in_one_life_does_not_see_the_next_one(kept: Kept) -> None:
    """To the daemon that comes after it would be a stranger, whom it may take for its owner."""

    def aside() -> list[str]:
        found: list[str] = []
        name = os.fsencode(kept.home) + b"\0"
        for path in Path("/proc").glob("[0-9]*/cmdline"):
            with contextlib.suppress(OSError):
                found += [path.parent.name] if path.read_bytes().startswith(name) else []
        return found

    kept.begin("leave fine")
    daemon = kept.running()["daemon"]
    kept.until("somebody is aside", lambda: len(aside()) == 1)
    os.kill(daemon, signal.SIGKILL)
    kept.running(2)
    assert aside() == []


def test_what_hangs_is_ended_with_its_stack_in_the_log_and_started_again(kept: Kept) -> None:
    kept.begin("hang fine")
    kept.running(2)
    assert "no sign of life" in kept.log()
    assert "Fatal Python error: Aborted" in kept.log()
    assert 'File "<string>"' in kept.log()


@pytest.mark.parametrize("code", [1, 75, 78])
def test_what_would_fail_again_is_not_started_again_and_the_reason_is_kept(
    kept: Kept, code: int
) -> None:
    assert kept.begin(f"exit{code}").wait(30) == 0
    assert kept.state()["state"] == "failed"
    assert kept.state()["detail"] == f"because of exit{code}"
    assert kept.lives() == 1


def test_a_crash_is_followed_by_a_pause_that_grows(kept: Kept) -> None:
    kept.begin("exit70 exit70 fine")
    kept.running(3)
    pauses = [line.rpartition(" in ")[2] for line in kept.log().splitlines() if "start " in line]
    assert pauses == ["1 s", "2 s"]


def test_stopping_waits_for_the_daemon_and_is_the_end(kept: Kept) -> None:
    supervisor = kept.begin("fine")
    daemon = kept.running()["daemon"]
    supervisor.terminate()
    assert supervisor.wait(30) == 0
    assert kept.state()["state"] == "stopped"
    assert not Path(f"/proc/{daemon}").exists()
    assert kept.lives() == 1


def test_a_daemon_whose_supervisor_was_killed_is_taken_over_and_still_watched(kept: Kept) -> None:
    first = kept.begin("fine")
    daemon = kept.running()["daemon"]
    first.kill()
    first.wait()
    assert Path(f"/proc/{daemon}").exists()
    second = kept.begin()
    kept.until(
        "the second took it over",
        lambda: (
            kept.state().get("supervisor") == second.pid and kept.state().get("state") == "running"
        ),
    )
    assert kept.state()["daemon"] == daemon
    assert kept.lives() == 1
    os.kill(daemon, signal.SIGKILL)
    assert kept.running(2)["daemon"] != daemon


def test_a_second_supervisor_ends_at_once(kept: Kept) -> None:
    kept.begin("fine")
    kept.running()
    assert kept.begin().wait(30) == 75


def test_somebody_elses_sign_of_life_counts_nothing(kept: Kept) -> None:
    kept.begin("hang fine")
    daemon = kept.running()["daemon"]
    name = next(
        pair.partition(b"=")[2].decode()
        for pair in Path(f"/proc/{daemon}/environ").read_bytes().split(b"\0")
        if pair.startswith(b"NOTIFY_SOCKET=")
    )
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as wire:
        deadline = time.monotonic() + 30
        while kept.lives() < 2 and time.monotonic() < deadline:
            with contextlib.suppress(OSError):
                wire.sendto(b"WATCHDOG=1", "\0" + name[1:])
            time.sleep(0.05)
    assert kept.lives() == 2


def test_a_long_log_is_cut_and_the_older_part_kept(kept: Kept) -> None:
    kept.begin("fine")
    kept.running()
    log = kept.home / "logs" / "service.log"
    with log.open("ab") as file:
        file.write(b"line\n" * 1_200_000)
    kept.until("the log is short again", lambda: log.stat().st_size < 1_000_000)
    assert (kept.home / "logs" / "service.log.1").stat().st_size > 5_000_000
