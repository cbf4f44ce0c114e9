"""All threads of a process take memory from one heap."""

from __future__ import annotations

import subprocess
import sys

import pytest

pytestmark = pytest.mark.needs("glibc")

_THREAD = """
import re, sys, threading
from pathlib import Path
from ohmo.heap import share_one_heap
if sys.argv[1] == "shared":
    share_one_heap()
kept = []
thread = threading.Thread(target=lambda: kept.extend(bytes(2000) for _ in range(30_000)))
thread.start()
thread.join()
begin, end = re.search(r"^([0-9a-f]+)-([0-9a-f]+) .*\\[heap\\]$", Path("/proc/self/maps").read_text(), re.MULTILINE).groups()
print((int(end, 16) - int(begin, 16)) >> 20)
"""


def test_threads_share_one_heap() -> None:
    shared, left = (
        int(subprocess.check_output([sys.executable, "-c", _THREAD, word], timeout=60))
        for word in ("shared", "left")
    )
    assert shared >= 50 > 30 > left, "MiB in the heap of the process, after a thread took sixty"


def test_what_is_called_before_the_first_thread_imports_no_library() -> None:
    """structlog would bring rich along before the command can keep it away."""
    asked = "import sys, ohmo.heap; print(*sorted({'structlog', 'rich'} & set(sys.modules)))"
    assert subprocess.check_output([sys.executable, "-c", asked], timeout=60).strip() == b""
