"""A wall clock that is set on request, for the daemon as it is: a preloaded library between it and
the kernel (Linux, needs a C compiler)."""

from __future__ import annotations

import mmap
import struct
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path

from tests.faults.disk import compiler

SOURCE = Path(__file__).with_name("clock.c")
_NUMBER = struct.Struct("q")


class WallClock:
    """``environ`` goes to the program that shall go by it."""

    def __init__(self, folder: Path) -> None:
        program = compiler()
        assert program is not None
        library, control = folder / "clock.so", folder / "clock.control"
        subprocess.run(
            [program, "-shared", "-fPIC", "-O1", "-w", "-o", str(library), str(SOURCE), "-ldl"],
            check=True,
        )
        control.write_bytes(bytes(_NUMBER.size))
        with control.open("r+b") as file:
            self._number = mmap.mmap(file.fileno(), _NUMBER.size)
        self.environ: Mapping[str, str] = {
            "LD_PRELOAD": str(library),
            "OHMO_CLOCK_CONTROL": str(control),
        }

    def sets(self, seconds: float) -> None:
        """So far from the truth, until it is set again."""
        self._number[:] = _NUMBER.pack(round(seconds))

    def in_1970(self) -> None:
        self.sets(-time.time())
