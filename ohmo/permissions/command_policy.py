"""The decision about a shell command. What runs unasked lies in the plain language, reads only, and
reads nothing but what may be read; what the grammar finds in any other line can only forbid or
ask."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from ohmo.contracts.tool import CallContext
from ohmo.permissions.covering import CommandRules, PathRules, spellings
from ohmo.permissions.looked import Looked, real
from ohmo.permissions.paths import SensitivePaths, Touch
from ohmo.permissions.patterns import known, word_set
from ohmo.permissions.protected import ProtectedPlaces
from ohmo.permissions.reach import Reach, folder_rule
from ohmo.permissions.rules import Rule, RuleSet, path_matches
from ohmo.permissions.ruling import Layer, Ruling, by_mode
from ohmo.permissions.shell import Script, Shell, Simple, only_git_that_reads
from ohmo.permissions.shell.admitting import covers
from ohmo.permissions.shell.inline import hidden_code
from ohmo.permissions.shell.paths_in import goes_deep, looks_only, places, wanted_paths
from ohmo.permissions.shell.programs import is_machine_code, program_at
from ohmo.permissions.shell.reading import BUILTINS, reading
from ohmo.permissions.shell.readings import Reading
from ohmo.permissions.shell.repository import repository_at
from ohmo.permissions.shell.vaults import gives_secrets
from ohmo.permissions.trees import first_sensitive
from ohmo.permissions.twins import Twins

_MOST_WILD = 500
_MOST_PIECES = 3000  # of words that may be paths, in one command
_LONG = 20_000  # characters; a longer line is not explained before somebody is asked about it
_QUOTING = re.compile(r"['\"\\]|\$(?=['\"])")
_HARMLESS_TARGETS = frozenset({"/dev/null", "/dev/stdout", "/dev/stderr"})
# Programs that cannot do anything with a path they are not told: unknown words are harmless to
# them.
_INDIFFERENT = word_set(
    """echo printf test [ kill sleep export local declare typeset readonly function set unset exit
        return true false read cd mkdir"""
)


class _Part:
    """One simple command under judgement, with what several layers ask about it."""

    __slots__ = ("folders", "pieces", "simple", "texts", "whole")

    def __init__(self, simple: Simple, home: str, *, spelled: bool) -> None:
        self.simple = simple
        self.folders = places(simple)
        self.whole, self.pieces = wanted_paths(simple, home)
        self.texts = spellings(simple) if spelled else ()


class CommandPolicy:
    """Sensitive places, then the configured rules, then protected places, then what was granted,
    then what only reads, then the mode."""

    def __init__(
        self,
        rules: RuleSet,
        sensitive: SensitivePaths,
        shell: Shell,
        protected: ProtectedPlaces,
        reach: Reach,
    ) -> None:
        self._rules = rules
        self._sensitive = sensitive
        self._shell = shell
        self._protected = protected
        self._reach = reach
        self._path_denies = PathRules(rules.deny)
        self._command_denies = CommandRules(rules.deny)
        self._command_asks = CommandRules(rules.ask)

    def rule(self, command: str, context: CallContext, granted: Sequence[Rule]) -> Ruling:
        if len(command) > _LONG and context.mode != "full_auto":
            return self._unread(command, context)
        script = self._shell.parse(command, context.cwd)
        wild = sum(not known(word) for simple in script.commands for word in simple.words)
        if wild > _MOST_WILD:
            return _unclear("it holds more wildcards and unknown words than can be looked up")
        spelled = bool(self._command_denies) or bool(self._command_asks)
        parts = [_Part(each, self._shell.home, spelled=spelled) for each in script.commands]
        looked = Looked()
        judged = [
            self._sensitive_part(parts, command, str(context.cwd), looked),
            self._configured(parts, command, script, looked),
            self._guarded(parts, script, context, looked),
        ]
        for verdict in ("deny", "ask"):
            for ruling in judged:
                if ruling is not None and ruling.verdict == verdict:
                    return ruling
        return self._allowed(script, command, granted, context)

    def _unread(self, command: str, context: CallContext) -> Ruling:
        """Too long to be taken apart: it is asked about, or refused for what it speaks of."""
        spoken = self._sensitive.mentioned(_QUOTING.sub("", command))
        if spoken is not None:
            return Ruling("ask", "sensitive", spoken, f"it speaks of {spoken}", remember=False)
        asked = by_mode(context, f"it has more than {_LONG} characters")
        return asked if asked.verdict == "deny" else _unclear(asked.reason)

    def _sensitive_part(
        self, parts: Sequence[_Part], command: str, cwd: str, looked: Looked
    ) -> Ruling | None:
        maybe: Ruling | None = None
        seen: set[tuple[str, str]] = set()
        for part in parts:
            if gives_secrets(part.simple):
                return _forbidden(part.simple.shown)
            if len(part.pieces) > _MOST_PIECES:
                return _unclear("one word of it holds more than can be looked up")
            for word in part.whole:
                for place in part.folders:
                    if (place, word) in seen and word not in (".", "/"):
                        continue
                    seen.add((place, word))
                    ruling = self._touched(part.simple, word, place, looked)
                    if ruling is not None and ruling.verdict == "deny":
                        return ruling
                    maybe = maybe or ruling
            for word in part.pieces:
                if known(word) and any(
                    self._sensitive.touch(word, place, looked) is Touch.INSIDE
                    for place in {cwd, part.folders[-1]}
                ):
                    return _forbidden(word)
        hit = self._sensitive.mentioned(_QUOTING.sub("", command))
        if hit is not None:
            return maybe or Ruling("ask", "sensitive", hit, f"it speaks of {hit}", remember=False)
        return maybe

    def _touched(self, simple: Simple, word: str, place: str, looked: Looked) -> Ruling | None:
        touch = self._sensitive.touch(word, place, looked)
        if touch is Touch.INSIDE or (touch is Touch.ABOVE and goes_deep(simple)):
            return _forbidden(word)
        if touch is Touch.PAGE and not reading(simple):
            return _forbidden(word)
        if touch is Touch.ABOVE and not looks_only(simple):
            why = f"{word} holds sensitive places"
            return Ruling("ask", "sensitive", word, why, remember=False)
        told = any(each.target == word for each in simple.redirects)
        if touch is Touch.MAYBE and (simple.name not in _INDIFFERENT or told):
            why = "what it reads is only known when it runs"
            return Ruling("ask", "sensitive", "", why, remember=False)
        return None

    def _configured(
        self, parts: Sequence[_Part], command: str, script: Script, looked: Looked
    ) -> Ruling | None:
        for part in parts:
            rule = self._command_denies.first(part.texts)
            if rule is not None:
                why = f"the rule deny {rule.text} forbids {part.simple.shown!r}"
                return Ruling("deny", "deny", rule.text, why, remember=False)
            ruling = self._denied_path(part, looked) if self._path_denies else None
            if ruling is not None:
                return ruling
        rule = self._command_denies.mentioned(_QUOTING.sub("", command))
        if rule is not None:
            why = f"it speaks of what the rule deny {rule.text} forbids"
            return Ruling("ask", "deny", rule.text, why, remember=False)
        if script.unclear:
            return _unclear(f"{script.unclear}, so a person has to look at it")
        for part in parts:
            rule = self._command_asks.first(part.texts)
            if rule is not None:
                why = f"the rule ask {rule.text} wants a person's word"
                return Ruling("ask", "ask", rule.text, why, remember=False)
            opaque = part.simple.opaque or hidden_code(part.simple)
            if opaque:
                return _unclear(opaque)
        return None

    def _denied_path(self, part: _Part, looked: Looked) -> Ruling | None:
        simple = part.simple
        asked: Ruling | None = None
        for word in part.whole:
            for place in part.folders:
                for path in self._sensitive.becomes(word, place, looked):
                    rule, lower = self._path_denies.hit(path)
                    if rule is not None:
                        why = f"the rule deny {rule.text} forbids {path}"
                        return Ruling("deny", "deny", rule.text, why, remember=False)
                    if lower is not None and not looks_only(simple):
                        why = f"{path} holds what the rule deny {lower.text} forbids"
                        asked = asked or Ruling("ask", "deny", lower.text, why, remember=False)
        for word in part.pieces if asked is None else ():
            places_of = (
                self._sensitive.becomes(word, simple.cwds[-1], looked) if known(word) else ()
            )
            for path in places_of:
                rule, _ = self._path_denies.hit(path)
                if rule is not None:
                    why = f"it speaks of {path}, which the rule deny {rule.text} forbids"
                    return Ruling("ask", "deny", rule.text, why, remember=False)
        return asked

    def _guarded(
        self, parts: Sequence[_Part], script: Script, context: CallContext, looked: Looked
    ) -> Ruling | None:
        """Places whose every change a person looks at; a plain command that only reads is free."""
        if context.mode == "plan" or (script.plain and self._shell.reads_only(script)):
            return None
        for part in parts:
            for word in part.whole:
                if part.simple.words[:1] == (word,) or not known(word):
                    continue
                if part.simple.name == "git" and word.startswith("HEAD"):
                    continue  # a revision
                for path in self._sensitive.becomes(word, part.folders[-1], looked):
                    place = self._protected.named(path)
                    if place is not None and not _only_read(part.simple, word):
                        why = (
                            f"{path}: programs or agents run or obey by themselves what lies there"
                        )
                        return Ruling("ask", "protected", place, why, remember=False)
        return None

    def _allowed(
        self, script: Script, command: str, granted: Sequence[Rule], context: CallContext
    ) -> Ruling:
        layers: tuple[tuple[Layer, Sequence[Rule]], ...] = (
            ("allow", self._rules.allow),
            ("grant", granted),
        )
        for layer, rules in layers:
            for rule in rules:
                if rule.tool == "Bash" and rule.pattern in (None, command.strip()):
                    return Ruling("allow", layer, rule.text)
        if not script.plain:
            return by_mode(context, f"it is more than plain commands: {script.beyond}")
        by_rule: Ruling | None = None
        outside: list[str] = []
        twins = self._sensitive.twins()
        quiet = only_git_that_reads(script.plain)
        for simple in script.plain:
            beyond: list[str] = []
            opened = reading(simple)
            closed = self._closed(simple, opened, twins) if opened is not None else ""
            if closed:
                return Ruling("ask", "sensitive", "", closed, remember=False)
            shut = self._why_shut(simple, opened, context, beyond) if opened is not None else ""
            why = shut or self._why_not_free(simple, opened, context)
            if not why and opened is not None and opened.repository is not None and not quiet:
                why = (
                    f"{simple.shown[:200]!r} runs what git's settings say, beside git that changes"
                    " something"
                )
            ruled = self._by_rule(simple, layers, context, wild=not shut) if why or beyond else None
            if why and ruled is None:
                return replace(
                    by_mode(context, why), suggests=f"Bash({command.strip()})" if shut else ""
                )
            if ruled is None or "*" in ruled.rule:  # a wildcard leads nowhere else
                outside += beyond
            by_rule = by_rule or ruled
        asked = self._outside(outside, granted, context)
        return asked or by_rule or Ruling("allow", "mode", f"{context.mode}, read-only")

    def _closed(self, simple: Simple, opened: Reading, twins: Twins) -> str:
        """What a command that only reads would read of sensitive files that its words do not name;
        no rule covers that."""
        for path in dict.fromkeys(
            path for cwd in simple.cwds for path in _paths(simple, opened, cwd)
        ):
            if twins.at(path) is Touch.INSIDE:
                return f"{path} is a sensitive file under another name"
            deep = opened.kind == "trees"
            linked = opened.repository is not None
            found = first_sensitive(path, self._sensitive, twins, linked=linked) if deep else ""
            if found:
                return f"{found} is below {path}"
        if opened.kind == "trees" and opened.repository is not None:  # whatever git knows there
            for cwd in simple.cwds:
                known = repository_at(_resolved(opened.repository, cwd))
                twin = first_sensitive(known.folders[0], None, twins) if known is not None else ""
                if twin:
                    return f"{twin} is a sensitive file under another name"
        return ""

    def _why_not_free(self, simple: Simple, opened: Reading | None, context: CallContext) -> str:
        """Why the command is more than reading; "" when it is not."""
        if opened is None:
            return f"{simple.shown[:200]!r} may change something"
        if any(
            each.kind == "write" and each.target not in _HARMLESS_TARGETS
            for each in simple.redirects
        ):
            return f"{simple.shown[:200]!r} writes a file"
        if simple.words[0] not in BUILTINS:
            program = program_at(simple.words[0], self._shell.path)
            if (
                program is None
                or self._reach.holds(program, context)
                or not is_machine_code(program)
            ):
                return f"{simple.words[0]} is not the system's program of that name"
        return ""

    def _why_shut(
        self, simple: Simple, opened: Reading, context: CallContext, outside: list[str]
    ) -> str:
        """Why the command may not read what it would; "" when it may. ``outside`` gains the paths
        it would read outside the workspace."""
        for cwd in simple.cwds:
            for path in _paths(simple, opened, cwd):
                if path.startswith("/dev/"):
                    return f"{path} is a device"
                if opened.kind == "files" and os.path.isdir(path):  # noqa: PTH112 - Path raises for what cannot be looked at
                    return f"{path} is a folder"
                if self._reach.outside(path, context):
                    outside.append(path)
            listed = (_resolved(word, cwd) for word in simple.listed)
            outside += [path for path in listed if self._reach.outside(path, context)]
            if opened.repository is not None:
                problem = self._why_no_git(f"{cwd}/{opened.repository}", context, outside)
                if problem:
                    return problem
        return ""

    def _why_no_git(self, folder: str, context: CallContext, outside: list[str]) -> str:
        found = repository_at(real(folder)) if os.path.isdir(folder) else None  # noqa: PTH112 - as above
        if found is None:
            return "there is no repository here"
        if found.unknown:
            return (
                f"the repository in {found.folders[0]} sets {found.unknown}, which may run"
                " something"
            )
        outside += [each for each in map(real, found.folders) if self._reach.outside(each, context)]
        return ""

    def _outside(
        self, paths: Sequence[str], granted: Sequence[Rule], context: CallContext
    ) -> Ruling | None:
        """A question about the first path that lies outside the workspace and that no rule
        frees."""
        for path in paths:
            if not any(
                path_matches(rule, "read", "Read", path) for rule in (*self._rules.allow, *granted)
            ):
                why = f"{path} lies outside the workspace"
                return Ruling("ask", "mode", context.mode, why, suggests=folder_rule(path))
        return None

    def _by_rule(
        self,
        simple: Simple,
        layers: Sequence[tuple[Layer, Sequence[Rule]]],
        context: CallContext,
        *,
        wild: bool,
    ) -> Ruling | None:
        """A rule allows the words; a file that is written needs a rule of its own. ``wild``: rules
        with wildcards count."""
        rules = [rule for _, each in layers for rule in each]
        written = [
            each.target
            for each in simple.redirects
            if each.kind == "write" and each.target not in _HARMLESS_TARGETS
        ]
        if not all(self._may_write(simple, target, rules) for target in written):
            return None
        inside = partial(self._inside, simple.cwds[-1], context)
        wild = wild and all(inside(each.target) for each in simple.redirects if each.kind == "read")
        for layer, each in layers:
            for rule in each:
                told = wild or "*" not in (rule.pattern or "")
                if rule.tool == "Bash" and told and covers(rule.pattern, simple, inside):
                    return Ruling("allow", layer, rule.text)
        return None

    def _inside(self, cwd: str, context: CallContext, word: str) -> bool:
        path = _resolved(word, cwd)
        return self._reach.holds(path, context)

    @staticmethod
    def _may_write(simple: Simple, target: str, rules: Sequence[Rule]) -> bool:
        paths = [_resolved(target, cwd) for cwd in simple.cwds]
        return all(
            any(path_matches(rule, "write", "Write", path) for rule in rules) for path in paths
        )


def _resolved(word: str, cwd: str) -> str:
    return real(word if word.startswith("/") else f"{cwd}/{word}")


def _paths(simple: Simple, opened: Reading, cwd: str) -> list[str]:
    """Resolved: operands, what is redirected from, and what wildcards became."""
    redirected = (each.target for each in simple.redirects if each.kind == "read")
    globbed = (simple.words[at] for at in simple.found)
    words = dict.fromkeys((*opened.paths, *redirected, *globbed))
    return [_resolved(word, cwd) for word in words if word != "/dev/null"]


def _only_read(simple: Simple, word: str) -> bool:
    """A command that reads a protected file beside another that changes something else."""
    written = any(each.kind == "write" and each.target == word for each in simple.redirects)
    return not written and reading(simple) is not None


def _unclear(why: str) -> Ruling:
    return Ruling("ask", "shell", "", why, remember=False)


def _forbidden(word: str) -> Ruling:
    reason = (
        f"{word} touches credentials or the agent's own secrets; no tool may, in any mode; if it is"
        " needed, the person does it by hand in a terminal"
    )
    return Ruling("deny", "sensitive", word, reason, remember=False)
