"""Git over a git directory of our own: it reads no configuration, hook, attribute or index of
anybody else's, so nothing that a repository says can make it run a program."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from channels.record import record

#: All that git is told (git-config(1)).
SETTINGS = """[core]
\tbare = false
\tautocrlf = false
\tsafecrlf = false
\tfilemode = true
\tsymlinks = true
\tfsmonitor = false
\thooksPath = /dev/null
\tattributesFile = /dev/null
\texcludesFile = /dev/null
\tprotectNTFS = false
\tprotectHFS = false
\tquotePath = false
\trepositoryFormatVersion = 1
[gc]
\tauto = 0
[extensions]
\tobjectFormat = {format}
"""
#: Files are kept byte for byte: no conversion, no filter (gitattributes(5)).
ATTRIBUTES = "* -text -ident -filter !eol !crlf !working-tree-encoding\n"
#: What git is handed besides, whoever's repository it reads (git(1)): no settings of the person or
#: the system, nothing fetched, nothing asked.
ALONE = {
    "LC_ALL": "C",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_ATTR_NOSYSTEM": "1",
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_ALLOW_PROTOCOL": "none",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_NO_REPLACE_OBJECTS": "1",
    "GIT_OPTIONAL_LOCKS": "0",
}
SECONDS = 10.0  # of a call that has no other bound


class CannotKeep(Exception):
    """Why there is no checkpoint, or why nothing comes back: half a line."""


@record
class Git:
    """One git directory. ``path``: where programs are. ``until``: monotonic seconds, after which a
    call is ended. ``borrowed``: a folder of objects that are only read."""

    folder: Path
    root: Path
    path: str
    until: float
    borrowed: Path | None = None

    def environment(self, index: str = "index") -> dict[str, str]:
        """Everything that git is handed (git(1)); nothing is inherited."""
        environ = {
            **ALONE,
            "PATH": self.path,
            "HOME": str(self.folder),
            "XDG_CONFIG_HOME": str(self.folder),
            "GIT_DIR": str(self.folder),
            "GIT_WORK_TREE": str(self.root),
            "GIT_INDEX_FILE": str(self.folder / index),
        }
        if self.borrowed is not None:
            escaped = str(self.borrowed).replace("\\", "\\\\").replace('"', '\\"')
            environ["GIT_ALTERNATE_OBJECT_DIRECTORIES"] = f'"{escaped}"'
        return environ

    def __call__(self, *arguments: str, told: bytes = b"", index: str = "index") -> bytes:
        """What it answers. Raises CannotKeep: it failed, complained or took too long."""
        environ = self.environment(index)
        ended = run(["git", *arguments], self.root, environ, until=self.until, told=told)
        # A complaint is a folder that could not be read: what lies in it would pass for deleted.
        if ended.returncode != 0 or ended.stderr:
            raise CannotKeep(_words(ended.stderr) or f"git {arguments[0]} failed")
        return ended.stdout


def run(
    arguments: Sequence[str],
    cwd: Path,
    environ: Mapping[str, str],
    *,
    until: float | None = None,
    told: bytes = b"",
) -> subprocess.CompletedProcess[bytes]:
    """Raises CannotKeep: there is no such program, or it did not end in time."""
    left = SECONDS if until is None else until - time.monotonic()
    try:
        return subprocess.run(  # noqa: S603 - our own arguments
            arguments,
            cwd=cwd,
            env=environ,
            input=told,
            capture_output=True,
            timeout=max(left, 0.001),
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise CannotKeep("it took too long (checkpoints.timeout)") from None
    except OSError as error:
        raise CannotKeep(f"git cannot be run: {error.strerror or error}") from error


def names(answer: bytes) -> list[str]:
    """The paths of an answer that separates them by NUL."""
    return [name for name in os.fsdecode(answer).split("\0") if name]


def lines_of(paths: Iterable[str]) -> bytes:
    """The same in the other direction, sorted."""
    return b"".join(os.fsencode(path) + b"\0" for path in sorted(paths))


def _words(complaint: bytes) -> str:
    lines = complaint.decode("utf-8", "replace").strip().splitlines()
    if any("No space left" in line or "Disk quota" in line for line in lines):
        return "the disk is full"
    first = next((line for line in lines if line.startswith(("fatal:", "error:"))), "")
    return (first or "".join(lines[:1]))[:200]
