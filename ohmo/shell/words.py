"""The syntax tree of a shell command, and its words evaluated as far as that is possible without
running anything."""

from __future__ import annotations

import itertools
import pwd
import re
from collections.abc import Callable, Iterator, Sequence

from tree_sitter import Node

from ohmo.shell.misread import Unread
from ohmo.shell.patterns import ANY, SOME
from ohmo.shell.scope import MOST, Scope

_OPEN = "\ue010"
_COMMA = "\ue011"
_CLOSE = "\ue012"
_SPLIT = "\ue013"
_TILDE = "\ue014"
_SET = "\ue015"
_TES = "\ue016"
_SETS = re.compile("\ue015[^\ue015\ue016/]+\ue016")
PRIVATE = re.compile("[\ue000-\uf8ff]")
_MARKS = {"*": SOME, "?": SOME, "[": _SET, "]": _TES, "{": _OPEN, ",": _COMMA, "}": _CLOSE}
_WILD = {mark: _MARKS[mark] for mark in "*?[]"}
_LONGEST = 100_000  # characters of one word: what doubles itself stops here
_PLAIN = re.compile(r"[A-Za-z0-9_./:%@+=-]*")
_WORD = re.compile(r"(?:\\.|[^\s\\;|&()<>\"'`])*", re.DOTALL)  # outside quotes
_RANGE = re.compile(r"[^\ue010\ue011\ue012]*\.\.[^\ue010\ue011\ue012]*")
_ANSI = re.compile(
    r"\\(x[0-9a-fA-F]{1,2}|u[0-9a-fA-F]{1,4}|U[0-9a-fA-F]{1,8}|[0-7]{1,3}|c.|.)", re.DOTALL
)
_ANSI_LETTERS = {
    "a": "\a",
    "b": "\b",
    "e": "\x1b",
    "E": "\x1b",
    "f": "\f",
    "n": "\n",
    "r": "\r",
    "t": "\t",
    "v": "\v",
}


Inside = Callable[[Node, Scope], tuple[str, ...]]
"""Judges the commands of a substitution and says what its output may be."""


class Words:
    """``inside`` is called for every command or process substitution met on the way."""

    def __init__(self, inside: Inside) -> None:
        self._inside = inside

    def fields(self, node: Node, scope: Scope) -> list[str]:
        """The arguments a word becomes: none, one or several."""
        if node.type == "command_name":
            node = node.children[0]
        if node.type in ("word", "number"):
            text = _text(node)
            if _PLAIN.fullmatch(text):
                return [text]
        return self._fields_of(self._raw(node, scope), scope)

    def _fields_of(self, raws: tuple[str, ...], scope: Scope) -> list[str]:
        fields: list[str] = []
        for raw in raws:
            # Unquoted ``{a,b}`` become alternatives; ``{1..9}`` something unknown inside one
            # component.
            words = [ANY]
            if raw.count(_OPEN) <= MOST:
                alternatives = list(itertools.islice(_alternatives(raw), MOST + 1))
                if len(alternatives) <= MOST:
                    words = alternatives
            for word in words:
                pieces = filter(None, word.split(_SPLIT)) if _SPLIT in word else (word,)
                fields += [_finished(piece, scope) for piece in pieces]
        return fields if len(fields) <= MOST * 16 else [ANY]

    def single(self, node: Node, scope: Scope) -> tuple[str, ...]:
        """Possible values without splitting: what an assignment or a redirection makes of a
        word."""
        values: list[str] = []
        if node.type == "array":
            for child in node.named_children:
                values += self.fields(child, scope)
            return tuple(values) or ("",)
        for raw in self._raw(node, scope, _as_it_is):
            values.append(_finished(raw, scope))
        return tuple(dict.fromkeys(values))

    def choices(self, node: Node, scope: Scope) -> list[list[str]]:
        """The arguments a word becomes, for each value it may have."""
        if node.type == "command_name":
            node = node.children[0]
        raws = self._raw(node, scope)
        return [self._fields_of((raw,), scope) for raw in raws]

    def _raw(
        self, node: Node, scope: Scope, split: Callable[[str], str] | None = None
    ) -> tuple[str, ...]:
        """Alternatives, unquoted specials still marked. ``split``: what becomes of a value."""
        split = split or _splittable
        match node.type:
            case (
                "word"
                | "number"
                | "brace_expression"
                | "special_variable_name"
                | "variable_name"
                | "test_operator"
                | "command_name"
            ):
                if node.type == "command_name" and node.named_child_count:
                    return self._raw(node.named_children[0], scope, split)
                return (_unquoted(_text(node)),)
            case "raw_string":
                return (_text(node)[1:-1],)
            case "ansi_c_string":
                return (_ANSI.sub(_ansi_character, _text(node)[2:-1]),)
            case "string" | "translated_string":
                return self._string(node, scope)
            case "concatenation":
                return _product([self._raw(child, scope, split) for child in node.children])
            case "simple_expansion":
                return tuple(map(split, scope.value(_text(node)[1:])))
            case "command_substitution":
                return tuple(split(value.rstrip("\n")) for value in self._inside(node, scope))
            case "process_substitution":
                self._inside(node, scope)
                return ("/dev/null",)
            case "arithmetic_expansion":
                self.visit(node, scope)
                return (SOME,)
            case "expansion":
                self.visit(node, scope)
                text = _text(node)
                if not re.fullmatch(r"\$\{\w+\}", text):
                    return (ANY,)
                return tuple(map(split, scope.value(text[2:-1])))
            case "$":
                return ("$",)
            case _:
                self.visit(node, scope)
                return (ANY,)

    def visit(self, node: Node, scope: Scope) -> None:
        """Finds substitutions below a node whose own value nobody needs."""
        for child in node.children:
            if child.type in ("command_substitution", "process_substitution"):
                self._inside(child, scope)
            else:
                self.visit(child, scope)

    def _string(self, node: Node, scope: Scope) -> tuple[str, ...]:
        text = node.text or b""
        start = node.start_byte
        at = text.index(b'"') + 1
        parts: list[tuple[str, ...]] = []
        for child in node.children:
            if child.type in ('"', "string_content", "$"):
                continue
            before = text[at : child.start_byte - start].decode("utf-8", "replace")
            parts.append((_double_quoted(before),))
            parts.append(self._raw(child, scope, _as_it_is))
            at = child.end_byte - start
        parts.append((_double_quoted(text[at:-1].decode("utf-8", "replace")),))
        return _product(parts)


def _text(node: Node) -> str:
    return (node.text or b"").decode("utf-8", "replace")


def _splittable(value: str) -> str:
    """Outside quotes: blanks end a word, nothing is none, wildcards count."""
    marked = "".join(_WILD.get(char, char) for char in value)
    return re.sub(r"[ \t\n]+", _SPLIT, marked) or _SPLIT


def _as_it_is(value: str) -> str:
    return value


def _product(parts: list[tuple[str, ...]]) -> tuple[str, ...]:
    count = 1
    for part in parts:
        count *= max(1, len(part))
    if count > MOST or sum(len(part[0]) for part in parts if part) > _LONGEST:
        return (ANY,)
    return tuple("".join(pieces) for pieces in itertools.product(*parts))


def _unquoted(text: str) -> str:
    """Marks what the shell treats specially outside quotes. Raises Unread."""
    if _WORD.fullmatch(text) is None:
        raise Unread("the shell grammar takes for a word what is none")
    out: list[str] = []
    at = 0
    if text.startswith("~"):
        out.append(_TILDE)
        at = 1
    while at < len(text):
        char = text[at]
        if char == "\\":
            at += 1
            out.append("" if text[at : at + 1] == "\n" else text[at : at + 1])
        elif char in ":=" and text[at + 1 : at + 2] == "~":
            out.append(char + _TILDE)
            at += 1
        else:
            out.append(_MARKS.get(char, char))
        at += 1
    return "".join(out)


def _double_quoted(text: str) -> str:
    return re.sub(r'\\([\\"$`\n])', lambda match: "" if match[1] == "\n" else match[1], text)


def _ansi_character(escape: re.Match[str]) -> str:
    word = escape[1]
    if word[0] in "xuU" and len(word) > 1:
        number = int(word[1:], 16)
        return chr(number) if number <= 0x10FFFF else ANY
    if word[0] in "01234567":
        return chr(int(word, 8) & 0xFF)
    return ANY if word[0] == "c" else _ANSI_LETTERS.get(word, word)


def _alternatives(word: str) -> Iterator[str]:
    if _OPEN not in word:
        yield word.replace(_COMMA, ",").replace(_CLOSE, "}")
        return
    depth = 0
    start = -1
    cuts: list[int] = []
    for at, char in enumerate(word):
        if char == _OPEN:
            depth += 1
            if depth == 1:
                start = at
                cuts = [at]
        elif char == _COMMA and depth == 1:
            cuts.append(at)
        elif char == _CLOSE and depth:
            depth -= 1
            if depth == 0:
                inner = [word[a + 1 : b] for a, b in itertools.pairwise([*cuts, at])]
                if len(inner) == 1:
                    inner = [SOME if _RANGE.fullmatch(inner[0]) else "{" + inner[0] + "}"]
                for each in inner:
                    yield from _alternatives(word[:start] + each + word[at + 1 :])
                return
    yield from _alternatives(word.replace(_OPEN, "{", 1))


def _finished(word: str, scope: Scope) -> str:
    """Tilde, and marks that turned out to mean nothing."""
    if _TILDE in word:
        form = f"{_TILDE}(\\+|[A-Za-z0-9_.-]*)"
        word = re.sub(form, lambda match: _home_of(match[1], scope), word)
    if _SET in word or _TES in word:
        word = _SETS.sub(SOME, word).replace(_SET, "[").replace(_TES, "]")
    return word.replace(_OPEN, "{").replace(_COMMA, ",").replace(_CLOSE, "}")


def _home_of(user: str, scope: Scope) -> str:
    if not user:
        homes = scope.value("HOME")
        return homes[0] if len(homes) == 1 else ANY
    if user == "-":
        return ANY
    if user == "+":
        here = len(scope.cwds) == 1 and "PWD" not in scope.variables
        return scope.cwds[0] if here else ANY
    try:
        return pwd.getpwnam(user).pw_dir
    except KeyError:
        return "~" + user


def lines_of(choices: Sequence[Sequence[Sequence[str]]]) -> Iterator[tuple[str, ...]]:
    """The words of a command for all values that each of them may have. Of too many ones all
    values stand side by side, which says what it touches, but not which program runs."""
    lines = list(itertools.islice(itertools.product(*choices), MOST + 1))
    if len(lines) <= MOST:
        for line in lines:
            yield tuple(itertools.chain(*line))
        return
    yield tuple(word for each in choices for choice in each for word in choice)
    if any(len(each) > 1 for each in choices[:2]):
        yield (ANY,)
