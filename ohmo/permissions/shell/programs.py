"""Where bash finds a program, and whether that is the one we know by its name."""

from __future__ import annotations

import os

from ohmo.permissions.looked import real

_MACHINE_CODE = (
    b"\x7fELF",
    b"\xcf\xfa\xed\xfe",
    b"\xca\xfe\xba\xbe",
    b"\xfe\xed\xfa\xcf",
)  # also macOS


def program_at(name: str, path: str) -> str | None:
    """The file that bash runs for ``name``, with ``path`` as its PATH; None when a folder of it
    counts from the working directory, or there is none."""
    if "/" in name:
        return None
    for folder in path.split(":"):
        if not folder.startswith("/"):
            return None
        file = f"{folder}/{name}"
        if os.path.isfile(file) and os.access(file, os.X_OK):  # noqa: PTH113 - text
            return real(file)
    return None


def is_machine_code(file: str) -> bool:
    """A script under a program's name does whatever it says, and reads what it wants."""
    try:
        with open(file, "rb") as opened:  # noqa: PTH123 - text
            return opened.read(4) in _MACHINE_CODE
    except OSError:
        return False
