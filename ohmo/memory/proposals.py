"""Changes of the memory that wait for a person's word: a file each, with the new text of every
note it changes, so that what is accepted is what was shown. Those that were accepted lie beside
them with what was there before, so that they can be taken back."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import field, replace
from difflib import unified_diff
from pathlib import Path
from typing import Any, cast

from channels.durable import settle_path, take_place, write_whole
from channels.record import record
from ohmo.memory.files import NoteFiles
from ohmo.memory.notes import NotRemembered, note_of, together
from ohmo.memory.scopes import Scope, digest_of

FOLDER = "proposals"
DONE = "done"  # folder of those that were accepted
MOST = 50  # that wait in one scope
KEPT = 50  # that were accepted, of all scopes
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
    digests of those there are. ``accepted``: by whom, once it is being done; ``was``: the texts
    there were then."""

    number: int
    scope: Scope
    origin: Origin
    changes: Mapping[str, str | None]
    before: Mapping[str, str]
    accepted: str = ""
    was: Mapping[str, str | None] = field(default_factory=dict[str, str | None])

    def back(self) -> Proposal:
        """What takes it back."""
        digests = {name: _digest(text) for name, text in self.changes.items()}
        return replace(self, changes=self.was, before=digests)


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

    def done(self, scopes: Mapping[str, Scope], number: int) -> Proposal | None:
        """What was accepted under this number, for one of these scopes, by folder."""
        proposal = _read(self._folder / DONE / f"{number}.json", number)
        if proposal is None or proposal.scope.folder not in scopes:
            return None
        return replace(proposal, scope=scopes[proposal.scope.folder])

    def add(self, scope: Scope, changes: Mapping[str, str | None], origin: Origin) -> Proposal:
        """Raises NotRemembered: too many wait."""
        waiting = self.waiting({scope.folder: scope})
        if len(waiting) >= MOST:
            raise NotRemembered(f"{MOST} proposals wait already; accept or reject some (/memory)")
        titles = {one.origin.title: one.number for one in waiting if not one.accepted}
        before = {name: self.digest(scope.folder, name) for name in changes}
        newest = max((*self._numbers(), *self._numbers(DONE)), default=0) + 1
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
                source = together((note.source, f"accepted by {by}"))
                changes[name] = replace(note, source=source).file()
        was = {name: self._text(proposal.scope.folder, name) for name in changes}
        proposal = replace(proposal, changes=changes, accepted=by, was=was)
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
            "was": dict(proposal.was),
        }
        text = json.dumps(body, ensure_ascii=False, indent=1)
        write_whole(self._path(proposal.number), f"{text}\n")

    def _numbers(self, part: str = "") -> list[int]:
        folder = self._folder / part
        paths = folder.glob("*.json") if folder.is_dir() else ()
        return sorted(int(path.stem) for path in paths if _NUMBER.fullmatch(path.stem))

    def stands(self, proposal: Proposal) -> bool:
        """Whether nobody has changed what it is about; what is done of it already counts as
        such."""
        for name, text in proposal.changes.items():
            known = (proposal.before.get(name), _digest(text))
            if self.digest(proposal.scope.folder, name) not in known:
                return False
        return True

    def drop(self, proposal: Proposal) -> None:
        for folder in (self._folder, self._folder / DONE):
            (folder / f"{proposal.number}.json").unlink(missing_ok=True)
        settle_path(self._folder)

    def settle(self, proposal: Proposal) -> None:
        """It was done; the oldest of those that were go."""
        folder = self._folder / DONE
        folder.mkdir(mode=0o700, exist_ok=True)
        take_place(self._path(proposal.number), folder / f"{proposal.number}.json")
        settle_path(self._folder)
        for number in self._numbers(DONE)[:-KEPT]:
            (folder / f"{number}.json").unlink(missing_ok=True)

    def diff(self, proposal: Proposal) -> str:
        """What would change, line by line."""
        lines: list[str] = []
        for name, text in proposal.changes.items():
            old = self._text(proposal.scope.folder, name) or ""
            after = (text or "").splitlines()
            file = f"{name}.md"
            lines += unified_diff(old.splitlines(), after, file, file, lineterm="", n=1)
        return "\n".join(lines)

    def _path(self, number: int) -> Path:
        return self._folder / f"{number}.json"

    def _text(self, folder: str, name: str) -> str | None:
        with suppress(NotRemembered):
            return self._files.raw(folder, name).decode("utf-8", "replace")
        return None

    def digest(self, folder: str, name: str) -> str:
        """Of the file of a note; empty: there is none."""
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
        changes = _texts(body["changes"])
        if any("/" in name or name.startswith(".") or not name for name in changes):
            return None
        folder = str(body["folder"])
        if not _FOLDER.fullmatch(folder):
            return None
        before = {str(name): str(digest) for name, digest in body["before"].items()}
        origin = Origin(*(str(body[key]) for key in ("title", "by", "at", "why")))
        accepted = str(body["accepted"])
        was = _texts(body.get("was", {}))
        return Proposal(number, Scope("", folder), origin, changes, before, accepted, was)
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None


def _digest(text: str | None) -> str:
    return "" if text is None else digest_of(text)


def _texts(body: Any) -> dict[str, str | None]:
    items = cast("dict[Any, Any]", body).items()
    return {str(name): None if text is None else str(text) for name, text in items}
