"""Stands between a test and its box: ``keeper.py LIFELINE PROGRAM...``. When nobody holds the other
end of the pipe LIFELINE any more, or the program has ended, everything below it is killed.

bwrap's own --die-with-parent is an order to its last processes, given when they are nearly ready:
killed before that, it leaves one behind that waits for a word of its parent for ever."""

from __future__ import annotations

import contextlib
import ctypes
import os
import select
import signal
import subprocess
import sys
from pathlib import Path

SUBREAPER = 36  # prctl(2): who loses its parent below this process becomes its child


def main() -> None:
    lifeline = int(sys.argv[1])
    ctypes.CDLL(None).prctl(SUBREAPER, 1)
    box = subprocess.Popen(sys.argv[2:])
    nothing = os.open(os.devnull, os.O_RDWR)
    os.dup2(nothing, 0)  # whoever reads from the box sees its end
    os.dup2(nothing, 1)
    select.select([lifeline, os.pidfd_open(box.pid)], [], [])
    children = Path(f"/proc/self/task/{os.getpid()}/children")
    with contextlib.suppress(ChildProcessError):
        while True:
            for pid in children.read_text().split():
                with contextlib.suppress(ProcessLookupError):
                    os.kill(int(pid), signal.SIGKILL)
            os.waitpid(-1, 0)


if __name__ == "__main__":
    main()
