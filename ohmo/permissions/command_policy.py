"""The decision about a shell command. What runs unasked lies in the plain language, reads only, and
reads nothing but what may be read; what the grammar finds in any other line can only forbid or
ask."""

from __future__ import annotations

import itertools
import os
import re
from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from channels.record import record
from ohmo.contracts.tool import CallContext
from ohmo.permissions.boundaries import (
    ProtectedPlaces,
    Reach,
    ReadPolicy,
    folder_rule,
    resolved,
    written_files,
)
from ohmo.permissions.looks import Looks, followed_to
from ohmo.permissions.rules import (
    CommandRules,
    Layer,
    PathRules,
    Rule,
    RuleSet,
    Ruling,
    by_mode,
    path_matches,
    spellings,
)
from ohmo.permissions.sensitive_paths import FsCache, SensitivePaths, Touch
from ohmo.permissions.sensitive_places import FileAliases
from ohmo.permissions.wildcard_rules import covers
from ohmo.shell.parsing import Shell
from ohmo.shell.patterns import known, word_set
from ohmo.shell.reading import only_git_that_reads, reading, reads_only
from ohmo.shell.risks import (
    follows_links,
    gives_secrets,
    goes_deep,
    hidden_code,
    looks_only,
    named_within,
    places,
    wanted_paths,
)
from ohmo.shell.script import Reading, Script, Simple

_MOST_WILD = 500
_MOST_PIECES = 3000  # of words that may be paths, in one command
_LONG = 20_000  # characters; a longer line is not explained before somebody is asked about it
_QUOTING = re.compile(r"['\"\\]|\$(?=['\"])")
# Programs that cannot do anything with a path they are not told: unknown words are harmless to
# them.
_INDIFFERENT = word_set(
    """echo printf basename dirname test [ kill sleep export local declare typeset readonly function
        set unset exit return true false read cd mkdir"""
)


class _Part:
    """One simple command under judgement, with what several layers ask about it."""

    __slots__ = ("folders", "pieces", "simple", "texts", "whole")

    def __init__(self, simple: Simple, home: str, *, spelled: bool) -> None:
        self.simple = simple
        self.folders = places(simple)
        self.whole, self.pieces = wanted_paths(simple, home)
        self.texts = spellings(simple) if spelled else ()


@record
class _Seen:
    """The sensitive places of one judgement, and what it has seen of the disk."""

    sensitive: SensitivePaths
    cache: FsCache
    aliases: FileAliases


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
        self._reading = ReadPolicy(shell.path, reach)
        self._path_denies = PathRules(rules.deny)
        self._command_denies = CommandRules(rules.deny)
        self._command_asks = CommandRules(rules.ask)

    def rule(self, command: str, context: CallContext, granted: Sequence[Rule]) -> Ruling:
        sensitive = self._sensitive.seen_by(context)
        if len(command) > _LONG and context.mode != "full_auto":
            # Not taken apart: it is asked about, or refused for what it speaks of.
            mentioned = sensitive.mentioned(_QUOTING.sub("", command))
            if mentioned is not None:
                why = f"it speaks of {mentioned}"
                return Ruling("ask", "sensitive", mentioned, why, remember=False)
            asked = by_mode(context, f"it has more than {_LONG} characters")
            return asked if asked.verdict == "deny" else _unclear(asked.reason)
        script = self._shell.parse(command, context.cwd)
        wild = sum(not known(word) for simple in script.commands for word in simple.words)
        if wild > _MOST_WILD:
            return _unclear("it holds more wildcards and unknown words than can be looked up")
        spelled = bool(self._command_denies) or bool(self._command_asks)
        parts = [_Part(each, self._shell.home, spelled=spelled) for each in script.commands]
        cache, aliases = FsCache(), sensitive.aliases()
        judged = [
            self._sensitive_part(parts, command, str(context.cwd), sensitive, cache)
            or self._other_names(parts, script, _Seen(sensitive, cache, aliases)),
            self._configured(parts, command, script, cache),
            self._guarded(parts, script, context, cache),
        ]
        for verdict in ("deny", "ask"):
            for ruling in judged:
                if ruling is not None and ruling.verdict == verdict:
                    return ruling
        return self._allowed(script, command, granted, context, sensitive, aliases)

    def _sensitive_part(
        self,
        parts: Sequence[_Part],
        command: str,
        cwd: str,
        sensitive: SensitivePaths,
        cache: FsCache,
    ) -> Ruling | None:
        maybe: Ruling | None = None
        seen: set[tuple[str, str]] = set()
        for part in parts:
            if gives_secrets(part.simple):
                return _forbidden(part.simple.shown)
            if len(part.pieces) > _MOST_PIECES:
                return _unclear("one word of it holds more than can be looked up")
            for word in part.whole:
                for folder in part.folders:
                    if (folder, word) in seen and word not in (".", "/"):
                        continue
                    seen.add((folder, word))
                    ruling = _touched(part.simple, sensitive.touch(word, folder, cache), word)
                    if ruling is not None and ruling.verdict == "deny":
                        return ruling
                    maybe = maybe or ruling
            for word in part.pieces:
                if not known(word):
                    continue
                for folder in {cwd, part.folders[-1]}:
                    if sensitive.touch(word, folder, cache) is Touch.INSIDE:
                        return _forbidden(word)
        hit = sensitive.mentioned(_QUOTING.sub("", command))
        if hit is not None:
            return maybe or Ruling("ask", "sensitive", hit, f"it speaks of {hit}", remember=False)
        return maybe

    def _other_names(self, parts: Sequence[_Part], script: Script, seen: _Seen) -> Ruling | None:
        """Sensitive files behind other names: a hard link that is named, and what lies behind links
        below a folder, where the command is not known to leave that alone."""
        judged: set[tuple[str, bool]] = set()
        for part in parts:
            simple = part.simple
            reads = bool(script.plain) and reading(simple) is not None  # looked through later
            deep = not reads and follows_links(simple)
            for word, folder in itertools.product(filter(known, part.whole), part.folders):
                for path in seen.sensitive.becomes(word, folder, seen.cache):
                    if (path, deep) in judged or not os.path.lexists(path):
                        continue
                    judged.add((path, deep))
                    if seen.aliases.at(path) is Touch.INSIDE:
                        return _forbidden(word)
                    if not deep or not os.path.isdir(path):  # noqa: PTH112 - text
                        continue
                    whole = goes_deep(simple)
                    hidden = followed_to(path, seen.sensitive, seen.aliases, whole=whole)
                    if hidden:
                        why = f"{hidden} is below {path}"
                        return Ruling("ask", "sensitive", hidden, why, remember=False)
        return None

    def _configured(
        self, parts: Sequence[_Part], command: str, script: Script, cache: FsCache
    ) -> Ruling | None:
        for part in parts:
            rule = self._command_denies.first(part.texts)
            if rule is not None:
                why = f"the rule deny {rule.text} forbids {part.simple.shown!r}"
                return Ruling("deny", "deny", rule.text, why, remember=False)
            ruling = self._denied_path(part, cache) if self._path_denies else None
            if ruling is not None:
                return ruling
        rule = self._command_denies.mentioned(_QUOTING.sub("", command))
        if rule is not None:
            why = f"it speaks of what the rule deny {rule.text} forbids"
            return Ruling("ask", "deny", rule.text, why, remember=False)
        perhaps = filter(None, (self._command_denies.perhaps(part.simple) for part in parts))
        if (rule := next(perhaps, None)) is not None:
            why = f"a wildcard may make it what the rule deny {rule.text} forbids"
            return Ruling("ask", "deny", rule.text, why, remember=False)
        if script.unclear:
            return _unclear(f"{script.unclear}, so a person has to look at it")
        for part in parts:
            rule = self._command_asks.first(part.texts)
            if rule is not None:
                why = f"the rule ask {rule.text} wants a person's word"
                return Ruling("ask", "ask", rule.text, why, remember=False)
            read = bool(script.plain) and reading(part.simple) is not None
            opaque = part.simple.opaque or ("" if read else hidden_code(part.simple))
            if opaque:
                return _unclear(opaque)
        return None

    def _denied_path(self, part: _Part, cache: FsCache) -> Ruling | None:
        simple = part.simple
        asked: Ruling | None = None
        for word in part.whole:
            for folder in part.folders:
                for path in self._sensitive.becomes(word, folder, cache):
                    rule, lower = self._path_denies.hit(path)
                    if rule is not None:
                        why = f"the rule deny {rule.text} forbids {path}"
                        return Ruling("deny", "deny", rule.text, why, remember=False)
                    if lower is not None and not looks_only(simple):
                        why = f"{path} holds what the rule deny {lower.text} forbids"
                        asked = asked or Ruling("ask", "deny", lower.text, why, remember=False)
        if asked is not None:
            return asked
        for word in filter(known, part.pieces):
            for path in self._sensitive.becomes(word, simple.cwds[-1], cache):
                rule, _ = self._path_denies.hit(path)
                if rule is not None:
                    why = f"it speaks of {path}, which the rule deny {rule.text} forbids"
                    return Ruling("ask", "deny", rule.text, why, remember=False)
        return None

    def _guarded(
        self, parts: Sequence[_Part], script: Script, context: CallContext, cache: FsCache
    ) -> Ruling | None:
        """Places whose every change a person looks at; a plain command that only reads, and writes
        no file by a redirection, is free."""
        only_reads = reads_only(script) and not any(map(written_files, script.plain))
        if context.mode == "plan" or only_reads:
            return None
        for part in parts:
            for word in (*part.whole, *named_within(part.simple)):
                if part.simple.words[:1] == (word,):
                    continue
                if part.simple.name == "git" and word.startswith("HEAD"):
                    continue  # a revision
                written = any(
                    each.kind == "write" and each.target == word for each in part.simple.redirects
                )
                # It may read a protected file beside another that changes something else.
                if not written and reading(part.simple) is not None:
                    continue
                for path in self._sensitive.becomes(word, part.folders[-1], cache):
                    place = self._protected.named(path, cache)
                    if place is not None:
                        why = (
                            f"{path}: programs or agents run or obey by themselves what lies there"
                        )
                        return Ruling("ask", "protected", place, why, remember=False)
        return None

    def _allowed(
        self,
        script: Script,
        command: str,
        granted: Sequence[Rule],
        context: CallContext,
        sensitive: SensitivePaths,
        aliases: FileAliases,
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
        quiet = only_git_that_reads(script.plain)
        looks = Looks(sensitive, aliases)
        for simple in script.plain:
            beyond: list[str] = []
            shut = ""
            opened = reading(simple)
            if opened is not None:
                hidden = self._hidden(simple, opened, looks)
                if hidden is not None:
                    return hidden
                shut = self._reading.shut(simple, opened, context, beyond, looks)
            why = shut or self._reading.more_than_reading(simple, opened, context)
            if not why and opened is not None and opened.repository is not None and not quiet:
                why = (
                    f"{simple.shown[:200]!r} runs what git's settings say, beside git that changes"
                    " something"
                )
            ruled = self._by_rule(simple, layers, context, wild=not shut) if why or beyond else None
            if why and ruled is None:
                suggested = f"Bash({command.strip()})" if shut else ""
                return replace(by_mode(context, why), suggests=suggested)
            if ruled is None or "*" in ruled.rule:  # a wildcard leads nowhere else
                outside += beyond
            by_rule = by_rule or ruled
        path_rules = (*self._rules.allow, *granted)
        for path in outside:
            if not any(path_matches(rule, "read", "Read", path) for rule in path_rules):
                why = f"{path} lies outside the workspace"
                return Ruling("ask", "mode", context.mode, why, suggests=folder_rule(path))
        return by_rule or Ruling("allow", "mode", f"{context.mode}, read-only")

    def _hidden(self, simple: Simple, opened: Reading, looks: Looks) -> Ruling | None:
        """What a command that only reads may not read, although no word of it names that."""
        hidden = self._reading.hides_sensitive(simple, opened, looks)
        if hidden:
            return Ruling("ask", "sensitive", "", hidden, remember=False)
        for path in self._reading.followed(simple, opened, looks) if self._path_denies else ():
            rule, _ = self._path_denies.hit(path)
            if rule is not None:
                why = f"the rule deny {rule.text} forbids {path}"
                return Ruling("deny", "deny", rule.text, why, remember=False)
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
        all_rules = [rule for _, rules in layers for rule in rules]
        for target in written_files(simple):
            for path in {resolved(target, cwd) for cwd in simple.cwds}:
                if not any(path_matches(rule, "write", "Write", path) for rule in all_rules):
                    return None
        inside = partial(self._inside, simple.cwds[-1], context)
        wild = wild and all(inside(each.target) for each in simple.redirects if each.kind == "read")
        for layer, rules in layers:
            for rule in rules:
                counts = rule.tool == "Bash" and (wild or "*" not in (rule.pattern or ""))
                if counts and covers(rule.pattern, simple, inside):
                    return Ruling("allow", layer, rule.text)
        return None

    def _inside(self, cwd: str, context: CallContext, word: str) -> bool:
        path = resolved(word, cwd)
        return self._reach.holds(path, context)


def _touched(simple: Simple, touch: Touch, word: str) -> Ruling | None:
    if touch is Touch.INSIDE or (touch is Touch.ABOVE and goes_deep(simple)):
        return _forbidden(word)
    if touch is Touch.PAGE and not reading(simple):
        return _forbidden(word)
    if touch is Touch.ABOVE and not looks_only(simple):
        why = f"{word} holds sensitive places"
        return Ruling("ask", "sensitive", word, why, remember=False)
    redirected = any(each.target == word for each in simple.redirects)
    if touch is Touch.MAYBE and (simple.name not in _INDIFFERENT or redirected):
        why = "what it reads is only known when it runs"
        return Ruling("ask", "sensitive", "", why, remember=False)
    return None


def _unclear(why: str) -> Ruling:
    return Ruling("ask", "shell", "", why, remember=False)


def _forbidden(word: str) -> Ruling:
    reason = (
        f"{word} touches credentials, the agent's own secrets, or what it keeps for another"
        " conversation (or kept before an upgrade); no tool may, in any mode; if it is needed, the"
        " person does it by hand in a terminal"
    )
    return Ruling("deny", "sensitive", word, reason, remember=False)
