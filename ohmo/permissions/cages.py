"""What the cage of a command is opened to, beyond the workspace: what its words name and somebody
allowed by name. A rule for every command, or a mode, names no place and no network, so it opens
nothing: it says whom to ask, not what can happen."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

from ohmo.contracts.tool import CallContext, Footprint, Opened
from ohmo.permissions.boundaries import Reach, resolved
from ohmo.permissions.looks import first_sensitive
from ohmo.permissions.rules import PathRules, Rule, RuleSet, host_matches, parse_rule, path_matches
from ohmo.permissions.sensitive_paths import FsCache, SensitivePaths, Touch
from ohmo.permissions.wildcard_rules import covers
from ohmo.shell.hosts import endpoint, is_local, networked, understood
from ohmo.shell.parsing import Shell
from ohmo.shell.patterns import known
from ohmo.shell.reading import reading
from ohmo.shell.risks import places, wanted_paths
from ohmo.shell.script import Script, Simple

_LONG = 20_000  # characters; a longer command is not taken apart
_MOST = 64  # places one command is opened to
#: Devices, processes, doors of other programs: never opened by name.
_NEVER = ("/proc", "/sys", "/dev", "/run", "/var/run")
#: Folders of everybody, or of everything: what is named in them is opened, they are not.
_SHARED = frozenset({"/", "/tmp", "/var/tmp", "/home", "/etc", "/usr", "/opt", "/var"})  # noqa: S108


class Cages:
    """Of one policy."""

    def __init__(
        self, rules: RuleSet, sensitive: SensitivePaths, shell: Shell, reach: Reach
    ) -> None:
        self._rules = rules
        self._denied = PathRules(rules.deny)
        self._sensitive = sensitive
        self._shell = shell
        self._reach = reach

    def opened(
        self, footprint: Footprint, context: CallContext, granted: Sequence[Rule], *, person: bool
    ) -> Opened:
        """``footprint``: of a command. ``person``: one allowed this very call; else only what rules
        name counts. Looks at the disk."""
        command = footprint.command or ""
        names = footprint.names if footprint.apart else ()
        barred = _domains(self._rules.deny) if names else ()
        if len(command) > _LONG:
            return Opened(names=names, barred=barred)
        script = self._shell.parse(command, context.cwd)
        rules = (*self._rules.allow, *granted)
        exact = any(_is_whole(rule, command) for rule in rules)
        every = person or exact
        of_job = self._of_job(script, command, context)
        reads: dict[Path, None] = {}
        writes: dict[Path, None] = {}
        for path, writing, led in self._outside(script, context):
            if len(reads) + len(writes) >= _MOST:
                break
            # what only a link of the workspace leads to stood on no card
            whole = every and not led
            if writing and (whole or _named("write", path, rules)):
                writes.setdefault(Path(path))
            elif (
                whole
                or not self._reach.outside(path, context)
                or _named("read", path, rules)
                or _named("write", path, rules)
            ):
                reads.setdefault(Path(path))
        # Who wants to be asked about pages is asked about names, too.
        asks = any(rule.tool == "WebFetch" for rule in self._rules.ask)
        named = () if asks else rules
        by_name = bool(names) and not strange(names, named)
        by_rules = by_name or (
            self._network(script, command, context, rules)
            and not strange(footprint.said, named)  # which no rule about commands speaks of
            and (exact or self._by_kind(script, footprint))
        )
        part = bool(names) and not of_job
        return Opened(
            tuple(reads),
            tuple(writes),
            network=of_job or by_rules,
            names=(*names, *(each for each in _domains(named) if each != ".")) if part else (),
            barred=barred if part else (),
            house=of_job and all(simple.name == "ohmo" for simple in script.commands),
        )

    def closed(self, names: tuple[str, ...]) -> Rule | None:
        """The first deny rule that is about the domain of one of the names."""
        for rule in self._rules.deny:
            if rule.pattern and any(
                host_matches(rule, "WebFetch", host) for host in hosts_in(names)
            ):
                return rule
        return None

    def _by_kind(self, script: Script, footprint: Footprint) -> bool:
        """Whether a rule with a wildcard is enough: to a part of the network, or to all of it for
        what is known to go where it should."""
        if any(map(is_local, hosts_in(footprint.names))):  # no way to this machine but by name
            return False
        if footprint.names and footprint.apart:
            return True
        return understood(script) and not _domains(self._rules.deny)

    def _network(
        self, script: Script, command: str, context: CallContext, rules: Sequence[Rule]
    ) -> bool:
        """Whether rules name every part that needs it, and nothing else runs beside but what only
        reads: a rule for a program lends its network to no other."""
        if any(_is_whole(rule, command) for rule in rules):
            return any(map(networked, script.commands))
        return any(map(networked, script.plain)) and all(
            reading(simple) is not None
            or (networked(simple) and self._covered(simple, context, rules))
            for simple in script.plain
        )

    def _of_job(self, script: Script, command: str, context: CallContext) -> bool:
        """Whether the very rules that a person allowed with this job, or wrote for this webhook,
        name all that runs: then it is theirs and not the model's."""
        rules: list[Rule] = []
        for text in context.rules:
            try:
                rules.append(parse_rule(text))
            except ValueError:
                continue  # of a later version
        if any(_is_whole(rule, command) for rule in rules):
            return True
        named = [self._covered(simple, context, rules) for simple in script.plain]
        return any(named) and all(
            yes or reading(simple) is not None
            for yes, simple in zip(named, script.plain, strict=True)
        )

    def _covered(self, simple: Simple, context: CallContext, rules: Sequence[Rule]) -> bool:
        def inside(cwd: str, word: str) -> bool:
            return self._reach.holds(resolved(word, cwd), context)

        here = partial(inside, simple.cwds[-1])
        return any(
            rule.tool == "Bash"
            and (rule.pattern or "*").partition(" ")[0] not in ("*", "*:*")
            and covers(rule.pattern, simple, here)
            for rule in rules
        )

    def _outside(self, script: Script, context: CallContext) -> Iterator[tuple[str, bool, bool]]:
        """Existing places outside the workspace that may be opened, those that are written first.
        A new file is made in its folder, so that stands for it. Last: only a link of the workspace
        leads there."""
        cache, sensitive = FsCache(), self._sensitive.seen_by(context)
        found: dict[str, bool] = {}
        named = set[str]()
        for simple in script.commands:
            for path, writing, straight in _words(simple, self._shell.home, sensitive, cache):
                if not writing and path == "/":
                    continue
                if self._reach.holds(path, context):
                    continue
                found[path] = found.get(path, False) or writing
                if not self._reach.holds(straight, context):
                    named.add(path)
        aliases = sensitive.aliases()
        done: set[str] = set()
        for path, writing in sorted(found.items(), key=lambda each: not each[1]):
            place = path if os.path.lexists(path) or not writing else os.path.dirname(path)  # noqa: PTH120
            if place in done or not self._opens(place, sensitive, cache):
                continue
            done.add(place)
            if aliases.at(place) is Touch.INSIDE:
                continue
            if os.path.isdir(place) and first_sensitive(place, sensitive, aliases):  # noqa: PTH112
                continue
            yield place, writing, path not in named

    def _opens(self, place: str, sensitive: SensitivePaths, cache: FsCache) -> bool:
        rule, below = self._denied.hit(place) if self._denied else (None, None)
        return rule is None and below is None and may_be_opened(place, sensitive, cache)


def may_be_opened(place: str, sensitive: SensitivePaths, cache: FsCache) -> bool:
    """A file or folder that is there, absolute and resolved: none of everybody's, none that is
    sensitive or known to hold what is."""
    if place in _SHARED or any(f"{place}/".startswith(f"{each}/") for each in _NEVER):
        return False
    try:
        kind = os.lstat(place).st_mode
    except (OSError, ValueError):
        return False
    if not (stat.S_ISREG(kind) or stat.S_ISDIR(kind)):
        return False
    return sensitive.touch(place, "/", cache) is Touch.CLEAR


def _is_whole(rule: Rule, command: str) -> bool:
    return (
        rule.tool == "Bash"
        and rule.pattern is not None
        and "*" not in rule.pattern
        and rule.pattern == command.strip()
    )


def _domains(rules: Sequence[Rule]) -> tuple[str, ...]:
    """Of ``WebFetch(domain:…)``, as in ``Names``; "." is every host."""
    found = (rule.pattern for rule in rules if rule.tool == "WebFetch" and rule.pattern)
    names = (each.removeprefix("domain:").removeprefix("*.").strip(".*") for each in found)
    return tuple(dict.fromkeys(f".{name.casefold()}" for name in names))


def strange(names: tuple[str, ...], rules: Sequence[Rule]) -> tuple[str, ...]:
    """The hosts that no rule about domains opens: none opens what is local."""
    named = [rule for rule in rules if rule.pattern not in (None, "domain:*")]
    return tuple(
        host
        for host in hosts_in(names)
        if is_local(host) or not any(host_matches(rule, "WebFetch", host) for rule in named)
    )


def hosts_in(names: tuple[str, ...]) -> tuple[str, ...]:
    """The hosts of ``Names``, without their ports."""
    found = [each[0] for each in map(endpoint, names) if each is not None]
    return tuple(dict.fromkeys(found))


def _named(kind: str, path: str, rules: Sequence[Rule]) -> bool:
    tool = "Read" if kind == "read" else "Write"
    return any(
        rule.pattern is not None
        and path_matches(rule, "read" if kind == "read" else "write", tool, path)
        for rule in rules
    )


def _words(
    simple: Simple, home: str, sensitive: SensitivePaths, cache: FsCache
) -> Iterator[tuple[str, bool, str]]:
    """Resolved paths that a command names, whether it may change what lies there, and how the path
    is written."""
    changes = reading(simple) is None
    whole, pieces = wanted_paths(simple, home)
    targets = {each.target for each in simple.redirects if each.kind == "write"}
    words = [*whole, *pieces, *(simple.cwds if changes else ())]
    for word in dict.fromkeys(filter(known, words)):
        writing = word in targets or (changes and (word,) != simple.words[:1])
        for folder in filter(known, places(simple)):
            for path in sensitive.becomes(word, folder, cache):
                yield path, writing, os.path.normpath(os.path.join(folder, word))  # noqa: PTH118
