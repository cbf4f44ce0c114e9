"""Whether a process descends from this one.

Parents are walked upwards: a child cannot change who stands above it, and with ``adopt_orphans``
whoever loses its parent (double fork, setsid, a killed keeper) falls to this process and not to
the first one of the machine."""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Callable
from typing import Literal

Place = Literal["outside", "inside", "unclear"]
_WALKS = 5  # a parent may end while its children are walked; then it begins again
_DEEP = 256  # parents; whoever forks a longer line wants to keep us busy
_SHORT = 13  # PROC_PIDT_SHORTBSDINFO, sys/proc_info.h: of every process, whoever asks


class Ancestry:
    """``root``: the pid above everybody inside. ``parent`` of a pid: None when there is no such
    process, 0 when nobody stands above it that we can see."""

    def __init__(self, root: int, parent: Callable[[int], int | None] | None = None) -> None:
        self.root = root
        self._parent = parent or (_of_proc if sys.platform == "linux" else _of_libproc)

    def place(self, pid: int) -> Place:
        """Unclear is who is gone. ``root`` itself is outside: a command that is its own house
        speaks to itself. Pid 0 is a process of a pid namespace around ours, where no child of
        ours can be: pid_namespaces(7)."""
        if pid == self.root:
            return "outside"
        for _ in range(_WALKS):
            line = self._line(pid)
            # The same line twice: nobody's number was given to somebody else meanwhile, or their
            # child would have another parent now.
            if line is not None and line == self._line(pid):
                return "inside" if line[-1] == self.root else "outside"
        return "unclear"

    def _line(self, pid: int) -> list[int] | None:
        """The pid and everybody above it, up to ``root`` or the top; None: it breaks off."""
        line = [pid]
        while line[-1] > 0 and line[-1] != self.root:
            above = self._parent(line[-1])
            if above is None or len(line) > _DEEP:
                return None
            line.append(above)
        return line


def state_of(pid: int) -> tuple[str, int]:
    """State and parent, proc_pid_stat(5). Raises OSError."""
    with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:  # noqa: PTH123
        words = file.read().rpartition(")")[2].split()
    return words[0], int(words[1])


def _of_proc(pid: int) -> int | None:
    try:
        return state_of(pid)[1]
    except (OSError, IndexError):
        try:
            os.kill(pid, 0)  # with hidepid, proc(5), other people's processes are not shown
        except PermissionError:
            return 0
        except OSError:
            pass
        return None


def _of_libproc(pid: int) -> int | None:
    """macOS: struct proc_bsdshortinfo begins with pid and parent, 32 bits each."""
    found = (ctypes.c_uint32 * 16)()
    size = ctypes.sizeof(found)
    ask = ctypes.CDLL(None).proc_pidinfo
    told = ask(pid, _SHORT, ctypes.c_uint64(0), ctypes.byref(found), size)
    return int(found[1]) if told == size else None
