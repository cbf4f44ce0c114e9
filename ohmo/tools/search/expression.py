"""Regular expressions that ripgrep and Python read the same way; everything else is refused in the
same words by both."""

from __future__ import annotations

import re

from ohmo.tools.answers import Trouble

_GROUP = re.compile(r"\(\?(?::|P<[A-Za-z_]\w*>|[ims]+(?:-[ims]+)?:)")
_REPEAT = re.compile(r"\{\d{1,4}(?:,\d{0,4})?\}")
_ESCAPE = re.compile(r"\\(?:[dDwWsSbBntrfv]|x[0-9a-fA-F]{2}|[^A-Za-z0-9<>\s]| )")
_NAMES = {"d": "digits", "w": "word characters", "s": "white space"}
_MOST = 10_000


def portable(pattern: str) -> str:
    """The pattern itself. Raises Trouble with what to write instead."""
    if len(pattern) > _MOST:
        raise Trouble(f"`pattern` is longer than {_MOST} characters")
    at, start = 0, True
    while at < len(pattern):
        char = pattern[at]
        if char == "\\":
            at = _escape(pattern, at)
        elif char == "[":
            at = _class(pattern, at)
        elif char == "(":
            at = _group(pattern, at, start)
        elif char == "{":
            at = _repeat(pattern, at)
        elif char in "*+?" and pattern[at + 1 : at + 2] == "+":
            raise _refused("possessive repetition", "leave out the second +")
        elif char in "*+" and pattern[at + 1 : at + 2] == "*":
            raise _refused("a repetition of a repetition", "put the first one in ( )")
        else:
            at += 1
        start = False
    try:
        re.compile(pattern, re.MULTILINE)
    except (re.error, OverflowError) as error:
        raise Trouble(
            f"`pattern` is no regular expression: {error}; escape special characters with \\"
        ) from error
    return pattern


def _refused(what: str, instead: str) -> Trouble:
    return Trouble(f"`pattern`: {what} is not supported; {instead}")


def _escape(pattern: str, at: int) -> int:
    match = _ESCAPE.match(pattern, at)
    if match is None:
        shown = pattern[at : at + 2]
        raise _refused(
            f"{shown} ",
            "only \\d \\w \\s \\b, their capitals, \\n \\t \\r \\f \\v \\xHH and escaped"
            " punctuation are",
        )
    return match.end()


def _class(pattern: str, at: int) -> int:
    at += 1
    if pattern[at : at + 1] == "^":
        at += 1
    first = True
    while at < len(pattern):
        char = pattern[at]
        if char == "]" and not first:
            return at + 1
        if char == "[" or (char == "]" and first):
            raise _refused("a bare bracket inside [ ]", "escape it with \\")
        if pattern[at : at + 2] in ("&&", "--", "~~", "||"):
            raise _refused("set arithmetic inside [ ]", "list the characters")
        if char == "\\":
            if pattern[at + 1 : at + 2] in ("b", "B"):
                raise _refused("\\b inside [ ]", "use \\x08")
            at = _escape(pattern, at)
        else:
            at += 1
        first = False
    raise Trouble("`pattern` is no regular expression: a [ without its ]; escape it with \\[")


def _group(pattern: str, at: int, start: bool) -> int:
    if pattern[at + 1 : at + 2] != "?":
        return at + 1
    if start and (match := re.compile(r"\(\?[ims]+\)").match(pattern, at)):
        return match.end()
    match = _GROUP.match(pattern, at)
    if match is None:
        raise _refused(
            "look-around, back-references, comments and other (?...)",
            "use plain groups ( ), (?: ) or (?i: )",
        )
    return match.end()


def _repeat(pattern: str, at: int) -> int:
    match = _REPEAT.match(pattern, at)
    if match is None:
        raise _refused("a bare {", "escape it with \\{")
    if pattern[match.end() : match.end() + 1] in ("+", "*", "{"):
        raise _refused("a repetition of a repetition", "put the first one in ( )")
    return match.end()
