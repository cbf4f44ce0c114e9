"""A disk that fails on request, for the daemon as it is: a preloaded library between it and the
kernel (Linux, needs a C compiler)."""

from __future__ import annotations

import errno
import mmap
import shutil
import struct
import subprocess
from collections.abc import Mapping
from pathlib import Path

SOURCE = Path(__file__).with_name("disk.c")
WRITE, SYNC, READ = 1, 2, 4
_NUMBERS = struct.Struct("6i")


def compiler() -> str | None:
    return shutil.which("cc") or shutil.which("gcc")


def preloaded(source: Path, folder: Path, size: int) -> tuple[Path, Path, mmap.mmap]:
    """A library made of ``source``, the file that controls it, and that file's bytes."""
    program = compiler()
    assert program is not None
    library, control = folder / f"{source.stem}.so", folder / f"{source.stem}.control"
    made = [program, "-shared", "-fPIC", "-O1", "-w", "-o", library, source, "-ldl"]
    subprocess.run(made, check=True)
    control.write_bytes(bytes(size))
    with control.open("r+b") as file:
        return library, control, mmap.mmap(file.fileno(), size)


class Disk:
    """``environ`` goes to the program that shall meet it. ``part``: what the path of a file must
    hold to fail."""

    def __init__(self, folder: Path, part: str = "ohmo.db") -> None:
        library, control, self._numbers = preloaded(SOURCE, folder, _NUMBERS.size)
        self.environ: Mapping[str, str] = {
            "LD_PRELOAD": str(library),
            "OHMO_DISK_CONTROL": str(control),
            "OHMO_DISK_PATH": part,
        }

    def fails(
        self, calls: int = WRITE, number: int = errno.ENOSPC, *, after: int = 0, times: int = -1
    ) -> None:
        """From now on: ``after`` calls still succeed, then ``times`` fail (-1: all) with this
        errno."""
        self._numbers[:] = _NUMBERS.pack(0, number, after, times, 0, 0)
        self._numbers[0:4] = struct.pack("i", calls)

    def heals(self) -> int:
        """How many calls failed."""
        self._numbers[0:4] = bytes(4)
        return self.failed

    @property
    def failed(self) -> int:
        return _NUMBERS.unpack(self._numbers[:])[5]
