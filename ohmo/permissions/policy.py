"""The decision about a call: sensitive > deny > ask > protected > taint > allow > mode, each part
of a shell command judged by itself, pure but for looking at the disk; and from a configuration to
the policy of its turns, as it is stored with them."""

from __future__ import annotations

import glob
import os
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Literal

from channels.record import record
from ohmo.config.load import Config
from ohmo.contracts.mcp import words_of
from ohmo.contracts.messages import ToolCall
from ohmo.contracts.outbox import Grant
from ohmo.contracts.tool import CallContext, Footprint, Opened, PolicySnapshot, least
from ohmo.permissions.boundaries import ProtectedPlaces, Reach, folder_rule
from ohmo.permissions.cages import Cages, hosts_in, strange
from ohmo.permissions.command_policy import CommandPolicy
from ohmo.permissions.rules import (
    PATH_TOOLS,
    READERS,
    Rule,
    RuleSet,
    Ruling,
    by_mode,
    host_matches,
    parse_rule,
    path_matches,
    rule_set,
)
from ohmo.permissions.sensitive_paths import FsCache, SensitivePaths, Touch
from ohmo.permissions.wording import suggest_rule
from ohmo.shell.hosts import is_local
from ohmo.shell.parsing import Shell
from ohmo.shell.patterns import as_written, real

_SEARCH = frozenset({"Glob", "Grep"})
_ALL = (None, "domain:*")  # patterns of rules for every host
_NAMED = 3  # origins that a person is told of
_BY_HAND = (
    "no tool may touch it in any mode; if it is needed, the person does it by hand in a terminal"
)


@record
class Paths:
    """The resolved paths of a footprint."""

    reads: tuple[str, ...]
    writes: tuple[str, ...]


def resolved(paths: Iterable[Path], cwd: Path) -> tuple[str, ...]:
    return tuple(real(cwd / path) for path in paths)


def paths_of(footprint: Footprint, cwd: Path) -> Paths:
    """None for a command: its paths are judged with its words."""
    if footprint.command is not None:
        return Paths((), ())
    return Paths(resolved(footprint.reads, cwd), resolved(footprint.writes, cwd))


class Policy:
    """``rules`` and ``read_outside`` come from configuration. ``workspace``: guests may read its
    folder ``public``."""

    def __init__(
        self,
        rules: RuleSet,
        sensitive: SensitivePaths,
        shell: Shell,
        workspace: Path,
        read_outside: Literal["ask", "allow"] = "ask",
    ) -> None:
        self._rules = rules
        self._sensitive = sensitive
        self._shell = shell
        self._public = real(workspace / "public")
        self._protected = ProtectedPlaces(workspace)
        self._reach = Reach(
            workspace, sensitive, Path(shell.home), everywhere=read_outside == "allow"
        )
        self._commands = CommandPolicy(rules, sensitive, shell, self._protected, self._reach)
        self._cages = Cages(rules, sensitive, shell, self._reach)

    def rule(
        self,
        call: ToolCall,
        footprint: Footprint,
        context: CallContext,
        grants: Sequence[Grant] = (),
        paths: Paths | None = None,
    ) -> Ruling:
        """``grants``: everything remembered; only the caller's own, in their scope, count.
        ``paths``: of the footprint, resolved already: just these will be opened."""
        paths = paths_of(footprint, context.cwd) if paths is None else paths
        sensitive = self._sensitive_paths(call.name, footprint, paths, context)
        if sensitive is not None:
            return sensitive
        if least(context.role, footprint.standing) != footprint.standing:
            why = f"only {footprint.standing} and above may call it so"
            return Ruling("deny", "role", context.role, why, remember=False)
        granted: list[Rule] = []
        if context.role == "guest":
            public = [
                path == self._public or path.startswith(self._public + "/") for path in paths.reads
            ]
            in_public = bool(public) and all(public) if call.name in PATH_TOOLS else not public
            harmless = footprint.effect in ("none", "house") and footprint.command is None
            if not harmless or paths.writes or not in_public:
                why = "guests may only use tools that read public things"
                return Ruling("deny", "role", "guest", why, remember=False)
        else:
            granted = granted_rules(grants, context)
        if context.mode == "plan":
            granted = [rule for rule in granted if rule.tool in READERS]
        if footprint.command is not None:
            ruling = self._commands.rule(footprint.command, context, granted)
            ruling = self._to_hosts(ruling, footprint, context, granted)
            ruling = replace(ruling, rule=as_written(ruling.rule), reason=as_written(ruling.reason))
            return ruling if call.name == "Bash" else self._by_name(call.name, ruling, granted)
        return self._layers(call.name, footprint, paths, context, granted)

    def opened(
        self, footprint: Footprint, context: CallContext, grants: Sequence[Grant], *, person: bool
    ) -> Opened:
        """What the cage of an allowed command has. ``person``: one allowed this very call. Looks at
        the disk."""
        granted = granted_rules(grants, context)
        return self._cages.opened(footprint, context, granted, person=person)

    def unnamed(
        self, names: tuple[str, ...], context: CallContext, grants: Sequence[Grant]
    ) -> tuple[str, ...]:
        """The hosts of a command that no rule about domains opens."""
        return strange(names, (*self._rules.allow, *granted_rules(grants, context)))

    def _to_hosts(
        self, ruling: Ruling, footprint: Footprint, context: CallContext, granted: Sequence[Rule]
    ) -> Ruling:
        """The ruling about a command, and where it wants to go."""
        closed = self._cages.closed(footprint.names)
        if closed is not None and ruling.verdict != "deny":
            return _denied(closed)
        by_name = ruling.rule in (f"Bash({(footprint.command or '').strip()})", *context.rules)
        if ruling.verdict != "allow" or not footprint.network or not context.taint:
            return ruling
        if by_name:  # the words of the command are allowed, not what the call says beside them
            hosts = hosts_in(footprint.said)
            footprint = replace(
                footprint, hosts=tuple(each for each in hosts if not is_local(each))
            )
        elif not (footprint.names and footprint.apart):
            whose = ", ".join(sorted(context.taint)[:3])
            why = f"words of {whose} are in this conversation, and nobody can say where it connects"
            return Ruling("ask", "taint", whose, why, remember=False)
        rules = (*self._rules.allow, *granted)
        return told_by_others("WebFetch", footprint, context, rules) or ruling

    def remembered(
        self, call: ToolCall, footprint: Footprint, context: CallContext, asked: Ruling
    ) -> str:
        """The narrow rule that "for this session" and "always" would store."""
        return asked.suggests or suggest_rule(call, footprint, context.cwd, self._shell)

    def forbids(self, tool: str, kinds: Sequence[Literal["read", "write"]], path: str) -> bool:
        """Whether a deny rule is about this resolved path, when the tool opens it in these ways."""
        return any(
            path_matches(rule, kind, tool, path) for rule in self._rules.deny for kind in kinds
        )

    def _sensitive_paths(
        self, tool: str, footprint: Footprint, paths: Paths, context: CallContext
    ) -> Ruling | None:
        cache, places = FsCache(), self._sensitive.seen_by(context)
        aliases = places.aliases()
        reads, writes = (tuple(map(Path, found)) for found in (paths.reads, paths.writes))
        written = frozenset((*footprint.writes, *writes))
        for path in dict.fromkeys((*footprint.reads, *reads, *footprint.writes, *writes)):
            touch = places.touch(str(path), str(context.cwd), cache)
            if path in reads or path in writes:
                touch = max(touch, aliases.at(str(path)))
            if touch is Touch.INSIDE and places.kept(str(path)):
                why = f"{path} was kept for another conversation, or before an upgrade"
            elif touch is Touch.INSIDE:
                why = f"{path} holds credentials or belongs to the agent's own home"
            elif touch is Touch.PAGE and path in written:
                why = f"{path} lies in the agent's own home, which tools may only read there"
            elif touch is Touch.ABOVE and tool not in _SEARCH and path in written:
                why = f"{path} holds sensitive places"
            else:
                continue
            return Ruling("deny", "sensitive", str(path), f"{why}; {_BY_HAND}", remember=False)
        return None

    def _by_name(self, tool: str, command: Ruling, granted: Sequence[Rule]) -> Ruling:
        """Of a tool that runs a command: what rules say that are about the tool itself."""

        def first(rules: Sequence[Rule]) -> Rule | None:
            return self._first(rules, tool, Footprint(), Paths((), ()), every=True)

        denied = first(self._rules.deny)
        if denied is not None:
            return _denied(denied)
        if command.verdict == "deny":
            return command
        asked = first(self._rules.ask)
        if asked is not None:
            return _asked(asked)
        allowed = first((*self._rules.allow, *granted))
        if allowed is None or command.verdict == "allow" or command.layer != "mode":
            return command
        return Ruling("allow", "allow", allowed.text)

    def _layers(
        self,
        tool: str,
        footprint: Footprint,
        paths: Paths,
        context: CallContext,
        granted: Sequence[Rule],
    ) -> Ruling:
        denied = self._first(self._rules.deny, tool, footprint, paths, every=False)
        if denied is not None:
            return _denied(denied)
        asked = self._first(self._rules.ask, tool, footprint, paths, every=False)
        if asked is not None:
            return _asked(asked)
        for path in footprint.writes:
            place = self._protected.reached(context.cwd / path)
            if place is not None and context.mode == "plan":
                return by_mode(context)
            if place is not None:
                why = f"programs run or agents obey what lies in {place}, so no rule covers {path}"
                return Ruling("ask", "protected", place, why, remember=False)
        foreign = told_by_others(tool, footprint, context, (*self._rules.allow, *granted))
        if foreign is not None and not (footprint.lasting and context.mode == "plan"):
            return foreign
        # What names no place, a mode or a rule without a pattern, opens none for writing.
        beyond = [path for path in paths.writes if not self._reach.holds(path, context)]
        placed = (rule for rule in self._rules.allow if not beyond or rule.pattern is not None)
        allowed = self._first(tuple(placed), tool, footprint, paths, every=True)
        if allowed is not None:
            return Ruling("allow", "allow", allowed.text)
        placed = (rule for rule in granted if not beyond or rule.pattern is not None)
        given = self._first(tuple(placed), tool, footprint, paths, every=True)
        if given is not None:
            return Ruling("allow", "grant", given.text)
        if footprint.effect not in ("none", "house"):
            ruling = by_mode(context)
            if beyond and ruling.verdict == "allow":
                return Ruling(
                    "ask", "mode", context.mode, f"{beyond[0]} lies outside the workspace"
                )
            return ruling
        # What changes nothing is free in the workspace; elsewhere each path needs a rule of its
        # own, or a person's word.
        rules = (*self._rules.allow, *granted)
        for path in paths.reads:
            covered = any(path_matches(rule, "read", tool, path) for rule in rules)
            if not covered and self._reach.outside(path, context, deep=tool == "Grep"):
                why = f"{path} lies outside the workspace"
                return Ruling("ask", "mode", context.mode, why, suggests=folder_rule(path))
        return Ruling("allow", "mode", context.mode)

    @staticmethod
    def _first(
        rules: Sequence[Rule], tool: str, footprint: Footprint, paths: Paths, *, every: bool
    ) -> Rule | None:
        """The first rule that covers the call: ``every``: all of its paths and hosts, else any of
        them."""
        quantified = all if every else any
        for rule in rules:
            checks = [
                path_matches(rule, "read", tool, path)
                for path in paths.reads
                if not (every and path in paths.writes)
            ]
            checks += [path_matches(rule, "write", tool, path) for path in paths.writes]
            checks += [host_matches(rule, tool, host) for host in footprint.hosts]
            if not checks:
                checks = [rule.names(tool) and rule.pattern is None]
            if quantified(checks):
                return rule
        return None


def _denied(rule: Rule) -> Ruling:
    why = f"the rule deny {rule.text} forbids it"
    return Ruling("deny", "deny", rule.text, why, remember=False)


def _asked(rule: Rule) -> Ruling:
    why = f"the rule ask {rule.text} wants a person's word"
    return Ruling("ask", "ask", rule.text, why, remember=False)


def granted_rules(grants: Sequence[Grant], context: CallContext) -> list[Rule]:
    """The caller's own remembered rules whose scope holds here, and those that were approved with
    the job this turn runs for."""
    texts: list[str] = []
    for grant in grants:
        here = grant.scope in ("*", context.session) or (
            grant.scope.startswith("/") and context.cwd.is_relative_to(grant.scope)
        )
        if grant.person == context.person and here:
            texts.append(grant.rule)
    rules: list[Rule] = []
    for text in (*texts, *context.rules):
        try:
            rules.append(parse_rule(text))
        except ValueError:
            continue  # written by a later version; without it the person is asked again
    return rules


@record
class Host:
    """What a policy needs to know of this process."""

    home: Path  # of whoever runs it
    root: Path  # $OHMO_HOME
    path: str  # where commands find programs
    engine: str = ""  # $DOCKER_HOST: of containers


def told_by_others(
    tool: str, footprint: Footprint, context: CallContext, rules: Iterable[Rule]
) -> Ruling | None:
    """After words of others came into a conversation (a page, a server's answer), what could send
    something away or outlive it is asked about in every mode: a page can talk to the model, but it
    cannot answer a card. ``rules``: that allow. A host is no news once the conversation has words
    of it, or where a rule names it; a rule for all hosts names none."""
    if not context.taint:
        return None
    origins = sorted(context.taint)
    whose = ", ".join(origins[:_NAMED])
    if len(origins) > _NAMED:
        whose += f" and {len(origins) - _NAMED} more"
    own = words_of((tool,))
    if own and context.taint != frozenset(own):
        why = f"words of {whose} are in this conversation, and {tool} may send or change anything"
        return Ruling("ask", "taint", whose, why, remember=False)
    if footprint.lasting:
        why = f"words of {whose} are in this conversation, and {footprint.lasting} outlive it"
        return Ruling("ask", "taint", whose, why, remember=False)
    for host in () if footprint.configured else footprint.hosts:
        named = any(rule.pattern not in _ALL and host_matches(rule, tool, host) for rule in rules)
        if not named and f"web:{host}" not in context.taint:
            why = f"words of {whose} are in this conversation, which had none of {host} so far"
            return Ruling("ask", "taint", whose, why)
    return None


def snapshot_of(config: Config) -> PolicySnapshot:
    """What of the agent's home lies elsewhere is closed as well: the file of ``--config``, the
    store, its copies."""
    rules = config.permissions
    apart = [(config.file, ""), (config.backups.folder, "/ohmo-*.tar.gz"), (config.database, "*")]
    return PolicySnapshot(
        tuple(rules.allow),
        tuple(rules.ask),
        tuple(rules.deny),
        rules.mode,
        rules.read_outside,
        config.workspace,
        tuple(glob.escape(os.path.realpath(path)) + more for path, more in apart if path),
        config.sessions.busy,
        rules.caged,
    )


def sensitive_of(snapshot: PolicySnapshot, host: Host) -> SensitivePaths:
    return SensitivePaths(host.home, host.root, snapshot.closed)


def places_in(snapshot: PolicySnapshot, host: Host) -> dict[str, str]:
    """What names of folders stand for in rules."""
    return {
        "WORKSPACE": str(snapshot.workspace),
        "HOME": str(host.home),
        "OHMO_HOME": str(host.root),
    }


def policy_of(snapshot: PolicySnapshot, host: Host) -> Policy:
    """Raises ValueError with one line for a rule that cannot be read."""
    rules = rule_set(snapshot.allow, snapshot.ask, snapshot.deny, places_in(snapshot, host))
    shell = Shell(host.home, host.path)
    sensitive = sensitive_of(snapshot, host)
    return Policy(rules, sensitive, shell, snapshot.workspace, snapshot.read_outside)
