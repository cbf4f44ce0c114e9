"""Which of many rules that forbid or ask covers a command: the whole list at once where that is
possible, then rule by rule."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cached_property

from ohmo.permissions.rules import PATH_TOOLS, Forbidden, Rule, command_matches, forbidden
from ohmo.shell.script import Simple
from ohmo.shell.wrappers import tails

_LETTERS = re.compile(r"(?<!\S)-([A-Za-z]{2,})(?!\S)")
_OPTION = re.compile(r"(?<!\S)-{1,2}[A-Za-z][\w-]*")


def spellings(simple: Simple) -> tuple[str, ...]:
    """The command as rules that forbid may mean it: with and without its folder, its options before
    the verb, the letters of its short options in order, and what a wrapper runs."""
    if not simple.words:
        return ()
    program, dash, verb = simple.name.partition("-")
    name = (program, verb) if program == "git" and dash else (simple.name,)  # git-push is git push
    bare = (*name, *simple.words[1:])
    found = [simple.text, " ".join(bare), *_without_options(bare)]
    found += [" ".join(words) for words in tails(simple.words)]
    return tuple(dict.fromkeys((*found, *map(_in_order, found))))


def covers(rule: Rule, texts: Sequence[str]) -> bool:
    """``texts``: the spellings of a command; in any case of letters."""
    if rule.pattern is None:
        return True
    ordered = Rule(rule.tool, _in_order(rule.pattern), rule.text)
    return any(command_matches(each, text) for each in (rule, ordered) for text in texts)


def _in_order(text: str) -> str:
    """``rm -fr x`` and ``rm -rf x`` alike."""
    return _LETTERS.sub(lambda found: "-" + "".join(sorted(set(found[1]))), text)


class CommandRules:
    """Rules about Bash that forbid or ask, in their order."""

    def __init__(self, rules: Sequence[Rule]) -> None:
        self._rules = tuple(rule for rule in rules if rule.tool == "Bash")
        plain = {
            rule: rule.pattern
            for rule in self._rules
            if rule.pattern is not None and "*" not in rule.pattern.removesuffix(":*")
        }
        patterns = {form.casefold() for one in plain.values() for form in (one, _in_order(one))}
        self._beginnings = tuple(f"{one[:-2]} " for one in patterns if one.endswith(":*"))
        self._whole = frozenset(one for one in patterns if not one.endswith(":*"))
        self._others = tuple(rule for rule in self._rules if rule not in plain)

    def __bool__(self) -> bool:
        return bool(self._rules)

    def first(self, texts: Sequence[str]) -> Rule | None:
        """The first rule that covers a command."""
        for text in texts:
            folded = text.casefold()
            if folded in self._whole or f"{folded} ".startswith(self._beginnings):
                break
        else:
            return next((rule for rule in self._others if covers(rule, texts)), None)
        return next((rule for rule in self._rules if covers(rule, texts)), None)

    def mentioned(self, text: str) -> Rule | None:
        """The first rule whose words stand in ``text``, in their order, each as a word or as the
        end of a path: for a question about what no grammar was sure of."""
        if not self._rules:
            return None
        given = _OPTION.findall(text)
        return next(
            (rule for rule in self._rules if rule.pattern and _speaks(rule.pattern, text, given)),
            None,
        )


def _speaks(pattern: str, text: str, given: Sequence[str]) -> bool:
    words = [word for word in pattern.removesuffix(":*").split() if "*" not in word]
    at = 0
    for word in words:
        if not word.startswith("-"):
            form = rf"(?<![\w.-]){re.escape(word.rpartition('/')[2])}(?![\w-])"
            found = re.compile(form, re.IGNORECASE).search(text, at)
            if found is None:
                return False
            at = found.end()
    letters = {letter for word in given if not word.startswith("--") for letter in word[1:]}
    forbidden = {letter for word in words if _LETTERS.fullmatch(word) for letter in word[1:]}
    return at > 0 and (forbidden <= letters or any(word.startswith("--") for word in given))


class PathRules:
    """Rules that forbid paths, asked for many of them."""

    def __init__(self, rules: Sequence[Rule]) -> None:
        self._rules = tuple(rule for rule in rules if rule.tool in PATH_TOOLS)

    def __bool__(self) -> bool:
        return bool(self._rules)

    @cached_property
    def _places(self) -> list[tuple[Rule, Forbidden]]:
        return [(rule, forbidden(rule)) for rule in self._rules]

    def hit(self, path: str) -> tuple[Rule | None, Rule | None]:
        """``path`` absolute and resolved: the first rule about the path itself, and the first
        before it about something below it."""
        lower: Rule | None = None
        folder = path.rstrip("/") + "/"
        for rule, place in self._places:
            if place.every or (place.form is not None and place.form.fullmatch(path) is not None):
                return rule, lower
            if lower is None and place.fixed.startswith(folder):
                lower = rule
        return None, lower


def _without_options(words: tuple[str, ...]) -> list[str]:
    """``git -C x push`` and ``git --no-pager push`` as ``git push``: options before the verb left
    out, with and without a value each."""
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
