"""A run of the tests has an end, needs nothing of its shell, and leaves nothing behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.children import alive
from tests.programs import run_process

ROOT = Path(__file__).parents[3]
LINUX = pytest.mark.needs("linux")


class Inner:
    """A run of a run: one file of tests."""

    def __init__(self, folder: Path, source: str) -> None:
        self.folder = folder
        self.place = folder / "place"
        self.place.mkdir()
        self.tests = folder / "test_inner.py"
        head = (
            "import os, pathlib, signal, subprocess, sys, tempfile, time\nHERE ="
            " pathlib.Path(__file__).parent\n"
        )
        self.tests.write_text(head + source)

    def words(self, *more: str) -> list[str]:
        plain = "-p tests.bound -p no:cacheprovider -p pytest_timeout -q -s".split()
        return [sys.executable, "-m", "tests.run", "--strict", *more, *plain, str(self.tests)]

    @property
    def environ(self) -> dict[str, str]:
        return {
            **os.environ,
            "TMPDIR": str(self.place),
            "OHMO_TEST_LATE": "2",
            "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
        }

    def run(self, *more: str, before: str = "") -> subprocess.CompletedProcess[str]:
        """``before``: what the shell does first."""
        shell = ["sh", "-c", f'{before}\nexec "$@"', "sh"]
        return run_process(*shell, *self.words(*more), cwd=ROOT, env=self.environ)

    def noted(self) -> int:
        """A process that a test of the inner run started and noted."""
        until = time.monotonic() + 60
        while not (self.folder / "pid").exists() or not (self.folder / "pid").read_text().endswith(
            "\n"
        ):
            assert time.monotonic() < until
            time.sleep(0.05)
        return int((self.folder / "pid").read_text())

    def nothing_is_left(self) -> bool:
        until = time.monotonic() + 30
        while (alive(self.noted()) or list(self.place.iterdir())) and time.monotonic() < until:
            time.sleep(0.05)
        return not alive(self.noted()) and not list(self.place.iterdir())


DEFAULTS = """
def test_it():
    for how in ("INT", "TERM", "HUP", "QUIT", "USR1", "PIPE"):
        child = subprocess.run(["sh", "-c", f"kill -{how} $$; sleep 1; exit 3"], timeout=30)
        assert child.returncode == -signal.Signals["SIG" + how], how
    own = "import os, signal; print(signal.getsignal(2) == signal.default_int_handler, signal.pthread_sigmask(0, ()))"
    assert subprocess.check_output([sys.executable, "-c", own], text=True) == "True set()\\n"
"""
BLOCKS = [
    sys.executable,
    "-c",
    (
        "import os, signal, sys; signal.pthread_sigmask(0, {2, 15}); os.execv(sys.argv[1],"
        " sys.argv[1:])"
    ),
]


@pytest.mark.parametrize("alone", [False, True], ids=["make test", "pytest"])
@pytest.mark.parametrize(
    "shell", ["", "trap '' INT TERM HUP QUIT USR1 PIPE"], ids=["plain", "ignored"]
)
def test_children_of_tests_get_default_signals_whatever_the_shell_ignores(
    tmp_path: Path, shell: str, alone: bool
) -> None:
    inner = Inner(tmp_path, DEFAULTS)
    if alone:
        inner.words = lambda *_: [
            *BLOCKS,
            sys.executable,
            "-m",
            "pytest",
            "-p",
            "pytest_timeout",
            "-p",
            "tests.bound",
            str(inner.tests),
        ]  # type: ignore[method-assign]
    done = inner.run(before=shell)
    assert done.returncode == 0, done.stdout + done.stderr


def test_who_may_not_be_reached_from_the_keyboard_is_not(tmp_path: Path) -> None:
    inner = Inner(
        tmp_path, "def test_it():\n    os.kill(os.getppid(), signal.SIGINT)\n    time.sleep(1)\n"
    )
    assert inner.run(before="trap '' INT").returncode == 0
    assert "ended by SIGINT" in inner.run().stderr


DEAF = """
import pytest
def child():
    code = "import signal, time; signal.signal(2, signal.SIG_IGN); signal.signal(15, signal.SIG_IGN); time.sleep(600)"
    found = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE)
    (HERE / "pid").write_text(f"{found.pid}\\n")
    return found
"""


@LINUX
def test_a_wait_for_a_child_that_hears_nothing_ends_with_its_test(tmp_path: Path) -> None:
    """``with Popen`` waits for the child on its way out: the time-out of the test comes once and is
    over."""
    source = (
        DEAF + "@pytest.mark.timeout(1)\ndef test_it():\n    with child() as found:\n       "
        " found.stdout.read()\ndef test_next():\n    pass\n"
    )
    inner = Inner(tmp_path, source)
    done = inner.run()
    assert "1 failed, 1 passed" in done.stdout
    assert "test_it waits beyond its time-out: killing process" in done.stderr
    assert inner.nothing_is_left()


@LINUX
def test_a_test_that_swallows_everything_ends_its_process(tmp_path: Path) -> None:
    source = (
        DEAF + "@pytest.mark.timeout(1)\ndef test_it():\n    child()\n    while True:\n        try:"
        " time.sleep(600)\n        except BaseException: pass\n"
    )
    inner = Inner(tmp_path, source)
    done = inner.run()
    assert done.returncode == 70, done.stdout + done.stderr
    assert "test_it cannot be ended" in done.stderr
    assert inner.nothing_is_left()


@LINUX
def test_a_run_has_an_end(tmp_path: Path) -> None:
    source = (
        DEAF + "def test_it():\n    child()\n    while True:\n        try: time.sleep(600)\n       "
        " except BaseException: pass\n"
    )
    inner = Inner(tmp_path, source)
    done = inner.run("--within", "3")
    assert done.returncode == 124, done.stdout + done.stderr
    assert "not done within 3 s" in done.stderr
    assert inner.nothing_is_left()


ORPHAN = (
    DEAF
    + """
import socket
def test_it():
    away = "import os, sys, time; os.fork() and os._exit(0); os.setsid(); print(os.getpid(), flush=True); os.close(1); time.sleep(600)"
    orphan = subprocess.check_output(["env", "-i", sys.executable, "-c", away], text=True, cwd="/")
    (HERE / "pid").write_text(orphan)
    held = socket.socket(socket.AF_UNIX)
    held.bind(tempfile.gettempdir() + "/a.sock")
    pathlib.Path(tempfile.mkdtemp(), "x").write_text("")
"""
)


@LINUX
def test_what_a_test_leaves_behind_is_named_and_removed_and_the_run_has_failed(
    tmp_path: Path,
) -> None:
    inner = Inner(tmp_path, ORPHAN)
    done = inner.run()
    assert "1 passed" in done.stdout
    assert done.returncode == 1
    left = [
        line.removeprefix("tests: left behind by this run: ")
        for line in done.stderr.splitlines()
        if "left behind" in line
    ]
    assert [line.split()[0] for line in left] == ["process", "socket", "folder"]
    assert left[0].startswith(f"process {inner.noted()}: ")
    assert inner.nothing_is_left()


@LINUX
def test_a_process_of_somebody_else_is_no_leftover(tmp_path: Path) -> None:
    stranger = subprocess.Popen(["sleep", "60"])
    inner = Inner(tmp_path, "def test_it():\n    pass\n")
    done = inner.run()
    assert (done.returncode, "left behind" in done.stderr) == (0, False), done.stderr
    assert alive(stranger.pid)
    stranger.kill()
    stranger.wait(10)


@LINUX
@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGINT])
def test_a_run_that_is_told_to_end_takes_everything_with_it(
    tmp_path: Path, how: signal.Signals
) -> None:
    inner = Inner(tmp_path, DEAF + "def test_it():\n    child().wait()\n")
    running = subprocess.Popen(
        inner.words(),
        cwd=ROOT,
        env=inner.environ,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    inner.noted()
    running.send_signal(how)
    assert f"ended by {how.name}" in running.communicate(timeout=60)[1]
    assert running.returncode != 0
    assert inner.nothing_is_left()


@LINUX
def test_a_run_that_is_killed_takes_its_tests_with_it(tmp_path: Path) -> None:
    """What a test started is told only where it asked for it; the process that runs the tests ends
    at once."""
    inner = Inner(
        tmp_path,
        "def test_it():\n    (HERE / 'pid').write_text(f'{os.getpid()}\\n')\n    time.sleep(600)\n",
    )
    running = subprocess.Popen(
        inner.words(),
        cwd=ROOT,
        env=inner.environ,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    tests = inner.noted()
    running.kill()
    running.wait(10)
    until = time.monotonic() + 10
    while alive(tests) and time.monotonic() < until:
        time.sleep(0.05)
    assert not alive(tests)
