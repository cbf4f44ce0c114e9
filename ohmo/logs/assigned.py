"""Secrets that what stands before them gives away: ``password=…``, a cookie, a DSN's password.

A value is taken out when it is written out and looks drawn, not said: what names, calls or looks
up a secret stays as it is. Every search is bounded, so that the time grows with the text."""

from __future__ import annotations

import re
from binascii import Error as NoBase64
from binascii import a2b_base64
from itertools import pairwise

_PLACES = "next page forward sync lock client request idempotency publickey"
# a token that keeps a place, or tells two requests apart, opens nothing
_TOKEN = "".join(f"(?<!{word})(?<!{word}[_-])" for word in _PLACES.split()) + "token"
_NAMES = (
    rf"{_TOKEN}|passw(?:or)?d|passphrase|pwd|credentials?"
    r"|secret(?:[ _-]?access)?(?:[ _-]?key)?(?:_base)?"
    r"|(?:api|access|account|private|signing|encryption|master)[ _-]?key"
)
_NAMED = re.compile(
    rf"""(?P<option>--(?:[a-z0-9]{{1,20}}-){{0,3}})?(?<!:)(?P<name>{_NAMES})
    (?P<between>\\{{0,3}}["'`]?[ \t]{{0,4}}(?::=|=>|[=:](?![=:])|>)[ \t]{{0,4}}
      |[ \t]{{1,4}}is[ \t]{{1,4}}|(?(option)[ \t]{{1,4}}|(?!)))
    (?P<quote>\\{{0,3}}["'`])?
    (?P<value>(?(quote)[^"'`\n\\]{{1,200}}|[^\s"'`,;&<>(){{}}\[\]|\\]{{1,200}}))""",
    re.IGNORECASE | re.VERBOSE,
)
_QUOTED, _BARE = re.compile(r"[^\"'`\n\\]*"), re.compile(r"[^\s\"'`,;&<>(){}\[\]|\\]*")
_PLACED = re.compile(  # what is a secret by its place; ``a`` stays
    r"(?P<a>\b(?P<scheme>Bearer|Basic|Token|ApiKey)[ \t]{1,4})"  # RFC 6750
    r"(?P<value>[A-Za-z0-9_.~+/=-]{8,})"
    r"|(?P<dsn>://[^/\s:@\"']{0,200}:)(?P<word>[^/\s@\"'`]{1,200})(?=@)"  # RFC 3986, 3.2.1
    r"|(?P<netrc>\blogin[ \t]{1,9}\S{1,99}[ \t]{1,9}password[ \t]{1,9})(?P<pass>\S+)"
    r"|(?P<curl>(?:-u|--user)[ =][\"']?[^\s:\"']{1,99}:)(?P<of>[^\s\"':]{6,})"
    r"|(?P<link>/login\?code=|[?&]sig=)(?P<code>[\w%+/-]{16,})",  # ours; Azure's shared signature
    re.IGNORECASE,
)
_COOKIES = re.compile(r"(\bcookie[\"']?[ \t]{0,4}:[ \t]{0,4}[\"']?)([^\n\"']+)", re.IGNORECASE)
_COOKIE = re.compile(r"([^\s=;]{1,99})=([^;\s\\]+)")
_ATTRIBUTES = frozenset(("expires", "path", "domain", "max-age", "samesite"))  # RFC 6265, 4.1.1
_ELSEWHERE = re.compile(  # a reference, a template, a path, a version, a time: not the thing itself
    r"[$%{<*@(\[]|(?:env|file|keyring|vault|op|arn|ssm|gcp|cmd|exec):|!\w+$|\.{0,2}/|~"
    r"|[\^~<>=v]*\d{1,9}(?:\.[\w*-]+)+$|\d{4}-\d\d-\d\d"
)
_STAND_IN = re.compile(
    r"(?:your|my|the|user|db)?[_-]?(?:pass(?:w(?:or)?d)?|pwd?|secret|token|key|x+|\.+)",
    re.IGNORECASE,
)
_WORDS = re.compile(r"(?:[A-Za-z]++\d{0,4}+){1,2}+(?:[ _.:/-]+(?:[A-Za-z]++\d{0,4}+){1,2}+)*+")
_DOTTED = re.compile(r"[A-Za-z_]\w*+(?:\.[A-Za-z_]\w*+)++")
_TERM = re.compile(  # a variable or an algorithm, not a value
    r"pass|pwd?\d|secret|token|key|user|input|val|arg|str|u?int|float"
    r"|sha|md5|base|utf|oauth|[ehr]s\d",
    re.IGNORECASE,
)
_HEX = re.compile(r"[0-9a-f-]{16,}", re.IGNORECASE)


def without_assigned(text: str, blot: str) -> str:
    """The text with ``blot`` in place of each such value; doing it again changes nothing."""

    def cookie(found: re.Match[str]) -> str:
        name, value = found.groups()
        drawn = _has_mixture(value, 6) and not _ELSEWHERE.match(value)
        return f"{name}={blot}" if drawn and name.lower() not in _ATTRIBUTES else found[0]

    def placed(found: re.Match[str]) -> str:
        groups = [group for group in found.groups() if group is not None]
        return f"{groups[0]}{blot}" if _is_in_place(found, groups[-1]) else found[0]

    text = _COOKIES.sub(lambda found: found[1] + _COOKIE.sub(cookie, found[2]), text)
    text = _PLACED.sub(placed, text)
    parts: list[str] = []
    kept = at = 0
    while (found := _NAMED.search(text, at)) is not None:
        at = found.start("value")
        if _is_drawn(found, text, found["value"].replace(blot, "")[:64]):
            rest = (_QUOTED if found["quote"] else _BARE).match(text, found.end())
            parts += (text[kept:at], blot)
            kept = at = found.end() if rest is None else rest.end()
    return "".join((*parts, text[kept:])) if parts else text


def _is_in_place(found: re.Match[str], value: str) -> bool:
    if _ELSEWHERE.match(value):
        return False
    if found["scheme"] is not None:
        scheme = found["scheme"].lower()
        if scheme == "basic":
            return _is_pair(value)
        return _is_random(value) or (scheme == "bearer" and _has_mixture(value, 8))
    if found["dsn"] is not None:
        return not _STAND_IN.fullmatch(value)
    return found["link"] is not None or _has_mixture(value, 6)


def _is_drawn(found: re.Match[str], text: str, value: str) -> bool:
    """Whether the value of a name is a secret itself."""
    next_one = text[found.end() : found.end() + 1]
    bare = found["quote"] is None
    if bare and (next_one in ("(", "[", "{") or _DOTTED.fullmatch(value)):
        return False
    if _is_random(value):
        return len(value) >= 40 or not _ELSEWHERE.match(value)
    tight = found["between"].endswith("=") or found["option"] is not None
    if _ELSEWHERE.match(value) or " " in value:
        return False
    word = found["name"].lower().startswith(("pass", "pwd"))
    said = "is" in found["between"].lower()
    if said and not (word and value.isalnum()):
        return False
    after = " \t\n\r\"'`&;" if tight else "\n\r\"'`<"
    if bare and not word and next_one and next_one not in after:
        return False
    if value.isdecimal():
        return word and len(value) >= 6
    said_only = not value.isalnum() or (bare and not word and not tight) or _TERM.match(value)
    if _WORDS.fullmatch(value) and said_only:
        return False
    return _has_mixture(value, 6 if word else 10)


def _has_mixture(value: str, least: int) -> bool:
    """Letters with digits, or with what is neither."""
    if len(value) < least or not any(map(str.isalpha, value)):
        return False
    return any(not (char.isalpha() or char in "_-. :/") for char in value)


def _is_random(value: str) -> bool:
    """Kinds of characters change far more often than in words put together."""
    if _HEX.fullmatch(value):
        return any(map(str.isdigit, value)) and any(map(str.isalpha, value))
    if len(value) < 12 or not value.isascii() or " " in value or "://" in value:
        return False
    kinds = [_kind(char) for char in value if char not in "_-./"]
    changes = sum(one != other for one, other in pairwise(kinds))
    least = 0.45 if value.isalpha() else 0.33
    return changes >= least * len(kinds) and any(map(str.isalpha, value))


def _kind(char: str) -> int:
    return 0 if char.islower() else 1 if char.isupper() else 2 if char.isdigit() else 3


def _is_pair(value: str) -> bool:
    """RFC 7617: base64 of ``user:password``."""
    try:
        return b":" in a2b_base64(value + "=" * (-len(value) % 4))
    except NoBase64:
        return False
