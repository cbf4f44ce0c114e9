"""A wall clock that is set on request, for the daemon as it is: a preloaded library between it and
the kernel (Linux, needs a C compiler)."""

from __future__ import annotations

import struct
import time
from collections.abc import Mapping
from pathlib import Path

from tests.faults.disk import preloaded

SOURCE = Path(__file__).with_name("clock.c")
_NUMBER = struct.Struct("q")


class WallClock:
    """``environ`` goes to the program that shall go by it."""

    def __init__(self, folder: Path) -> None:
        library, control, self._number = preloaded(SOURCE, folder, _NUMBER.size)
        self.environ: Mapping[str, str] = {
            "LD_PRELOAD": str(library),
            "OHMO_CLOCK_CONTROL": str(control),
        }

    def sets(self, seconds: float) -> None:
        """So far from the truth, until it is set again."""
        self._number[:] = _NUMBER.pack(round(seconds))

    def in_1970(self) -> None:
        self.sets(-time.time())
