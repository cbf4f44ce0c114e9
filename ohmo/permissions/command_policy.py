"""The decision about a shell command: every simple command in it is judged, the strictest answer wins."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence

from ohmo.contracts.tool import CallContext
from ohmo.permissions.paths import SensitivePaths, Touch
from ohmo.permissions.patterns import known, word_set
from ohmo.permissions.rules import PATH_TOOLS, Rule, RuleSet, below, command_matches, path_matches
from ohmo.permissions.ruling import Ruling, by_mode
from ohmo.permissions.shell import Script, Shell, Simple
from ohmo.permissions.shell.further import goes_further
from ohmo.permissions.shell.inline import hidden_code
from ohmo.permissions.shell.paths_in import SHALLOW, goes_deep, places, wanted_paths
from ohmo.permissions.shell.readonly import HARMLESS_TARGETS, HARMLESS_VARIABLES
from ohmo.permissions.shell.vaults import gives_secrets
from ohmo.permissions.shell.wrappers import tails

_MOST_WILD = 500
_MOST_PIECES = 3000  # of words that may be paths, in one command
_QUOTING = re.compile(r"['\"\\]|\$(?=['\"])")
# Programs that cannot do anything with a path they are not told: unknown words are harmless to them.
_INDIFFERENT = word_set(
    """echo printf test [ kill sleep export local declare typeset readonly function set unset exit return true false read cd
        mkdir"""
)


class CommandPolicy:
    """Sensitive places, then the configured rules, then what was granted, then the mode."""

    def __init__(self, rules: RuleSet, sensitive: SensitivePaths, shell: Shell) -> None:
        self._rules, self._sensitive, self._shell = rules, sensitive, shell
        self._path_denies = tuple(rule for rule in rules.deny if rule.tool in PATH_TOOLS)
        self._command_denies = tuple(rule for rule in rules.deny if rule.tool == "Bash")
        self._command_asks = tuple(rule for rule in rules.ask if rule.tool == "Bash")

    def rule(self, command: str, context: CallContext, granted: Sequence[Rule]) -> Ruling:
        script = self._shell.parse(command, context.cwd)
        if sum(not known(word) for simple in script.commands for word in simple.words) > _MOST_WILD:
            return Ruling("ask", "shell", "", "it holds more wildcards and unknown words than can be looked up", remember=False)
        judged = [self._sensitive_part(script, command, str(context.cwd)), self._configured(script)]
        for verdict in ("deny", "ask"):
            for ruling in judged:
                if ruling is not None and ruling.verdict == verdict:
                    return ruling
        return self._allowed(script, command, granted, context)

    def _sensitive_part(self, script: Script, command: str, cwd: str) -> Ruling | None:
        maybe: Ruling | None = None
        real: dict[str, str] = {}
        seen: set[tuple[str, str]] = set()
        for simple in script.commands:
            if gives_secrets(simple):
                return _forbidden(simple.text)
            whole, pieces = wanted_paths(simple, self._shell.home)
            if len(pieces) > _MOST_PIECES:
                return Ruling("ask", "shell", "", "one word of it holds more than can be looked up", remember=False)
            folders = places(simple)
            for word in whole:
                for place in folders:
                    if (place, word) in seen and word not in (".", "/"):
                        continue
                    seen.add((place, word))
                    touch = self._sensitive.touch(word, place, real)
                    if touch is Touch.INSIDE or (touch is Touch.ABOVE and goes_deep(simple)):
                        return _forbidden(word)
                    if touch is Touch.ABOVE and simple.name not in SHALLOW:
                        maybe = maybe or Ruling("ask", "sensitive", word, f"{word} holds sensitive places", remember=False)
                    if touch is Touch.MAYBE and (simple.name not in _INDIFFERENT or any(each.target == word for each in simple.redirects)):
                        maybe = maybe or Ruling("ask", "sensitive", "", "what it reads is only known when it runs", remember=False)
            for word in pieces:
                if known(word) and any(self._sensitive.touch(word, place, real) is Touch.INSIDE for place in {cwd, folders[-1]}):
                    return _forbidden(word)
        plain = _QUOTING.sub("", command)
        hit = self._sensitive.mentioned(plain)
        if hit is not None:
            return maybe or Ruling("ask", "sensitive", hit, f"it speaks of {hit}", remember=False)
        return maybe

    def _configured(self, script: Script) -> Ruling | None:
        for simple in script.commands:
            for rule in self._command_denies:
                if _covers(rule, simple):
                    return Ruling("deny", "deny", rule.text, f"the rule deny {rule.text} forbids {simple.text!r}", remember=False)
            ruling = self._denied_path(simple)
            if ruling is not None:
                return ruling
        if script.unclear:
            return Ruling("ask", "shell", "", f"{script.unclear}, so a person has to look at it", remember=False)
        for simple in script.commands:
            for rule in self._command_asks:
                if _covers(rule, simple):
                    return Ruling("ask", "ask", rule.text, f"the rule ask {rule.text} wants a person's word", remember=False)
            opaque = simple.opaque or hidden_code(simple)
            if opaque:
                return Ruling("ask", "shell", "", opaque, remember=False)
        return None

    def _denied_path(self, simple: Simple) -> Ruling | None:
        if not self._path_denies:
            return None
        whole, pieces = wanted_paths(simple, self._shell.home)
        asked: Ruling | None = None
        folders = places(simple)
        for word in whole:
            for place in folders:
                for path in self._sensitive.becomes(word, place):
                    for rule in self._path_denies:
                        if _matches(rule, path):
                            return Ruling("deny", "deny", rule.text, f"the rule deny {rule.text} forbids {path}", remember=False)
                        if below(rule, path) and simple.name not in SHALLOW:
                            why = f"{path} holds what the rule deny {rule.text} forbids"
                            asked = asked or Ruling("ask", "deny", rule.text, why, remember=False)
        for word in pieces if asked is None else ():
            for path in self._sensitive.becomes(word, simple.cwds[0]) if known(word) else ():
                for rule in self._path_denies:
                    if _matches(rule, path):
                        return Ruling(
                            "ask", "deny", rule.text, f"it speaks of {path}, which the rule deny {rule.text} forbids", remember=False
                        )
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


def _covers(rule: Rule, simple: Simple) -> bool:
    """For rules that forbid or ask: the program with and without its folder, in any case of letters."""
    if rule.pattern is None or not simple.words:
        return rule.pattern is None
    bare = (simple.name, *simple.words[1:])
    if command_matches(rule, simple.text, fold=True) or command_matches(rule, " ".join(bare), fold=True):
        return True
    if any(command_matches(rule, text, fold=True) for text in _without_options(bare)):
        return True
    return any(command_matches(rule, " ".join(words), fold=True) for words in tails(simple.words))


def _matches(rule: Rule, path: str) -> bool:
    return path_matches(rule, "read", "Read", path) or path_matches(rule, "write", "Write", path)


def _by_its_beginning(rule: Rule) -> bool:
    """``git fetch:*`` says what is allowed; ``git:*`` and ``Bash`` mean everything."""
    return rule.pattern is not None and "*" in rule.pattern and " " in rule.pattern.removesuffix(" *")


def _without_options(words: tuple[str, ...]) -> list[str]:
    """``git -C x push`` and ``git --no-pager push`` as ``git push``: options before the verb left out, with and without a value each."""
    if len(words) < 3 or not words[1].startswith("-"):
        return []
    found: list[str] = []
    at = 1
    while at < len(words) - 1 and len(found) < 40:
        if words[at].startswith("-"):
            found += [" ".join((words[0], *words[at + step :])) for step in (1, 2)]
            at += 1 if words[at + 1].startswith("-") else 2
        else:
            break
    return found


def _forbidden(word: str) -> Ruling:
    reason = f"{word} touches credentials or the agent's own secrets; no tool may, in any mode; if it is needed, the person does it by hand in a terminal"
    return Ruling("deny", "sensitive", word, reason, remember=False)
