"""Which plugins there are in the home, and which of them somebody trusts as they are now. What is
used of one is a copy of exactly the bytes that were hashed, never what lies in its folder since."""

from __future__ import annotations

import asyncio
import os
import shutil
import tempfile
import time
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Literal

import structlog

from channels.record import record
from ohmo.content import Content, cut, shown, some, stamps_of
from ohmo.contracts.inwriter import in_writer
from ohmo.contracts.trust import Candidate, Trusts
from ohmo.lifecycle import failure_of
from ohmo.plugins.commands import named, spelled
from ohmo.plugins.manifest import BadPlugin, Plugin, read_plugin

log = structlog.get_logger("ohmo.plugins")
MOST = 64  # plugins of one home
FRESH = 2.0  # seconds that a look at the folders counts
_CUT = 300  # characters of what one runs
State = Literal["trusted", "changed", "untrusted", "broken"]
Tell = Callable[[str, str], Awaitable[object]]
"""What it is about, so that it is told once, and the words for the owner."""


@record
class Judged:
    """What else is to be said of one. ``runs``: programs, addresses and questions, a line each;
    ``whole``: the same lines, none cut. ``notes``: what of it does not work here. ``broken``: why
    none of it counts."""

    runs: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    broken: str = ""
    whole: tuple[str, ...] = ()


Judge = Callable[[Plugin], Judged]
"""Blocks."""
Used = tuple[Plugin, Path]
"""A trusted one, and the folder it is used from."""
Taken = Callable[[Sequence[Used]], Collection[str]]
"""Names that no command of these goes before, in lower case. Blocks."""


def nothing_taken(_: Sequence[Used]) -> Collection[str]:
    return ()


@record
class Entry:
    """``why``: what is wrong with it, or how to trust it; trusted: empty. ``copy``: the folder it
    is used from."""

    name: str
    folder: Path
    state: State
    why: str = ""
    plugin: Plugin | None = None
    judged: Judged = Judged()
    copy: Path | None = None

    @property
    def where(self) -> str:
        """Its folder, for people."""
        return f"{self.folder.parent}/{self.name or self.folder.name}"

    @property
    def said(self) -> list[str]:
        """Its commands."""
        if self.plugin is None:
            return []
        return [f"/plugin:{self.name}:{name}" for name in self.plugin.commands]

    @property
    def idle(self) -> tuple[str, ...]:
        """What of it means nothing here: one line, or none."""
        kinds = () if self.plugin is None else self.plugin.rest.idle
        return (f"its {' and '.join(kinds)} do nothing here yet",) if kinds else ()

    @property
    def may(self) -> str:
        """What it could do, or does: one line."""
        plugin, runs = self.plugin, self.judged.runs
        if plugin is None:
            return ""
        lines = some(runs, _CUT, ", which ohmo plugins list --json shows")
        hooks = ("programs of hooks without network",) if plugin.hooks else ()
        servers = ("MCP servers with the network",) if plugin.servers else ()
        if hooks or servers:
            lines.append(f"in the sandbox, with the workspace: {', '.join((*hooks, *servers))}")
        if plugin.skills:
            lines.append("brings skills, which instruct the model")
        if plugin.commands:
            lines.append(cut(f"brings the commands {', '.join(self.said)}", _CUT))
        none = [] if runs else ["runs nothing by itself"]
        return f"{'; '.join([*none, *lines])} ({plugin.rest.size})"


@record
class _Read:
    """Of one folder, while its stamps are these."""

    stamps: object
    found: Plugin | str  # or why there is none
    judged: Judged = Judged()


@record
class _Copy:
    digest: str
    stamps: object


class Plugins:
    """``root``: the folder of their folders. ``copies``: where they are laid to be used; its
    content is ours. ``kept``: where each that is used has a folder to keep things in. ``taken``:
    what no short name of a command may be."""

    def __init__(
        self, root: Path, copies: Path, kept: Path, trusts: Trusts, judge: Judge, tell: Tell,
        *, taken: Taken = nothing_taken, monotonic: Callable[[], float] = time.monotonic,
    ) -> None:  # fmt: skip
        self.entries: tuple[Entry, ...] = ()
        self._root = root
        self._copies = copies
        self._kept = kept
        self._trusts = trusts
        self._judge = judge
        self._tell = tell
        self._taken = taken
        self._monotonic = monotonic
        self._looking = asyncio.Lock()
        self._looked = -FRESH
        self._read: dict[Path, _Read] = {}
        self._told: dict[str, str] = {}  # by name, the digest of the last change
        self._laid: dict[str, _Copy] | None = None  # by name; None: not yet in this life
        self._commands: Mapping[str, str] = {}  # replaced as a whole: the writer reads it

    def any(self) -> bool:
        """Cheap: there is something, whatever it is worth."""
        return bool(_folders(self._root))

    @property
    def trusted(self) -> tuple[Used, ...]:
        """As of the last look."""
        return tuple(
            (entry.plugin, entry.copy)
            for entry in self.entries
            if entry.state == "trusted" and entry.plugin is not None and entry.copy is not None
        )

    @in_writer
    def spelled(self, text: str) -> str | None:
        """What a command of a trusted plugin says; None: the text is none."""
        return spelled(text, self._commands)

    async def look(self) -> tuple[Entry, ...]:
        """As of a moment ago. Raises StoreError."""
        async with self._looking:
            if self._monotonic() - self._looked >= FRESH:
                await self._refreshed()
            return self.entries

    async def refresh(self) -> None:
        """Looks again at once: something was allowed or revoked. Raises StoreError."""
        async with self._looking:
            await self._refreshed()

    async def candidates(self, _: Path) -> list[Candidate]:
        """What waits to be trusted. Raises StoreError."""
        await self.refresh()
        return [
            Candidate("plugin", one.name, "", one.where, "", one.why)
            if one.plugin is None or one.state == "broken"
            else Candidate(
                "plugin", one.name, one.plugin.digest, one.where, "; ".join((one.may, *one.idle))
            )
            for one in self.entries
            if one.state != "trusted" and one.name
        ]

    async def run(self) -> None:
        """Until it is cancelled: follows what happens in the folder."""
        while True:
            await asyncio.sleep(FRESH)
            if not self.entries and not self.any():  # most homes have none: no thread for them
                continue
            error = await failure_of(self.look())
            if error is not None:  # whatever lies there stops nobody
                log.warning("plugins_failed", error=f"{type(error).__name__}: {error}")

    async def _refreshed(self) -> None:
        found = await asyncio.to_thread(self._found)
        rows = [one for one in await self._trusts.trusts() if one.kind == "plugin"]
        before = {one.name for one in rows if one.revoked_at is None}
        judged: list[Entry] = []
        for entry in found:
            plugin = entry.plugin
            if entry.state == "broken" or plugin is None:
                judged.append(entry)
            elif await self._trusts.trusted("plugin", plugin.name, plugin.digest):
                judged.append(await asyncio.to_thread(self._used, entry, plugin))
            else:
                judged.append(_waits(entry, changed=plugin.name in before))
        if judged != list(self.entries):
            states = {entry.name: entry.state for entry in judged}
            log.info("plugins", states=states)
        self.entries = tuple(judged)
        used = {plugin.name: plugin.commands for plugin, _ in self.trusted if plugin.commands}
        taken = await asyncio.to_thread(self._taken, self.trusted) if used else ()
        self._commands = named(used, taken)
        self._looked = self._monotonic()
        now = {entry.name: entry for entry in judged}
        for name in sorted(before):
            if (entry := now.get(name)) is None:
                gone = f"its folder is gone; ohmo trust revoke plugin {name}, if it shall be"
                await self._told_of(name, gone, "gone")
            elif entry.state == "broken":  # of what changed a card asks
                await self._told_of(name, entry.why, entry.why)

    async def _told_of(self, name: str, why: str, state: str) -> None:
        if self._told.get(name) != state:
            about = f"plugin {name} {state[:12]}"
            await self._tell(about, f"The plugin {name} is off: {why}.")
            self._told[name] = state

    def _found(self) -> list[Entry]:
        """Blocks."""
        folders = _folders(self._root)
        names = {folder.name for folder in folders}
        entries = [self._entry(folder, names) for folder in folders[:MOST]]
        if len(folders) > MOST:
            why = f"{len(folders)} plugins: only the first {MOST} are read"
            entries.append(Entry("", self._root, "broken", why))
        self._read = {path: read for path, read in self._read.items() if path in folders}
        return entries

    def _entry(self, folder: Path, names: set[str]) -> Entry:
        stamps = None if folder.is_symlink() else stamps_of(folder)
        read = self._read.get(folder)
        if read is None or read.stamps != stamps:
            read = self._read[folder] = self._read_of(folder, stamps)
        name, found, judged = shown(folder.name)[:80], read.found, read.judged
        if isinstance(found, str):
            return Entry(name, folder, "broken", found)
        alike = [one for one in names if _alike(one) == _alike(folder.name) and one != folder.name]
        if alike:
            why = f"its name is too much like that of {self._root / alike[0]}; rename one of them"
            return Entry(name, folder, "broken", why)
        if found.name != folder.name:
            how = "the folder is to be called so too; rename one of them"
            if found.name in names:
                how = f"that name is taken by {self._root / found.name}; choose another"
            return Entry(name, folder, "broken", f"it calls itself {found.name}: {how}")
        if judged.broken:
            return Entry(name, folder, "broken", judged.broken)
        return Entry(name, folder, "untrusted", "", found, judged)

    def _read_of(self, folder: Path, stamps: object) -> _Read:
        try:
            plugin = read_plugin(folder)[0]
            return _Read(stamps, plugin, self._judge(plugin))
        except BadPlugin as error:
            return _Read(stamps, str(error))
        except Exception as error:  # noqa: BLE001 - anybody may have written it; nothing of it runs
            return _Read(stamps, f"it cannot be read ({type(error).__name__}); take it away")

    def _used(self, entry: Entry, plugin: Plugin) -> Entry:
        """Blocks: with its copy, which is made again when anything in it is not as it was laid."""
        copy = self._copies / f"{plugin.name}-{plugin.digest[:16]}"
        try:
            if self._laid is None:  # whatever an earlier life left there
                shutil.rmtree(self._copies, ignore_errors=True)
                self._laid = {}
            laid = self._laid.get(plugin.name)
            if laid is None or laid != _Copy(plugin.digest, stamps_of(copy)):
                content = read_plugin(plugin.folder)[1]
                if content.digest != plugin.digest:
                    return replace(entry, state="broken", why="it is being changed; look again")
                _lay(copy, content)
                self._laid[plugin.name] = _Copy(plugin.digest, stamps_of(copy))
            (self._kept / plugin.name).mkdir(mode=0o700, parents=True, exist_ok=True)
        except (OSError, BadPlugin) as error:
            return replace(entry, state="broken", why=f"it cannot be copied to {copy}: {error}")
        return replace(entry, state="trusted", copy=copy)


def _alike(name: str) -> str:
    """The same for two names of which one would stand for the other."""
    return name.casefold().replace("_", "-")


def _waits(entry: Entry, *, changed: bool) -> Entry:
    how = f"ohmo trust allow plugin {entry.name}"
    if changed:
        return replace(entry, state="changed", why=f"it changed since it was trusted: {how}")
    return replace(entry, why=f"nobody trusts it yet: {how}")


def _lay(folder: Path, content: Content) -> None:
    """Raises OSError."""
    folder.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    new = Path(tempfile.mkdtemp(dir=folder.parent))
    for name, part in content.files.items():
        file = new / name
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        file.write_bytes(part.data)
        file.chmod(0o700 if part.runs else 0o600)
    if folder.exists():  # programs may be using it, and may write to it
        old = Path(tempfile.mkdtemp(dir=folder.parent))
        folder.rename(old / "old")
        new.rename(folder)
        shutil.rmtree(old, ignore_errors=True)
    else:
        new.rename(folder)


def _folders(root: Path) -> list[Path]:
    """By name, also where a link stands for one; none when the place is not there."""
    try:
        with os.scandir(root) as entries:
            return sorted(
                root / entry.name
                for entry in entries
                if not entry.name.startswith(".")
                and (entry.is_symlink() or entry.is_dir(follow_symlinks=False))
            )
    except OSError:
        return []
