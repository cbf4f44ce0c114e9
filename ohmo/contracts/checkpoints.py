"""What was kept of a folder before a turn changed it, as the store names it."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime
from typing import Protocol

from channels.record import record


@record
class Checkpoint:
    """``turn``: what changed the folder afterwards: a turn, or the command that took one back.
    ``repo``: the folder, ``/`` for single files outside of a repository. ``tree``: name of what was
    kept; ``size``: bytes it took. Which files they are lies in the home's ``cache/checkpoints``."""

    id: str
    thread: str
    turn: str
    repo: str
    tree: str
    size: int
    at: datetime


class CheckpointRows(Protocol):
    """Rows of what is still kept."""

    async def keep_checkpoint(self, row: Checkpoint) -> None:
        """A known id is ignored."""
        ...

    async def checkpoints(self, thread: str | None = None) -> list[Checkpoint]:
        """Oldest first; None: of all threads."""
        ...

    async def drop_checkpoints(self, ids: Collection[str]) -> None:
        """Their files are gone, or about to go."""
        ...
