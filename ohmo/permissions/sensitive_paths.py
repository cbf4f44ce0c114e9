"""Whether a path, or anything a pattern may become, is a sensitive place: through symlinks, ``..``
and spellings of case; and what one judgement has found out about the disk, so that a command of
thousands of words asks once."""

from __future__ import annotations

import glob
import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from copy import copy
from functools import cached_property
from pathlib import Path

from ohmo.contracts.tool import CallContext
from ohmo.permissions.sensitive_places import ABSOLUTE, ANYWHERE, AgentHome, FileAliases, Touch
from ohmo.shell.patterns import (
    ANY,
    TooWide,
    component_expression,
    expand,
    folded,
    known,
    overlap,
    real,
)

# characters; no kernel opens a longer path (PATH_MAX is 4096), and to look for it takes long
_LONGEST = 8192
_BARE = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9_.-]*")
_WILD = frozenset("*?[")
# Folders that tell nothing about a place below them.
_EVERYWHERE = frozenset({"root", "home", "users", "tmp"})
# Holds environ, mem, fd.
_PROCESS = re.compile(r"/proc/(?:self|thread-self|\d+)(?:/task(?:/\d+)?)?")
# The command's own, or harmless.
_DESCRIPTOR = re.compile(r"/dev/(?:fd/\d|stdin|stdout|stderr|null|zero|u?random|tty)")

_OPEN = re.compile(r"/(?:dev/(?:fd|stdin|stdout|stderr)|proc/[^/]+/(?:task/[^/]+/)?fd)(?:/|$)")


def _place(parts: list[str]) -> str:
    return "/".join(component_expression(part) for part in parts)


def names_descriptor(path: str) -> bool:
    """Whether an absolute path stands for what a process has open (proc(5), fd(4)): whoever opens
    it opens that, whatever it is."""
    return _OPEN.match("/" + os.path.normpath(path).lstrip("/")) is not None


class SensitivePaths:
    """``home``: the person's home. ``agent_home``: $OHMO_HOME, none of which is shown but to
    ``seen_by``. ``more``: further places from configuration, absolute, ``~/x``, or a name."""

    def __init__(
        self, home: Path, agent_home: Path | None = None, more: Iterable[str] = ()
    ) -> None:
        self._home = str(home)
        absolute, anywhere = list(ABSOLUTE), list(ANYWHERE)
        for place in more:
            if place.startswith("~/"):
                absolute.append(f"{home}/{place[2:]}")
            elif place.startswith("/"):
                absolute.append(place)
            else:
                anywhere.append(place)
        self.own = AgentHome(agent_home) if agent_home is not None else None
        roots = self.own.roots if self.own is not None else ()
        self._roots = [folded(root).strip("/").split("/") for root in roots]
        self._absolute = [folded(place.rstrip("/")).strip("/").split("/") for place in absolute]
        self._anywhere = [folded(place).split("/") for place in anywhere]
        self._agent_home = agent_home
        self._as_given = absolute
        self._at_home = [f"{glob.escape(str(home))}/{place}" for place in anywhere]

    @cached_property
    def _forms(self) -> tuple[frozenset[str], re.Pattern[str], re.Pattern[str]]:
        """Names of which a sensitive path holds one, what it holds otherwise, and all of its forms:
        most paths are told apart by a look at their parts. Made at the first look, like the other
        two: a start that waits for nobody's command does not pay for them."""
        names: set[str] = set()
        loose: list[str] = []
        for place in (*self._absolute, *self._anywhere):
            # A folder or file name that every path to the place holds, if a part has no wildcards.
            fixed = [part for part in place if not _WILD & set(part)]
            rare = [part for part in fixed if part not in _EVERYWHERE]
            if fixed:
                names.add((rare or fixed)[-1])
            else:
                loose.append(_place(place))
        absolute = "|".join(map(_place, self._absolute))
        anywhere = "|".join(map(_place, self._anywhere))
        return (
            frozenset(names),
            re.compile(f"/(?:{'|'.join(loose)})" if loose else "(?!)"),
            re.compile(f"^/(?:{absolute})(?=/|$)|/(?:{anywhere})(?=/|$)"),
        )

    def _named(self, path: str) -> Touch:
        """CLEAR, PAGE or INSIDE, by the letters of an absolute path."""
        plain = folded(path)
        names, loose, inside = self._forms
        hinted = not names.isdisjoint(plain.removesuffix("\n").split("/"))
        if (hinted or loose.search(plain) is not None) and inside.search(plain) is not None:
            return Touch.INSIDE
        return self.own.named(path) if self.own is not None else Touch.CLEAR

    @cached_property
    def _word(self) -> re.Pattern[str]:
        anywhere = ["/".join(place) for place in self._anywhere if len(place[0]) > 3]
        names = [re.escape(path) for path in anywhere if not _WILD & set(path)]
        absolute = ["/".join(place) for place in self._absolute if len(place) > 1]
        fixed = [re.escape(path) for path in absolute if not _WILD & set(path)]
        return re.compile(
            f"(?<![\\w.-])(?:{'|'.join(names)})(?![\\w-])|/(?:{'|'.join(fixed)})(?![\\w-])"
            r"|/etc/g?shadow|/proc/[^/\s]+/(?:environ|mem|root|cwd)(?![\w-])"
        )

    @cached_property
    def _above(self) -> frozenset[str]:
        """Folders that hold sensitive places, as far as that is known without looking at the
        disk."""
        home = Path(self._home)
        places = [Path(place) for place in self._as_given if not _WILD & set(place)]
        places += [home / place for place in ANYWHERE if not _WILD & set(place)]
        if self._agent_home is not None:
            places.append(self._agent_home / "config.yaml")
        folders: set[str] = {"/home", "/users", "/root", "/mnt/c/users", "/proc", "/dev"}
        for place in places:
            for folder in place.parents:
                folders.add(folded(str(folder)))
                folders.add(folded(real(folder)))
        return frozenset(folders)

    def seen_by(self, context: CallContext) -> SensitivePaths:
        """The same places for a turn, which may read what is kept for its own conversation."""
        if self.own is None:
            return self
        _ = self._forms, self._word, self._above  # made once, for every turn
        seen = copy(self)
        seen.own = self.own.seen_by(context)
        return seen

    def kept(self, path: str) -> bool:
        """``path`` absolute: whether ohmo keeps, or kept, it for a conversation."""
        return self.own is not None and self.own.kept(path)

    def excluded_globs(self) -> tuple[str, ...]:
        """What search tools leave out of any tree, in gitignore's words."""
        anywhere = ["/".join(place) for place in self._anywhere]
        return tuple(f"**/{place}" for place in anywhere)

    def hides(self, path: str) -> bool:
        """For one existing, absolute path without wildcards: search tools leave it out."""
        return self._named(path) is Touch.INSIDE

    def aliases(self) -> FileAliases:
        """For one judgement or one call."""
        return FileAliases(self.existing(), self.own)

    def existing(self) -> Iterator[str]:
        """The places that are there now: of the system, the person's home, the agent's home. The
        disk is looked at as they are asked for."""
        for place in (*self._as_given, *self._at_home):
            if not place.startswith(("/proc/", "/dev/")):
                # absolute patterns, which Path.glob does not take
                yield from glob.iglob(place, include_hidden=True)  # noqa: PTH207
        if self.own is not None:
            yield from self.own.closed()

    def touch(self, path: str, cwd: str, cache: FsCache | None = None) -> Touch:
        """``path`` may hold the wildcards of ``patterns``. Relative paths count from ``cwd``, which
        may be unknown (ANY). ``cache``: shared by the calls of one judgement."""
        cache = FsCache() if cache is None else cache
        if _BARE.fullmatch(path) and cwd in cache.folders:
            # The quick way for a name in a folder that is resolved already.
            folder = cache.folders[cwd]
            direct = f"{folder}/{path}"
            touch = self._named(direct)
            if touch is not Touch.INSIDE and cache.is_link(folder, path):
                return self._touch_known(direct, cache)
            return max(touch, Touch.ABOVE) if folded(direct) in self._above else touch
        whole = path if path.startswith("/") else f"{cwd}/{path}"
        if known(whole):
            return self._touch_known(whole, cache)
        parts = [part for part in folded(whole).split("/") if part not in ("", ".")]
        if any(
            known(part) and any(_starts(parts, at, place) for place in self._anywhere)
            for at, part in enumerate(parts)
        ):
            return Touch.INSIDE
        if ANY in whole:
            possible = any(
                _starts(parts, at, place) for at in range(len(parts)) for place in self._anywhere
            )
            possible = possible or any(
                len(parts) >= len(place) and all(map(overlap, parts, place))
                for place in (*self._absolute, *self._roots)
            )
            return Touch.MAYBE if possible or ANY in parts[0] else Touch.CLEAR
        cache = FsCache()
        try:  # what the shell would find on the disk now
            touches = [self._touch_known(path, cache) for path in expand(whole)]
        except TooWide:
            return Touch.MAYBE
        return max(touches, default=Touch.CLEAR)

    def mentioned(self, text: str) -> str | None:
        """A place's name anywhere in a text, however it is quoted or put together: a second look,
        for a question rather than a refusal."""
        plain = folded(text)
        match = self._word.search(plain)
        if match is None and self.own is not None:
            match = self.own.mentioned(plain)
        return match[0] if match is not None else None

    def becomes(self, path: str, cwd: str, cache: FsCache | None = None) -> list[str]:
        """The resolved paths a word may stand for now."""
        whole = path if path.startswith("/") else f"{cwd}/{path}"
        if ANY in whole:
            return []
        if known(whole) and len(whole) > _LONGEST:
            return [os.path.normpath(whole)]
        if known(whole):
            return [(cache or FsCache()).resolved(whole)]
        try:
            return [real(each) for each in expand(whole)]
        except TooWide:
            return []  # the sensitive layer has asked a person already

    def _touch_known(self, whole: str, cache: FsCache) -> Touch:
        if _DESCRIPTOR.fullmatch(whole):
            return Touch.CLEAR
        straight = os.path.normpath(whole)
        plain = folded(straight)
        touch = self._named(straight)
        if ".." in whole:
            touch = max(touch, self._named(whole))
        if touch is Touch.INSIDE or len(whole) > _LONGEST:
            return touch
        try:
            resolved = cache.resolved(straight if ".." not in whole else whole)
        except (OSError, ValueError):
            return Touch.MAYBE
        plain_resolved = folded(resolved)
        if resolved != straight:
            touch = max(touch, self._named(resolved))
        above = (
            plain_resolved in self._above
            or plain in self._above
            or _PROCESS.fullmatch(plain_resolved) is not None
        )
        return max(touch, Touch.ABOVE) if above else touch


def _starts(parts: list[str], at: int, place: list[str]) -> bool:
    end = at + len(place)
    if end > len(parts):
        return False
    return all(map(overlap, parts[at:end], place))


_OFTEN = 16  # questions about one folder; from then on its names are read at once
_MOST_NAMES = 20_000  # names of one folder that are read


class FsCache:
    """For one judgement only: what is remembered is not looked up again."""

    def __init__(self) -> None:
        self.folders: dict[str, str] = {}
        self._asked: Counter[str] = Counter()
        self._links: dict[str, frozenset[str] | None] = {}
        self._repositories: dict[str, bool] = {}

    def resolved(self, whole: str) -> str:
        """``realpath`` of an absolute path: most names of one command share their folder. Raises
        ValueError."""
        folder, _, name = whole.rpartition("/")
        if not name or name in (".", ".."):
            return real(whole)
        if folder not in self.folders:
            self.folders[folder] = real(folder or "/")
        inside = self.folders[folder]
        path = f"{inside.rstrip('/')}/{name}"
        return real(path) if self.is_link(inside, name) else path

    def is_repository(self, folder: str) -> bool:
        """Whether it has these three names (gitrepository-layout(5)), absolute and resolved."""
        if folder not in self._repositories:
            names = (f"{folder}/{name}" for name in ("HEAD", "objects", "refs"))
            self._repositories[folder] = all(map(os.path.lexists, names))
        return self._repositories[folder]

    def is_link(self, folder: str, name: str) -> bool:
        """``folder`` resolved. Raises ValueError for a name no system takes."""
        if folder not in self._links:
            self._asked[folder] += 1
            if self._asked[folder] <= _OFTEN:
                return _reads(f"{folder}/{name}")
            self._links[folder] = _links_in(folder)
        links = self._links[folder]
        if links is not None and name.isascii() and "\0" not in name and name.lower() not in links:
            return False
        return _reads(f"{folder}/{name}")


def _reads(path: str) -> bool:
    try:
        os.readlink(path)  # noqa: PTH115
    except OSError:
        return False
    return True


def _links_in(folder: str) -> frozenset[str] | None:
    """The names of its links in small letters (some disks take both cases for one); None when only
    each single name can be asked."""
    names: set[str] = set()
    try:
        with os.scandir(folder) as entries:
            for count, entry in enumerate(entries):
                # A disk may take a name in other letters for the same.
                if count >= _MOST_NAMES or not entry.name.isascii():
                    return None
                if entry.is_symlink():
                    names.add(entry.name.lower())
    except (FileNotFoundError, NotADirectoryError):
        return frozenset()
    except OSError:
        return None
    return frozenset(names)
