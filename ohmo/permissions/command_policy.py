"""The decision about a shell command: every simple command in it is judged, the strictest answer wins."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence

from ohmo.contracts.tool import CallContext
from ohmo.permissions.covering import CommandRules, PathRules, spellings
from ohmo.permissions.looked import Looked
from ohmo.permissions.paths import SensitivePaths, Touch
from ohmo.permissions.patterns import known, word_set
from ohmo.permissions.rules import Rule, RuleSet, command_matches, path_matches
from ohmo.permissions.ruling import Ruling, by_mode
from ohmo.permissions.shell import Script, Shell, Simple
from ohmo.permissions.shell.further import goes_further
from ohmo.permissions.shell.inline import hidden_code
from ohmo.permissions.shell.paths_in import SHALLOW, goes_deep, places, wanted_paths
from ohmo.permissions.shell.readonly import HARMLESS_TARGETS, HARMLESS_VARIABLES
from ohmo.permissions.shell.vaults import gives_secrets

_MOST_WILD = 500
_MOST_PIECES = 3000  # of words that may be paths, in one command
_QUOTING = re.compile(r"['\"\\]|\$(?=['\"])")
# Programs that cannot do anything with a path they are not told: unknown words are harmless to them.
_INDIFFERENT = word_set(
    """echo printf test [ kill sleep export local declare typeset readonly function set unset exit return true false read cd
        mkdir"""
)


class _Part:
    """One simple command under judgement, with what several layers ask about it."""

    __slots__ = ("folders", "pieces", "simple", "texts", "whole")

    def __init__(self, simple: Simple, home: str, *, spelled: bool) -> None:
        self.simple, self.folders = simple, places(simple)
        self.whole, self.pieces = wanted_paths(simple, home)
        self.texts = spellings(simple) if spelled else ()


class CommandPolicy:
    """Sensitive places, then the configured rules, then what was granted, then the mode."""

    def __init__(self, rules: RuleSet, sensitive: SensitivePaths, shell: Shell) -> None:
        self._rules, self._sensitive, self._shell = rules, sensitive, shell
        self._path_denies = PathRules(rules.deny)
        self._command_denies, self._command_asks = CommandRules(rules.deny), CommandRules(rules.ask)

    def rule(self, command: str, context: CallContext, granted: Sequence[Rule]) -> Ruling:
        script = self._shell.parse(command, context.cwd)
        if sum(not known(word) for simple in script.commands for word in simple.words) > _MOST_WILD:
            return Ruling("ask", "shell", "", "it holds more wildcards and unknown words than can be looked up", remember=False)
        spelled = bool(self._command_denies) or bool(self._command_asks)
        parts, looked = [_Part(simple, self._shell.home, spelled=spelled) for simple in script.commands], Looked()
        judged = [self._sensitive_part(parts, command, str(context.cwd), looked), self._configured(parts, script.unclear, looked)]
        for verdict in ("deny", "ask"):
            for ruling in judged:
                if ruling is not None and ruling.verdict == verdict:
                    return ruling
        return self._allowed(script, command, granted, context)

    def _sensitive_part(self, parts: Sequence[_Part], command: str, cwd: str, looked: Looked) -> Ruling | None:
        maybe: Ruling | None = None
        seen: set[tuple[str, str]] = set()
        for part in parts:
            simple = part.simple
            if gives_secrets(simple):
                return _forbidden(simple.text)
            if len(part.pieces) > _MOST_PIECES:
                return Ruling("ask", "shell", "", "one word of it holds more than can be looked up", remember=False)
            for word in part.whole:
                for place in part.folders:
                    if (place, word) in seen and word not in (".", "/"):
                        continue
                    seen.add((place, word))
                    touch = self._sensitive.touch(word, place, looked)
                    if touch is Touch.INSIDE or (touch is Touch.ABOVE and goes_deep(simple)):
                        return _forbidden(word)
                    if touch is Touch.ABOVE and simple.name not in SHALLOW:
                        maybe = maybe or Ruling("ask", "sensitive", word, f"{word} holds sensitive places", remember=False)
                    if touch is Touch.MAYBE and (simple.name not in _INDIFFERENT or any(each.target == word for each in simple.redirects)):
                        maybe = maybe or Ruling("ask", "sensitive", "", "what it reads is only known when it runs", remember=False)
            for word in part.pieces:
                if known(word) and any(self._sensitive.touch(word, place, looked) is Touch.INSIDE for place in {cwd, part.folders[-1]}):
                    return _forbidden(word)
        plain = _QUOTING.sub("", command)
        hit = self._sensitive.mentioned(plain)
        if hit is not None:
            return maybe or Ruling("ask", "sensitive", hit, f"it speaks of {hit}", remember=False)
        return maybe

    def _configured(self, parts: Sequence[_Part], unclear: str, looked: Looked) -> Ruling | None:
        for part in parts:
            rule = self._command_denies.first(part.texts) if self._command_denies else None
            if rule is not None:
                return Ruling("deny", "deny", rule.text, f"the rule deny {rule.text} forbids {part.simple.text!r}", remember=False)
            ruling = self._denied_path(part, looked) if self._path_denies else None
            if ruling is not None:
                return ruling
        if unclear:
            return Ruling("ask", "shell", "", f"{unclear}, so a person has to look at it", remember=False)
        for part in parts:
            rule = self._command_asks.first(part.texts) if self._command_asks else None
            if rule is not None:
                return Ruling("ask", "ask", rule.text, f"the rule ask {rule.text} wants a person's word", remember=False)
            opaque = part.simple.opaque or hidden_code(part.simple)
            if opaque:
                return Ruling("ask", "shell", "", opaque, remember=False)
        return None

    def _denied_path(self, part: _Part, looked: Looked) -> Ruling | None:
        simple = part.simple
        asked: Ruling | None = None
        for word in part.whole:
            for place in part.folders:
                for path in self._sensitive.becomes(word, place, looked):
                    rule, lower = self._path_denies.hit(path)
                    if rule is not None:
                        return Ruling("deny", "deny", rule.text, f"the rule deny {rule.text} forbids {path}", remember=False)
                    if lower is not None and simple.name not in SHALLOW:
                        why = f"{path} holds what the rule deny {lower.text} forbids"
                        asked = asked or Ruling("ask", "deny", lower.text, why, remember=False)
        for word in part.pieces if asked is None else ():
            for path in self._sensitive.becomes(word, simple.cwds[0], looked) if known(word) else ():
                rule, _ = self._path_denies.hit(path)
                if rule is not None:
                    why = f"it speaks of {path}, which the rule deny {rule.text} forbids"
                    return Ruling("ask", "deny", rule.text, why, remember=False)
        return asked

    def _allowed(self, script: Script, command: str, granted: Sequence[Rule], context: CallContext) -> Ruling:
        sources: list[Ruling] = []
        for layer, rules in (("allow", self._rules.allow), ("grant", granted)):
            for rule in rules:
                if rule.tool == "Bash" and rule.pattern is not None and rule.pattern == command.strip():
                    return Ruling("allow", layer, rule.text)  # pyright: ignore[reportArgumentType]
        for simple, free in zip(script.commands, script.free, strict=True):
            if free:
                continue
            found = self._by_rule(simple, granted)
            if found is None:
                return by_mode(context, f"{simple.text[:200]!r} may change something" if simple.words else "")
            sources.append(found)
        if not script.commands:
            return by_mode(context)
        return sources[0] if sources else Ruling("allow", "mode", f"{context.mode}, read-only")

    def _by_rule(self, simple: Simple, granted: Sequence[Rule]) -> Ruling | None:
        """A rule allows the words; what is redirected into files needs a rule of its own, and variables that change programs need a person."""
        if not known(simple.text) or (simple.words and any(name not in HARMLESS_VARIABLES for name in simple.assigned)):
            return None
        for redirect in simple.redirects:
            if (
                redirect.kind == "write"
                and redirect.target not in HARMLESS_TARGETS
                and not self._may_write(simple, redirect.target, granted)
            ):
                return None
        further = goes_further(simple)
        for rule in self._rules.allow:
            if command_matches(rule, simple.text) and not (further and _by_its_beginning(rule)):
                return Ruling("allow", "allow", rule.text)
        for rule in granted:
            if command_matches(rule, simple.text) and not (further and _by_its_beginning(rule)):
                return Ruling("allow", "grant", rule.text)
        return None

    def _may_write(self, simple: Simple, target: str, granted: Sequence[Rule]) -> bool:
        if not known(target) or not all(map(known, simple.cwds)):
            return False
        paths = [os.path.realpath(f"{cwd}/{target}" if not target.startswith("/") else target) for cwd in simple.cwds]
        return all(any(path_matches(rule, "write", "Write", path) for rule in (*self._rules.allow, *granted)) for path in paths)


def _by_its_beginning(rule: Rule) -> bool:
    """``git fetch:*`` says what is allowed; ``git:*`` and ``Bash`` mean everything."""
    return rule.pattern is not None and "*" in rule.pattern and " " in rule.pattern.removesuffix(" *")


def _forbidden(word: str) -> Ruling:
    reason = f"{word} touches credentials or the agent's own secrets; no tool may, in any mode; if it is needed, the person does it by hand in a terminal"
    return Ruling("deny", "sensitive", word, reason, remember=False)
