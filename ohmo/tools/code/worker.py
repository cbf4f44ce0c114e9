"""The process that reads code: a question per line, an answer per line, until nobody asks."""

from __future__ import annotations

import json
import os
import resource
import select
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

from ohmo.codeintel.answers import Answers, Asked, Unanswerable
from ohmo.codeintel.reading import Unreadable
from ohmo.codeintel.workspace import Reading, Sources, Stamp, Workspace
from ohmo.permissions.sensitive_places import FileAliases
from ohmo.processes.process_tree import die_with_parent
from ohmo.tools.files import Opening
from ohmo.tools.results import ToolError

_IDLE = 120.0  # seconds
_MEMORY = 1 << 30  # bytes of address space
_LARGEST = 2 << 20  # bytes of a file


class Reader:
    """Its files were judged before their names came here; ``places``: sensitive ones, no file of
    which is opened by another name."""

    def __init__(self) -> None:
        self._sources = Sources(Reading(self._stamp, self._read))
        self._opening = Opening(lambda _: False, FileAliases([]))

    def _stamp(self, path: str) -> Stamp:
        status = self._opening.status(Path(path))
        if status.st_size > _LARGEST:
            raise Unreadable(
                f"is {status.st_size >> 20} MiB, more than {_LARGEST >> 20}; Grep finds lines in it"
            )
        return status.st_mtime_ns, status.st_size

    def _read(self, path: str) -> bytes:
        try:
            return self._opening.content(Path(path), _LARGEST)[0]
        except ToolError as error:
            raise Unreadable(str(error)) from error

    def answer(self, order: dict[str, Any]) -> tuple[bool, str]:
        self._opening = Opening(lambda _: False, FileAliases(order["places"]))
        workspace = Workspace(order["root"], order["paths"], self._sources)
        try:
            return True, Answers(workspace, order["root"]).answer(Asked(*order["asked"]))
        except (Unanswerable, ToolError) as error:
            return False, str(error)
        except (RecursionError, MemoryError):
            return False, "it is nested too deep, or too much at once, to be read"


def main() -> None:
    die_with_parent()
    hard = resource.getrlimit(resource.RLIMIT_AS)[1]
    least = _MEMORY if hard == resource.RLIM_INFINITY else min(_MEMORY, hard)
    with suppress(ValueError, OSError):  # macOS bounds no address space
        resource.setrlimit(resource.RLIMIT_AS, (least, least))
    reader = Reader()
    source = os.fdopen(0, "rb", buffering=1 << 20)
    while select.select([source], [], [], _IDLE)[0]:
        line = source.readline()
        if not line:
            return
        answer = reader.answer(json.loads(line.decode("utf-8", "surrogatepass")))
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
