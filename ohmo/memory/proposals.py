"""Changes of the memory that wait for a person's word: a file each, with the new text of every
note it changes, so that what is accepted is what was shown."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from difflib import unified_diff
from pathlib import Path
from typing import Any, cast

from channels.durable import settle_path, write_whole
from channels.record import record
from ohmo.memory.files import NoteFiles
from ohmo.memory.notes import NotRemembered, note_of
from ohmo.memory.scopes import Scope, digest_of

FOLDER = "proposals"
MOST = 50  # that wait in one scope
_LARGEST = 4 << 20  # bytes
_FOLDER = re.compile(r"(?:(?:people/|chats/)?[\w-][\w.-]*)?")
_NUMBER = re.compile("[1-9][0-9]{0,8}")


@record
class Origin:
    """``why``: which foreign words are behind it."""

    title: str
    by: str
    at: str  # ISO 8601
    why: str


@record
class Proposal:
    """``changes``: the text of each note's file as it would be, None: it is removed; ``before``:
    digests of those there are. ``accepted``: by whom, while it is being done."""

    number: int
    scope: Scope
    origin: Origin
    changes: Mapping[str, str | None]
    before: Mapping[str, str]
    accepted: str = ""


class Proposals:
    """Blocks. Raises OSError."""

    def __init__(self, files: NoteFiles) -> None:
        self._files = files
        self._folder = files.root / FOLDER

    def waiting(self, scopes: Mapping[str, Scope]) -> list[Proposal]:
        """Those for these scopes, by folder; the oldest first."""
        found: list[Proposal] = []
        for number in self._numbers():
            proposal = _read(self._path(number), number)
            if proposal is not None and proposal.scope.folder in scopes:
                found.append(replace(proposal, scope=scopes[proposal.scope.folder]))
        return found

    def folders(self) -> set[str]:
        """Of scopes for which something waits, also where nothing was written yet."""
        found = (_read(self._path(number), number) for number in self._numbers())
        return {proposal.scope.folder for proposal in found if proposal is not None}

    def broken(self) -> list[str]:
        """Files of it that nobody can read, a line each."""
        wrong = [n for n in self._numbers() if _read(self._path(n), n) is None]
        return [f"{FOLDER}/{n}.json: it is no proposal any more; remove it" for n in wrong]

    def add(self, scope: Scope, changes: Mapping[str, str | None], origin: Origin) -> Proposal:
        """Raises NotRemembered: too many wait."""
        waiting = self.waiting({scope.folder: scope})
        if len(waiting) >= MOST:
            raise NotRemembered(f"{MOST} proposals wait already; accept or reject some (/memory)")
        titles = {proposal.origin.title: proposal.number for proposal in waiting}
        before = {name: self._digest(scope.folder, name) for name in changes}
        newest = max(self._numbers(), default=0) + 1
        number = titles.get(origin.title, newest)  # proposed again, it takes its own place
        proposal = Proposal(number, scope, origin, changes, before)
        self._write(proposal)
        return proposal

    def signed(self, proposal: Proposal, by: str) -> Proposal:
        """With who accepted it, written before anything of it is done."""
        if proposal.accepted:
            return proposal
        changes = dict(proposal.changes)
        for name, text in changes.items():
            if text is not None:
                note, _ = note_of(proposal.scope.folder, name, text.encode("utf-8", "replace"))
                source = ", ".join(part for part in (note.source, f"accepted by {by}") if part)
                changes[name] = replace(note, source=source).file()
        proposal = replace(proposal, changes=changes, accepted=by)
        self._write(proposal)
        return proposal

    def _write(self, proposal: Proposal) -> None:
        if not self._folder.exists():
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            settle_path(self._folder.parent)
        origin = proposal.origin
        body = {
            "folder": proposal.scope.folder,
            "title": origin.title,
            "by": origin.by,
            "at": origin.at,
            "why": origin.why,
            "changes": dict(proposal.changes),
            "before": dict(proposal.before),
            "accepted": proposal.accepted,
        }
        text = json.dumps(body, ensure_ascii=False, indent=1)
        write_whole(self._path(proposal.number), f"{text}\n")

    def _numbers(self) -> list[int]:
        paths = self._folder.glob("*.json") if self._folder.is_dir() else ()
        return sorted(int(path.stem) for path in paths if _NUMBER.fullmatch(path.stem))

    def stands(self, proposal: Proposal) -> bool:
        """Whether nobody has changed what it is about; what is done of it already counts as
        such."""
        for name, text in proposal.changes.items():
            done = "" if text is None else digest_of(text)
            if self._digest(proposal.scope.folder, name) not in (proposal.before.get(name), done):
                return False
        return True

    def drop(self, proposal: Proposal) -> None:
        self._path(proposal.number).unlink(missing_ok=True)
        settle_path(self._folder)

    def diff(self, proposal: Proposal) -> str:
        """What would change, line by line."""
        lines: list[str] = []
        for name, text in proposal.changes.items():
            old = ""
            with suppress(NotRemembered):
                old = self._files.raw(proposal.scope.folder, name).decode("utf-8", "replace")
            after = (text or "").splitlines()
            file = f"{name}.md"
            lines += unified_diff(old.splitlines(), after, file, file, lineterm="", n=1)
        return "\n".join(lines)

    def _path(self, number: int) -> Path:
        return self._folder / f"{number}.json"

    def _digest(self, folder: str, name: str) -> str:
        try:
            return digest_of(self._files.raw(folder, name).decode("utf-8", "surrogateescape"))
        except NotRemembered:
            return ""


def _read(path: Path, number: int) -> Proposal | None:
    """None: nobody can tell what it says."""
    try:
        if path.is_symlink() or path.stat().st_size > _LARGEST:
            return None
        body: Any = json.loads(path.read_text(encoding="utf-8"))
        changes = {
            str(name): None if text is None else str(text)
            for name, text in cast("dict[Any, Any]", body["changes"]).items()
        }
        if any("/" in name or name.startswith(".") or not name for name in changes):
            return None
        folder = str(body["folder"])
        if not _FOLDER.fullmatch(folder):
            return None
        before = {str(name): str(digest) for name, digest in body["before"].items()}
        origin = Origin(*(str(body[key]) for key in ("title", "by", "at", "why")))
        accepted = str(body["accepted"])
        return Proposal(number, Scope("", folder), origin, changes, before, accepted)
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None
