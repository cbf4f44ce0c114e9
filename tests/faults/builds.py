"""Other versions of ohmo beside the one that is tested: its sources with another number, and with a
store of the next form."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import ohmo
from tests.faults.daemon import ROOT

# not what lies in the working directory, but what ``environ`` names
COMMAND = (sys.executable, "-P", "-m", "ohmo", "run")


@dataclass(frozen=True, slots=True)
class Build:
    """``version``: what it calls itself. ``environ``: what makes ``COMMAND`` run it."""

    version: str
    folder: Path

    @property
    def environ(self) -> Mapping[str, str]:
        return {"PYTHONPATH": os.fspath(self.folder)}


def built(
    folder: Path, version: str, *, statement: str = "", also: Sequence[tuple[str, str, str]] = ()
) -> Build:
    """``statement``: the one that brings its store to the next form. ``also``: files below
    ``ohmo``, with words that are others there."""
    for room in ("ohmo", "channels"):
        shutil.copytree(ROOT / room, folder / room, ignore=shutil.ignore_patterns("__pycache__"))
    _changed(folder / "ohmo" / "__init__.py", f'"{ohmo.__version__}"', f'"{version}"')
    for name, old, new in also:
        _changed(folder / "ohmo" / name, old, new)
    if statement:
        _changed(
            folder / "ohmo" / "database" / "migrations.py",
            "enumerate(_FORMS,",
            f"enumerate((*_FORMS, {statement!r}),",
        )
    return Build(version, folder)


def _changed(file: Path, old: str, new: str) -> None:
    text = file.read_text()
    assert text.count(old) == 1, (file, old)
    file.write_text(text.replace(old, new))
