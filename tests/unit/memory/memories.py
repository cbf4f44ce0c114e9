"""A memory in a folder, and those who look into it."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from pathlib import Path

from channels.contract import Address, ChatId
from ohmo.context.rules import repository_of
from ohmo.logs.redaction import Redactor
from ohmo.memory.desk import Found, Memory, MemorySettings, Said
from ohmo.memory.notes import Note
from ohmo.memory.scopes import Scope, Viewer

NOW = datetime(2026, 11, 24, 12, tzinfo=UTC)
GROUP = Address("slack", "T1", ChatId("C1"))
PRIVATE = Address("slack", "T1", ChatId("D1"))
ANN = Said("slack:U1", "slack:C1")


def memory(folder: Path, *, opaque: bool = False) -> Memory:
    settings = MemorySettings(
        opaque=opaque,
        environ={"PATH": os.environ["PATH"]},
        root_of=lambda cwd: repository_of(cwd, folder),
        redact=Redactor(lambda: frozenset({"hunter2-hunter2"})).words,
        clock=lambda: NOW,
    )
    return Memory(folder / "memory", folder / "cache", settings)


def viewer(
    cwd: Path,
    person: str = "slack:U1",
    *,
    role: str = "user",
    private: bool = True,
    place: Address | None = PRIVATE,
) -> Viewer:
    return Viewer(person, role, private, place, cwd)  # pyright: ignore[reportArgumentType]


def written(
    one: Memory, scope: Scope, title: str, text: str = "", aliases: tuple[str, ...] = ()
) -> Found:
    found = one.write(scope, Note(scope.folder, "", title, text or title, "", aliases), ANN)
    assert isinstance(found, Found)
    return found
