"""Which skills there are for work in a folder: the project's own before the user's before those of
plugins before those that come with ohmo; and whether they may take part."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from shlex import quote
from typing import Literal

from channels.record import record
from ohmo.content import Content, digest_of, shown, some, stamps_of
from ohmo.contracts.trust import Candidate, Trusts
from ohmo.skills.folder import FILE, BadSkill, Skill, folders_in, read_skill

BUNDLED = Path(__file__).with_name("bundled")
PROJECT = (".ohmo/skills", ".claude/skills")  # below its root, the first goes before
MOST_SKILLS = 200  # of one place
FRESH = 2.0  # seconds that a look at the folders counts
FOLDERS = 32  # that work is done in, of which is known what there was at first
HEAD = "For such work call Skill with the name first, and follow what it says."
_SHORT = 120  # characters of a description where there are too many
Source = Literal["project", "user", "plugin", "bundled"]
State = Literal["ready", "untrusted", "shadowed", "broken"]


@record
class Place:
    """A folder of skill folders, or one skill of a plugin. ``owned``: it is the agent's own, or
    came with it; elsewhere skills count once somebody trusts their content."""

    source: Source
    folder: Path
    owned: bool


@record
class Entry:
    """``why``: what is wrong with it, by what it is shadowed, or how to trust it; ready: empty."""

    name: str
    source: Source
    path: Path
    state: State
    why: str = ""
    skill: Skill | None = None


@record
class Shelf:
    """What there is for one folder, in the order of precedence. ``project``: its root and the
    digest of all skills in it, "" where it has none or they cannot be read."""

    entries: tuple[Entry, ...] = ()
    project: tuple[str, str] = ("", "")

    @property
    def ready(self) -> Mapping[str, Skill]:
        return {
            entry.name: entry.skill
            for entry in self.entries
            if entry.state == "ready" and entry.skill is not None
        }


Lent = Callable[[], Awaitable[Sequence[Place]]]
"""Places of trusted plugins. Raises StoreError."""


async def no_plugins() -> Sequence[Place]:
    return ()


class Skills:
    """``places``: for work in a folder, beside the project's. ``root_of``: the project a folder
    belongs to. ``environ``: what commands are given. ``lent``: places before the bundled ones."""

    def __init__(
        self,
        places: Sequence[Place],
        trusts: Trusts,
        root_of: Callable[[Path], Path | None],
        environ: Mapping[str, str],
        *,
        lent: Lent = no_plugins,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._places = tuple(sorted(places, key=lambda place: place.source == "bundled"))
        self._lent = lent
        self._trusts = trusts
        self._root_of = root_of
        self._environ = environ
        self._monotonic = monotonic
        self._read: dict[Path, tuple[object, Skill | BadSkill]] = {}  # by folder, with its stamps
        self._looks: dict[
            Path, tuple[float, Shelf, frozenset[str]]
        ] = {}  # and what was there first

    async def look(self, folder: Path) -> Shelf:
        """As of a moment ago."""
        now = self._monotonic()
        known = self._looks.pop(folder, None)
        if known is None or now - known[0] >= FRESH:
            shelf = await self._look(folder)
            known = (now, shelf, frozenset(shelf.ready) if known is None else known[2])
        self._looks[folder] = known
        if len(self._looks) > FOLDERS:
            self._looks.pop(next(iter(self._looks)))
        return known[1]

    async def told(self, folder: Path, budget: int) -> str:
        """What there is, as the model reads it; "" for nothing. ``budget``: tokens, roughly. Raises
        StoreError."""
        return in_lines((await self.look(folder)).ready, int(budget * 3.5))

    async def refresh(self) -> None:
        """Looks again wherever work is done: something was allowed or revoked."""
        for folder, (_, _, first) in list(self._looks.items()):
            shelf = await self._look(folder)
            self._looks[folder] = (self._monotonic(), shelf, first)

    async def take(self, folder: Path, name: str) -> tuple[Entry, Content]:
        """The skill of this name with all its files, read this moment: what is given is what was
        trusted. Raises BadSkill, StoreError."""
        shelf = await self._look(folder)
        for entry in shelf.entries:
            if entry.name == name and entry.state == "ready" and entry.skill is not None:
                skill, content = await asyncio.to_thread(read_skill, entry.path)
                if content.digest != entry.skill.digest:
                    raise BadSkill(f"{name}: it is being changed; call again")
                return replace(entry, skill=skill), content
        for entry in shelf.entries:
            if entry.name == name and entry.why:
                raise BadSkill(f"{name}: {entry.why}")
        names = ", ".join(shelf.ready) or "none"
        raise BadSkill(f"there is no skill {name[:80]!r}; there are: {names}")

    def later(self, folder: Path) -> str:
        """What came since this process first worked in the folder; empty: nothing."""
        known = self._looks.get(folder)
        if known is None:
            return ""
        come = {name: s for name, s in known[1].ready.items() if name not in known[2]}
        return f"Skills that came later. {in_lines(come)}" if come else ""

    async def candidates(self, folder: Path) -> list[Candidate]:
        """What waits to be trusted, for work in this folder."""
        shelf = await self._look(folder)
        waiting: list[Candidate] = []
        for entry in shelf.entries:
            if entry.state == "untrusted" and entry.skill is not None:
                may = f"instructs the model; {_programs(entry.skill)}"
                found = Candidate("skill", entry.name, entry.skill.digest, str(entry.path), may)
                waiting.append(found)
        root, digest = shelf.project
        theirs = [
            f"{one.name} ({_programs(one.skill)})"
            for one in shelf.entries
            if one.source == "project" and one.state == "untrusted" and one.skill is not None
        ]
        if digest and theirs:
            may = f"brings skills, which instruct the model: {', '.join(some(theirs, _SHORT))}"
            waiting.append(Candidate("project", root, digest, root, may))
        return waiting

    async def _look(self, folder: Path) -> Shelf:
        others = [place for place in self._places if place.source != "bundled"]
        places = (*others, *await self._lent(), *self._places[len(others) :])
        entries, project = await asyncio.to_thread(self._found, folder, places)
        root, digest = project
        whole = bool(digest) and await self._trusts.trusted("project", root, digest)
        owned = {place.folder for place in places if place.owned}
        judged: list[Entry] = []
        first: dict[str, Path] = {}
        for found in entries:
            entry = found
            skill = entry.skill
            if (
                skill is not None
            ):  # also of a broken one: nothing of it is told before it is trusted
                trusted = (
                    not owned.isdisjoint((entry.path, entry.path.parent))
                    or (whole and entry.source == "project")
                    or await self._trusts.trusted("skill", skill.name, skill.digest)
                )
                if not trusted:
                    how = f"ohmo trust allow skill {quote(skill.name)}"
                    if entry.source == "project":
                        how += f" --folder {quote(root)}"
                    entry = replace(entry, state="untrusted", why=f"nobody trusts it yet: {how}")
                elif entry.state == "broken":
                    pass
                elif entry.name in first:
                    why = f"{first[entry.name]} goes before it"
                    entry = replace(entry, state="shadowed", why=why)
                else:
                    first[entry.name] = entry.path
            judged.append(entry)
        return Shelf(tuple(judged), project)

    def _found(self, folder: Path, places: Sequence[Place]) -> tuple[list[Entry], tuple[str, str]]:
        """Blocks."""
        root = self._root_of(folder) or folder
        own = [Place("project", root / name, owned=False) for name in PROJECT]
        entries: list[Entry] = []
        seen: set[Path] = set()
        for place in (*own, *places):
            if place.folder in seen:
                continue
            seen.add(place.folder)
            one = place.source == "plugin" and (place.folder / FILE).is_file()
            folders = [place.folder] if one else folders_in(place.folder)
            entries += [self._entry(place, path) for path in folders[:MOST_SKILLS]]
            if len(folders) > MOST_SKILLS:
                why = f"{len(folders)} skills: only the first {MOST_SKILLS} are read"
                entries.append(Entry("", place.source, place.folder, "broken", why))
        digests: dict[str, str] = {}
        for entry in entries:
            if entry.source == "project" and entry.skill is not None:
                digests[os.path.relpath(entry.path, root)] = entry.skill.digest
        return entries, (str(root), digest_of(digests) if digests else "")

    def _entry(self, place: Place, path: Path) -> Entry:
        stamps = stamps_of(path)
        known = self._read.get(path)
        if known is None or known[0] != stamps:
            try:
                known = (stamps, read_skill(path)[0])
            except BadSkill as error:
                known = (stamps, error)
            self._read[path] = known
            if len(self._read) > FOLDERS * MOST_SKILLS:
                self._read.pop(next(iter(self._read)))
        read = known[1]
        if isinstance(read, BadSkill):
            return Entry(shown(path.name)[:80], place.source, path, "broken", str(read))
        if missing := read.needs.missing(self._environ):
            return Entry(read.name, place.source, path, "broken", missing, read)
        return Entry(read.name, place.source, path, "ready", "", read)


def in_lines(skills: Mapping[str, Skill], most: int = 0) -> str:
    """As the model is told of them; empty: there are none. ``most``: characters beyond which
    descriptions are cut, 0: never."""
    if not skills:
        return ""
    lines = [f"- {name}: {skill.description}" for name, skill in skills.items()]
    if most and sum(map(len, lines)) > most:
        lines = [line if len(line) <= _SHORT else f"{line[:_SHORT].rstrip()}…" for line in lines]
    return "\n".join((HEAD, *lines))


def _programs(skill: Skill) -> str:
    """What of it can be run, and its size."""
    runs = skill.programs
    programs = f"programs: {', '.join(map(shown, runs[:5]))}" if runs else "no programs"
    more = f" and {len(runs) - 5} more" if len(runs) > 5 else ""
    return f"{programs}{more}; {len(skill.files) + 1} files, {max(1, skill.size >> 10)} KiB"
