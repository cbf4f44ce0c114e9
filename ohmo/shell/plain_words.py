"""The words of the plain language, each read as bash reads it (bash(1), "QUOTING", "EXPANSION");
``plain.py`` says what they are made of."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import NoReturn

from ohmo.shell.handed import Told
from ohmo.shell.patterns import ANY, TooWide, names_of
from ohmo.shell.script import Handed

_MOST_NAMES = 5_000  # that the wildcards of one line become
_LEAST_NAMES = 50  # that a wildcard counts for: it looks at far more than it becomes
_MOST_LETTERS = 30_000  # that the loops of a line come to: each round is read again
_BLANK = re.compile(r"[ \t]+|(?<=[ \t\n])\\\n|(?<![^ \t\n;|&])#[^\n\\]*(?=\n|$)")
BARE = r"[A-Za-z0-9_./:,@%+=^-]"
# ``@{1}`` is git's, ``{}`` find's: without a comma and dots it is no brace expansion
_LETTERS = re.compile(rf"(?:@\{{[A-Za-z0-9]+\}}|\{{\}}|{BARE})+")
_ESCAPED = re.compile(r"\\([ -~])")  # bash(1), "Escape Character"
# what some language of a house may take for a letter of the name is left out
_VALUE = r"\$(?:\?|[A-Za-z_]\w*+(?![^\x00-\x7f])|\{[A-Za-z_]\w*\})"
_QUOTED = re.compile(rf"""'([^']*)'|"((?:[^"$`\\]|\\[^\n]|{_VALUE})*)\"""", re.ASCII)
# bash(1), "Double Quotes": before every other character a backslash is one
_IN_QUOTES = re.compile(rf"""\\([$`"\\])|({_VALUE})""", re.ASCII)
_LOOPED = re.compile(_VALUE, re.ASCII)
_TOLD = re.compile(rf'(?:"{_VALUE}"|{_VALUE})(?=[ \t\n;|&<>]|$)', re.ASCII)
_UNQUOTED = re.compile(rf"{BARE}+")  # bash(1), "Word Splitting": it stays one word
_STATUS = "?"  # a number, which only who tells it may be given
_HOME = re.compile(r"\$HOME(?=[/ \t\n;|]|$)")
_UNSPLIT = re.compile(r"/[A-Za-z0-9_./-]*")
_END = re.compile(r"[ \t\n;|&]|$")
_WORD_END = " \t\n;|&<>"


class NotPlain(Exception):
    """The line does not lie in the plain language; the text names what does not."""


def no(what: str) -> NoReturn:
    raise NotPlain(what)


class Words:
    """The words of a line, from the left to the right. ``at``: how far it is read. ``cwds``:
    folders it may stand in, the likeliest last. ``listed``: those in which wildcards were looked
    for.
    ``values``: of loops, and whether a wildcard gave it. ``told``: what loops over the output of
    others read. Of the word read last, ``used``: whether wildcards gave the values in it;
    ``handed``: how a name came into it that is only known when the line runs."""

    def __init__(self, text: str, home: str, cwd: str) -> None:
        self.text = text
        self.at = 0
        self.cwds: tuple[str, ...] = (cwd,)
        self.listed: list[str] = []
        self.values: dict[str, tuple[str, bool]] = {}
        self.told: dict[str, Told] = {}
        self.used: set[bool] = set()
        self.handed: Handed | None = None
        self._home = home
        self._left = _MOST_NAMES
        self._letters = _MOST_LETTERS  # that loops may still come to

    def skip(self, *, lines: bool) -> None:
        """Blanks and comments, and with ``lines`` what ends lines."""
        while self.at < len(self.text):
            blank = _BLANK.match(self.text, self.at)
            if blank is not None:
                self.at = blank.end()
            elif lines and self.text[self.at] == "\n":
                self.at += 1
            else:
                return

    def word(self) -> str | list[str]:
        """One word; of one with wildcards the names that they match now, or it alone: the folder in
        which bash looks for names is read."""
        start = self.at
        parts: list[str] = []
        wild = False
        self.used, self.handed = set(), None
        told = _TOLD.match(self.text, start)
        if told is not None and (name := told[0].strip('"${}')) in self.told:
            roots, self.handed = self.told[name]
            if told[0][0] != '"':
                if ANY in roots:
                    no(f"{told[0]} without quotes")
                self.handed = replace(self.handed, split=True)
            self.at = told.end()
            return [*roots]
        while self.at < len(self.text) and self.text[self.at] not in _WORD_END:
            part, is_wild = self._part(first=self.at == start)
            wild |= is_wild
            parts.append(part if is_wild else re.sub(r"[*?\\]", r"\\\g<0>", part))
        raw = self.text[start : self.at]
        if not raw or (raw.isdecimal() and self.text[self.at : self.at + 1] in ("<", ">")):
            no(repr(self.text[start : start + 20]))
        pattern = "".join(parts)
        plain = re.sub(r"\\(.)", r"\1", pattern, flags=re.DOTALL)
        if self.handed is not None and wild:
            no("wildcards beside what is only known when it runs")
        if not wild:
            return plain
        # bash(1), "Pathname Expansion"; a word that nothing matches stays as it is.
        folder, slash, _ = re.split(r"(?<!\\)[*?]", pattern, maxsplit=1)[0].rpartition("/")
        self.listed.append(folder or slash or ".")
        try:
            names = names_of(pattern, self.cwds[-1], self._left)
        except TooWide as why:
            no(str(why))
        self._left -= max(_LEAST_NAMES, len(names))
        return names or [plain]

    def _part(self, *, first: bool) -> tuple[str, bool]:
        """A piece of a word, and whether it is a wildcard."""
        text = self.text
        at = self.at
        if (piece := _LETTERS.match(text, at)) is not None:
            self.at = piece.end()
            return piece[0], False
        if (escaped := _ESCAPED.match(text, at)) is not None:
            self.at = escaped.end()
            return escaped[1], False
        if (quoted := _QUOTED.match(text, at)) is not None:
            self.at = quoted.end()
            single, double = quoted.groups()
            if single is not None:
                return single, False
            return _IN_QUOTES.sub(
                lambda part: part[1] or self._value(part[2].strip("${}")), double
            ), False
        self.at += 1
        char = text[at]
        if char in "*?":
            return char, True
        if char == "~" and not first:
            if text[at - 1] in "=:":
                no("~ behind = or :")  # ``a=~/x`` would be expanded as if it were an assignment
            return "~", False  # ``HEAD~1`` is itself
        if char == "~":
            if text[at + 1 : at + 2] != "/" and not _END.match(text, at + 1):
                no("~ before a name")
            return self._of_home(), False
        if char == "!" or (char == "#" and not first):
            return char, False
        if not char.isascii() and char.isalnum():
            return char, False
        if char in "[]" and first and _END.match(text, self.at):  # a word of its own: test(1)
            return char, False
        return self._variable(at, first=first), False

    def _variable(self, at: int, *, first: bool) -> str:
        """Outside of quotes, where it stays one word."""
        looped = _LOOPED.match(self.text, at)
        name = looped[0].strip("${}") if looped is not None else ""
        if looped is not None and name in (*self.values, *self.told, _STATUS):
            self.at = looped.end()
            value = self._value(name)
            if name == _STATUS:
                return value
            if not _UNQUOTED.fullmatch(value):
                no(f"{looped[0]} without quotes")
            return value
        variable = _HOME.match(self.text, at) if first else None
        if variable is None:
            no(repr(self.text[at]))
        self.at = variable.end()
        return self._of_home()

    def _value(self, name: str) -> str:
        if name == "HOME":
            return self._of_home()
        if name in self.told or name == _STATUS:
            self.handed = Handed()
            return ANY
        if name not in self.values:
            no(f"${name}")
        value, found = self.values[name]
        self.spend(len(value))  # one in the words of the next loop grows with every loop
        self.used.add(found)
        return value

    def _of_home(self) -> str:
        if not _UNSPLIT.fullmatch(self._home):
            no("a home that bash would split")
        return self._home

    def spend(self, letters: int) -> None:
        self._letters -= letters
        if self._letters < 0:
            no(f"loops of more than {_MOST_LETTERS} characters")
