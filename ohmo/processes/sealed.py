"""Keeps other programs of the same user out of this process: its environment and its memory hold
keys."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Mapping

_SET_DUMPABLE = 4  # linux/prctl.h, PR_SET_DUMPABLE
OPEN = "OHMO_DUMPABLE"  # set to 1: debuggers, py-spy and core dumps work as usual


def seal(environ: Mapping[str, str]) -> bool:
    """prctl(2), PR_SET_DUMPABLE 0: /proc/PID/environ, mem, maps and fd of this process are root's
    alone, nobody but root may trace it, and it leaves no core dump. A command that is started from
    here is its own program again (execve(2)). True: it is so now; elsewhere than on Linux, or where
    ``OHMO_DUMPABLE=1`` asks for it, everything stays as it was."""
    if sys.platform != "linux" or environ.get(OPEN) == "1":
        return False
    return ctypes.CDLL(None, use_errno=True).prctl(_SET_DUMPABLE, 0, 0, 0, 0) == 0
