"""What a command that only reads opens."""

from __future__ import annotations

from typing import Literal

from channels.record import record


@record
class Reading:
    """``paths``: as the command names them. ``kind``: ``files``: the content of each, ``names``:
    folders are listed and files looked at, ``trees``: the content of everything below.
    ``repository``: the folder, as the command names it, in which git would look for a repository;
    None: it is not git."""

    kind: Literal["files", "names", "trees"]
    paths: tuple[str, ...] = ()
    repository: str | None = None
