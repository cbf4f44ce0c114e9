"""A box ends with whoever opened it, and no answer from it is waited for without a bound."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest

from tests.children import alive, descendants, described
from tests.differential.box import Box, Job

pytestmark = pytest.mark.needs("bwrap")
ROOT = Path(__file__).parents[2]
ENVIRON = {"PATH": "/usr/bin:/bin"}
OPENS = """
import sys, time
from pathlib import Path
from tests.differential.box import Box, Job
root = Path(sys.argv[1])
with Box(root) as box:
    print("open", flush=True)
    while True:
        box.run([Job("set -m; setsid sleep 300 & sleep 300", root, {"PATH": "/usr/bin:/bin"})], traced=False, seconds=600)
"""


def of(root: Path) -> list[int]:
    """Processes whose command line names the folder of a box."""
    found: list[int] = []
    for path in Path("/proc").glob("[0-9]*"):
        try:
            words = (path / "cmdline").read_bytes()
        except OSError:
            continue
        if os.fsencode(root) in words and alive(int(path.name)):
            found.append(int(path.name))
    return found


def keeper(root: Path) -> int:
    """The process that stands between us and the box."""
    return next(pid for pid in of(root) if "keeper.py" in described(pid))


def gone(root: Path) -> list[str]:
    """What is still there after a while."""
    until = time.monotonic() + 10
    while of(root) and time.monotonic() < until:
        time.sleep(0.05)
    return [described(pid) for pid in of(root)]


@pytest.mark.parametrize("after", [0, 0.003, 0.006, 0.01, 0.02, 0.05, 0.5])
def test_whoever_opened_a_box_may_be_killed_at_any_moment_and_nothing_of_it_stays(
    tmp_path: Path, after: float
) -> None:
    opens = subprocess.Popen(
        [sys.executable, "-c", OPENS, str(tmp_path)], cwd=ROOT, stdout=subprocess.PIPE
    )
    assert opens.stdout is not None
    assert opens.stdout.readline() == b"open\n"
    time.sleep(after)  # the moment is what is tested
    opens.kill()
    opens.communicate(timeout=10)
    assert gone(tmp_path) == []


def test_a_box_that_does_not_answer_is_not_waited_for(tmp_path: Path) -> None:
    with Box(tmp_path, patience=1) as box:
        assert box.run([Job("true", tmp_path, ENVIRON)], traced=False)[0].code == 0
        for pid in descendants(keeper(tmp_path)):
            os.kill(pid, signal.SIGSTOP)
        with pytest.raises(AssertionError, match=r"no answer for 1\.4 s to one of \['true'\]"):
            box.run([Job("true", tmp_path, ENVIRON)], traced=False, seconds=0.1)
    assert gone(tmp_path) == []


def test_a_box_that_has_died_is_told(tmp_path: Path) -> None:
    with Box(tmp_path) as box:
        box.run([Job("true", tmp_path, ENVIRON)], traced=False)
        for pid in of(tmp_path):
            with suppress(ProcessLookupError):  # killing the first ends the others
                os.kill(pid, signal.SIGKILL)
        assert gone(tmp_path) == []
        with pytest.raises(AssertionError, match="the box has died"):
            box.run([Job("true", tmp_path, ENVIRON)], traced=False)
