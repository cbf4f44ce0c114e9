"""Where notes are written, found, read and forgotten: the one face for tools, chat, keyboard and
page."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from channels.contract import Clock
from channels.record import record
from ohmo.memory.files import NoteFiles, is_link, plain_name
from ohmo.memory.notes import LONGEST, Note, NotRemembered, parted
from ohmo.memory.projects import Projects
from ohmo.memory.proposals import Origin, Proposal, Proposals
from ohmo.memory.scopes import OWNER, Scope, Viewer, visible
from ohmo.memory.search_index import SearchIndex

GLIMPSE = 300  # characters of a note that a list shows
_OWN = ("owner", "person")  # how a shell and a chat call the scope of the owner


@record
class Found:
    """A note, and by which name the one who looks calls it."""

    called: str
    note: Note


@record
class Said:
    """Where the words of a note come from. ``taint``: foreign ones of its session."""

    by: str
    where: str
    taint: frozenset[str] = frozenset()


@record
class MemorySettings:
    """``root_of``: the repository around a folder. ``redact``: takes secrets out of words."""

    opaque: bool
    environ: Mapping[str, str]
    root_of: Callable[[Path], Path | None]
    redact: Callable[[str], str]
    clock: Clock


class Memory:
    """Every method blocks and is called beside the event loop; raises NotRemembered, OSError."""

    def __init__(self, root: Path, cache: Path, settings: MemorySettings) -> None:
        self.root = root
        self._settings = settings
        self._files = NoteFiles(root)
        self._index = SearchIndex(cache / "memory.sqlite3", self._files)
        self._proposals = Proposals(self._files)
        self._projects = Projects(
            self._files.project_heads, settings.root_of, settings.environ, opaque=settings.opaque
        )
        self._lock = threading.Lock()

    def close(self) -> None:
        with self._lock:
            self._index.close()

    def empty(self) -> bool:
        """Whether nothing was ever written: a quick look."""
        with suppress(OSError):
            return not any(self.root.iterdir())
        return True

    def scopes(self, viewer: Viewer) -> tuple[Scope, ...]:
        """Those the viewer sees; the first is where a note goes that names none."""
        return visible(viewer, self._projects.scope, opaque=self._settings.opaque)

    def everything(self) -> tuple[Scope, ...]:
        """Every scope there is, called by its folder: for the owner at the keyboard."""
        folders = {*self._files.folders(), *self._proposals.folders()}
        return tuple(Scope(folder or "owner", folder) for folder in sorted(folders))

    def index(self, scope: Scope) -> list[str]:
        """Lines of its ``MEMORY.md``, those that people wrote themselves first."""
        _, body, _ = parted(self._files.index(scope.folder))
        lines = [line for line in body.splitlines() if line.strip()]
        return sorted(lines, key=is_link)

    def write(self, scope: Scope, note: Note, said: Said) -> Found | Proposal:
        """A note with this title takes the place of an older one. Where foreign words stand in the
        conversation it only becomes a proposal: who is not here has no say in what is
        remembered."""
        whole = f"{note.head}\n{note.text}"
        if self._settings.redact(whole) != whole:
            raise NotRemembered(
                "it holds what looks like a password, a key or a token; leave that out"
            )
        if len(note.text) > LONGEST:
            raise NotRemembered(
                f"it has {len(note.text)} characters, at most {LONGEST} fit into one note: make it"
                " shorter, or two of it"
            )
        with self._lock:
            name = self._files.name_for(scope.folder, note.title)
            at = self._settings.clock().isoformat(timespec="seconds")
            note = replace(
                note, folder=scope.folder, name=name, said_by=said.by, where=said.where, at=at
            )
            if said.taint:
                note = replace(note, source=", ".join(sorted(said.taint)))
                changes = {name: note.file()}
                return self._propose(scope, changes, f"remember: {note.title}", said)
            with self._index.changing(scope.folder, {name}):
                self._files.write(scope, name, note.file())
        return Found(f"{scope.label}/{name}", note)

    def forget(self, scopes: Sequence[Scope], called: str, said: Said) -> Found | Proposal:
        with self._lock:
            scope, found = self._one(scopes, called)
            if said.taint:
                title = f"forget: {found.note.title}"
                return self._propose(scope, {found.note.name: None}, title, said)
            with self._index.changing(scope.folder, {found.note.name}):
                self._files.remove(scope, found.note.name)
        return found

    def refresh(self) -> None:
        """Looks for files of large folders that were edited in place; the next search knows."""
        with self._lock:
            for folder in tuple(self._index.stale):
                self._index.refresh(folder)

    def read(self, scopes: Sequence[Scope], called: str) -> Found:
        """``called``: a name, alone or behind the label of its scope and a stroke."""
        return self._one(scopes, called)[1]

    def search(
        self, scopes: Sequence[Scope], words: str, limit: int = 5, *, loose: bool = True
    ) -> list[Found]:
        """The best first. ``loose``: as ``folding.question``."""
        labels = {scope.folder: scope.label for scope in scopes}
        with self._lock:
            spots = self._index.search(list(labels), words, limit, loose=loose)
            stale = bool(self._index.stale)
        if stale:
            threading.Thread(target=self.refresh, daemon=True).start()
        found: list[Found] = []
        for spot in spots:
            with suppress(NotRemembered):  # it went meanwhile
                note, _ = self._files.note(spot.folder, spot.name)
                found.append(Found(f"{labels[spot.folder]}/{spot.name}", note))
        return found

    def newest(self, scopes: Sequence[Scope], limit: int = 200) -> list[Found]:
        """As they were changed last, what cannot be read left out."""
        stamps = [
            (stamp[0], name, scope)
            for scope in scopes
            for name, stamp in self._files.stamps(scope.folder).items()
        ]
        found: list[Found] = []
        for _, name, scope in sorted(stamps, key=lambda each: each[:2], reverse=True)[:limit]:
            with suppress(NotRemembered):
                note, _ = self._files.note(scope.folder, name)
                found.append(Found(f"{scope.label}/{name}", note))
        return found

    def problems(self, scopes: Sequence[Scope]) -> list[str]:
        """What of the files cannot be read as it should, a line each."""
        labels = {scope.folder: scope.label for scope in scopes}
        with self._lock:
            wrong = self._index.problems(list(labels))
        lines = [f"{labels[spot.folder]}/{spot.name}.md: {why}" for spot, why in wrong]
        for folder, label in labels.items():
            names = self._files.no_files(folder)
            lines += [f"{label}/{name}: it is no plain file, so it is not read" for name in names]
        return lines + self._proposals.broken()

    def proposals(self, scopes: Sequence[Scope]) -> list[Proposal]:
        """The oldest first, each with the scope as the one who looks calls it."""
        return self._proposals.waiting({scope.folder: scope for scope in scopes})

    def diff(self, proposal: Proposal) -> str:
        """What it would change, line by line."""
        return self._proposals.diff(proposal)

    def gathered(self, scope: Scope, room: int) -> tuple[list[Note], Mapping[str, str], int]:
        """The newest notes that fit into ``room`` characters, the digest of each one's file by its
        name, and how many notes there are."""
        stamps = self._files.stamps(scope.folder)
        notes: list[Note] = []
        digests: dict[str, str] = {}
        for name in sorted(stamps, key=stamps.__getitem__, reverse=True):
            with suppress(NotRemembered):
                digest = self._proposals.digest(scope.folder, name)
                note, problem = self._files.note(scope.folder, name)
                room -= len(note.head) + len(note.text)
                if room < 0:
                    break
                if not problem:
                    notes.append(note)
                    digests[name] = digest
        return notes, digests, len(stamps)

    def propose(
        self,
        scope: Scope,
        changes: Mapping[str, str | None],
        title: str,
        said: Said,
        read: Mapping[str, str],
    ) -> Proposal:
        """``read``: digests of the notes it was made of; none of them may have changed since."""
        with self._lock:
            if any(self._proposals.digest(scope.folder, name) != read[name] for name in changes):
                raise NotRemembered(
                    "notes were changed meanwhile, so nothing is proposed; ask again"
                )
            return self._propose(scope, changes, title, said)

    def accept(self, scopes: Sequence[Scope], number: int, by: str) -> Proposal:
        """Killed in between it is whole when it is accepted again."""
        with self._lock:
            proposal = self._waiting(scopes, number)
            self._check(proposal, f"proposal {number}", "reject it, and ask again")
            proposal = self._proposals.signed(proposal, by)
            self._carry_out(proposal)
            self._proposals.settle(proposal)
        return proposal

    def undo(self, scopes: Sequence[Scope], number: int) -> Proposal:
        """Notes become what they were before a proposal was accepted. Killed in between it is whole
        when it is said again."""
        with self._lock:
            done = self._proposals.done({scope.folder: scope for scope in scopes}, number)
            if done is None:
                raise NotRemembered(
                    f"no proposal {number} was accepted here, or it is too long ago"
                )
            self._check(done.back(), f"what proposal {number} did", "change them by hand")
            self._carry_out(done.back())
            self._proposals.drop(done)
        return done

    def _check(self, proposal: Proposal, what: str, instead: str) -> None:
        if not self._proposals.stands(proposal):
            raise NotRemembered(f"{what}: its notes were changed since; {instead}")

    def _carry_out(self, proposal: Proposal) -> None:
        with self._index.changing(proposal.scope.folder, proposal.changes.keys()):
            for name, text in proposal.changes.items():
                if text is None:
                    self._files.remove(proposal.scope, name)
                else:
                    self._files.write(proposal.scope, name, text)

    def reject(self, scopes: Sequence[Scope], number: int) -> Proposal:
        with self._lock:
            proposal = self._waiting(scopes, number)
            self._proposals.drop(proposal)
        return proposal

    def _propose(
        self, scope: Scope, changes: Mapping[str, str | None], title: str, said: Said
    ) -> Proposal:
        why = ", ".join(sorted(said.taint))
        at = self._settings.clock().isoformat(timespec="seconds")
        return self._proposals.add(scope, changes, Origin(title, said.by, at, why))

    def _waiting(self, scopes: Sequence[Scope], number: int) -> Proposal:
        waiting = self.proposals(scopes)
        for proposal in waiting:
            if proposal.number == number:
                return proposal
        numbers = ", ".join(str(each.number) for each in waiting) or "none"
        raise NotRemembered(f"no proposal {number} waits here; there is {numbers}")

    def _one(self, scopes: Sequence[Scope], called: str) -> tuple[Scope, Found]:
        label, _, said = called.strip().removesuffix(".md").rpartition("/")

        def named(name: str) -> list[Scope]:
            return [
                scope
                for scope in scopes
                if label in ("", scope.label, *(_OWN if scope.folder == OWNER else ()))
                and self._files.stamp(scope.folder, name) is not None
            ]

        name = said
        there = named(name)
        if not there:  # it may be the title
            name = plain_name(said)
            there = named(name)
        if len(there) > 1:
            names = " or ".join(f"{scope.label}/{name}" for scope in there)
            raise NotRemembered(f"{name}: which one, {names}?")
        if not there:
            raise NotRemembered(
                f"{called.strip()[:80]}: there is no such note; a search finds more"
            )
        note, _ = self._files.note(there[0].folder, name)
        return there[0], Found(f"{there[0].label}/{name}", note)


def glimpse(found: Found) -> str:
    """One line: name, who said it, how it begins."""
    note = found.note
    about = note.description or " ".join(note.text.split())
    whose = note.provenance()
    head = f"{note.title} ({whose})" if whose else note.title
    return f"- {found.called}: {head}: {about[:GLIMPSE]}{'…' if len(about) > GLIMPSE else ''}"


def shown(found: Found) -> str:
    """The whole note."""
    note = found.note
    aliases = f"also: {', '.join(note.aliases)}" if note.aliases else ""
    head = [f"{found.called}: {note.title}", note.provenance(), note.description, aliases]
    return "\n".join([*(line for line in head if line), "", note.text])
