"""The files of the memory: a folder for each scope with ``MEMORY.md`` and a file for each note.
Whatever is written stands whole or not at all; whatever a person edits is honoured."""

from __future__ import annotations

import os
import re
import stat
import unicodedata
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from channels.durable import settle, settle_path, write_whole
from channels.record import record
from ohmo.memory.notes import INDEX, LARGEST, Note, NotRemembered, front_matter, note_of, parted
from ohmo.memory.scopes import CHATS, PEOPLE, Scope
from ohmo.regular_file import open_regular

_MOST_NOTES = 20_000  # in one folder
_MOST_INDEX = 16 << 20  # bytes of an index
_PROJECT = re.compile(r"(?:.+-)?[0-9a-f]{12,40}")
_LINK = re.compile(r"[ \t]*[-*] \[[^\]]*\]\((?P<file>[^)]+)\.md\)")
_SAFE = re.compile(r"[^\w]+")


#: By which a file that was changed is known: nanoseconds of its last change, and bytes.
Stamp = tuple[int, int]


@record
class _Listed:
    """A folder as it was left: the index lists all of its notes."""

    scope: Scope
    changed: int  # when a name had come or gone last
    index: Stamp | None
    names: set[str]


class NoteFiles:
    """Blocks; one caller at a time writes. Raises OSError where it says nothing else."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._listed: _Listed | None = None

    def folders(self) -> tuple[str, ...]:
        """Of every scope there is, the owner's first."""
        found = [""]
        for name in sorted(_subfolders(self.root)):
            if name in (PEOPLE, CHATS):
                found += [f"{name}/{each}" for each in sorted(_subfolders(self.root / name))]
            elif _PROJECT.fullmatch(name):
                found.append(name)
        return tuple(found)

    def project_heads(self) -> Mapping[str, Mapping[str, str]]:
        """What the index of each project's folder says it is about."""
        return {
            folder: {key: value for key, value in head.items() if isinstance(value, str)}
            for folder in self.folders()
            if folder and "/" not in folder
            for head in (parted(self.index(folder))[0],)
        }

    def stamps(self, folder: str) -> dict[str, Stamp]:
        """Of its notes, by name."""
        found: dict[str, Stamp] = {}
        for entry in self._notes(folder):
            with suppress(OSError):  # it went meanwhile
                status = entry.stat(follow_symlinks=False)
                found[entry.name[:-3]] = (status.st_mtime_ns, status.st_size)
        return found

    def stamp(self, folder: str, name: str) -> Stamp | None:
        """Of one note; None: there is none."""
        file = f"{name}.md"
        return _stamp(self.root / folder / file) if _is_note(file) else None

    def names(self, folder: str) -> set[str]:
        """Of its notes: looks at no file, so it takes a tenth of ``stamps``."""
        left = self._listed
        if left is not None and (left.scope.folder, left.changed) == (folder, self.changed(folder)):
            return left.names
        return {entry.name[:-3] for entry in self._notes(folder)}

    def changed(self, folder: str) -> int:
        """When a name came or went last, nanoseconds; 0: there is no folder."""
        with suppress(OSError):
            return (self.root / folder).stat().st_mtime_ns
        return 0

    def _notes(self, folder: str) -> Iterator[os.DirEntry[str]]:
        with suppress(OSError), os.scandir(self.root / folder) as entries:
            for entry in entries:
                if _is_note(entry.name) and entry.is_file(follow_symlinks=False):
                    yield entry

    def no_files(self, folder: str) -> list[str]:
        """What is called as a note is, and is a link, a folder or a pipe: never opened."""
        with suppress(OSError), os.scandir(self.root / folder) as entries:
            return sorted(
                entry.name
                for entry in entries
                if _is_note(entry.name) and not entry.is_file(follow_symlinks=False)
            )
        return []

    def raw(self, folder: str, name: str) -> bytes:
        """Raises NotRemembered: it cannot be read, with the reason."""
        try:
            return _read(self.root / folder / f"{name}.md", LARGEST)
        except OSError as error:
            raise NotRemembered((error.strerror or "cannot be read").lower()) from None

    def note(self, folder: str, name: str) -> tuple[Note, str]:
        """As ``note_of``. Raises NotRemembered."""
        return note_of(folder, name, self.raw(folder, name))

    def index(self, folder: str) -> str:
        """Its text; empty: there is none that can be read."""
        try:
            return _read(self.root / folder / INDEX, _MOST_INDEX).decode("utf-8", "replace")
        except (OSError, NotRemembered):
            return ""

    def name_for(self, folder: str, title: str) -> str:
        """The file of the note with this title, or a free name for one. Raises NotRemembered: the
        folder is full."""
        there = self.names(folder)
        if len(there) >= _MOST_NOTES:
            raise NotRemembered(f"there are {len(there)} notes here; forget some")
        plain = plain_name(title)
        name, number = plain, 1
        while name in there:
            with suppress(NotRemembered):
                if self.note(folder, name)[0].title == title:
                    break
            number += 1
            name = f"{plain}-{number}"
        return name

    def write(self, scope: Scope, name: str, text: str) -> None:
        """The file, then its line in the index: killed in between, it is found all the same, and
        gets its line with the next one."""
        folder = self.root / scope.folder
        index = folder / INDEX
        left = self._listed
        if left is not None:
            now = (scope, self.changed(scope.folder), _stamp(index))
            left = left if now == (left.scope, left.changed, left.index) else None
        self._make(folder)
        write_whole(folder / f"{name}.md", text)
        if left is None or name in left.names:
            self._reindex(scope, name)
            return
        # of many notes only a new one is looked at, and its line written
        _append(index, "\n".join([*self._line(scope, name), ""]))
        left.names.add(name)
        changed = self.changed(scope.folder)
        self._listed = replace(left, changed=changed, index=_stamp(index))

    def remove(self, scope: Scope, name: str) -> None:
        folder = self.root / scope.folder
        (folder / f"{name}.md").unlink(missing_ok=True)
        settle_path(folder)
        self._reindex(scope, name)

    def _make(self, folder: Path) -> None:
        missing = [each for each in (folder, folder.parent, self.root) if not each.exists()]
        for each in reversed(missing):
            each.mkdir(mode=0o700, exist_ok=True)
            settle_path(each.parent)

    def _reindex(self, scope: Scope, changed: str) -> None:
        """Lines of ours are made anew, whatever else stands there stays."""
        path = self.root / scope.folder / INDEX
        written = self.index(scope.folder)
        head, body, _ = parted(written)
        fields = {**head, **dict(scope.about)}
        there = self.names(scope.folder)
        kept: list[str] = []
        stale: list[str] = []
        listed: set[str] = set()
        for line in body.strip().splitlines():
            match = _LINK.match(line)
            if match is None:
                kept.append(line)
            elif match["file"] in there and match["file"] != changed:
                kept.append(line)
                listed.add(match["file"])
            else:
                stale.append(line)
        missing = sorted(there - listed)
        lines = [line for name in missing for line in self._line(scope, name)]
        if not written or fields != head or stale not in ([], lines):
            text = (front_matter(fields) if fields else "") + "\n".join([*kept, *lines, ""])
            write_whole(path, text)
        elif lines != stale:
            _append(path, "\n".join([*lines, ""]))
        self._listed = None
        if len(lines) == len(missing):  # what cannot be read has no line yet
            at = self.changed(scope.folder)
            self._listed = _Listed(scope, at, _stamp(path), there)

    def _line(self, scope: Scope, name: str) -> Iterator[str]:
        with suppress(NotRemembered):
            note, _ = self.note(scope.folder, name)
            title = note.title.replace("[", "(").replace("]", ")")
            about = note.description or " ".join(note.text.split())[:120]
            yield f"- [{title}]({name}.md): {about}"


def _is_note(file: str) -> bool:
    return file.endswith(".md") and not file.startswith(".") and file != INDEX


def _stamp(path: Path) -> Stamp | None:
    with suppress(OSError, ValueError):
        status = path.lstat()
        if stat.S_ISREG(status.st_mode):
            return status.st_mtime_ns, status.st_size
    return None


def is_link(line: str) -> bool:
    """Whether a line of an index leads to a note."""
    return _LINK.match(line) is not None


def _append(path: Path, text: str) -> None:
    with path.open("rb+") as file:
        end = file.seek(0, os.SEEK_END)
        file.seek(max(0, end - 1))
        if end and file.read() != b"\n":
            text = f"\n{text}"
        file.write(text.encode())
        settle(file)


def _subfolders(folder: Path) -> Iterator[str]:
    with suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_dir() and not entry.name.startswith("."):
                yield entry.name


def _read(path: Path, most: int) -> bytes:
    """Follows no link and waits for no pipe. Raises OSError, NotRemembered."""
    with open_regular(path) as file:
        content = file.read(most + 1)
    if len(content) > most:
        raise NotRemembered(f"it has more than {most} bytes; make it shorter, or two of it")
    return content


def plain_name(title: str) -> str:
    """What the file of a note with this title is called where the name is free."""
    plain = _SAFE.sub("-", unicodedata.normalize("NFC", title).casefold()).strip("-_")
    plain = plain.encode()[:80].decode("utf-8", "ignore") or "note"
    return "note-memory" if plain == "memory" else plain
