"""Takes secrets out of what is written down, shown to people or told to the model: values that are
known, and whatever looks like a credential."""

from __future__ import annotations

import re
from binascii import Error as NoBase64
from binascii import a2b_base64
from collections.abc import Callable, Collection
from itertools import pairwise
from typing import Any, cast

from ohmo.logs.searching import Hinted

BLOT = "********"
REDACTED = "[redacted]"  # the same in words that are rendered: asterisks are markup there
# what a credential looks like, whoever wrote it into the line; the source is each issuer's page on
# token formats
_SHAPES = (
    r"-----BEGIN [A-Z0-9 ]*PRIVATE KEY-----.*?(?:-----END [A-Z0-9 ]*PRIVATE KEY-----|\Z)",  # PEM
    r"sk-ant-[\w-]{8,}",  # Anthropic
    r"\bsk-[A-Za-z0-9][\w-]{15,}",  # OpenAI and those who follow it
    r"\b(?:sk|rk|whsec)_(?:live_|test_)?[A-Za-z0-9]{16,}",  # Stripe
    r"\bxox[a-z]-[\w-]{8,}",  # Slack bot, user, refresh
    r"\bxapp-\d-[\w-]{8,}",  # Slack app level
    r"https://hooks\.slack\.com/services/[\w/]+",  # Slack webhook
    r"(?<!\d)\d{6,12}:[A-Za-z0-9_-]{30,}",  # Telegram bot
    r"\b(?:syt|syl|syr|mct|mcr)_[\w=+/-]{8,}",  # Matrix
    r"\b[MNO][\w-]{23,27}\.[\w-]{6}\.[\w-]{27,}",  # Discord
    r"\bgh[pousr]_[A-Za-z0-9]{16,}",  # GitHub
    r"\bgithub_pat_\w{20,}",
    r"\bglpat-[\w-]{16,}",  # GitLab
    # AWS, with the secret part that stands behind it in a table
    r"\b(?:AKIA|ASIA)[0-9A-Z]{16}\b(?:[ \t,;:|]{1,3}[A-Za-z0-9/+]{40}(?![A-Za-z0-9/+]))?",
    r"\bAIza[\w-]{30,}",  # Google API key
    r"\bya29\.[\w-]{16,}",  # Google OAuth
    r"\bhf_[A-Za-z0-9]{16,}",  # Hugging Face
    r"\bnpm_[A-Za-z0-9]{30,}",
    r"\bpypi-[\w-]{16,}",
    r"\b(?:gsk_|xai-)[A-Za-z0-9]{16,}",  # Groq, xAI
    r"\bSG\.[\w-]{16,}\.[\w-]{16,}",  # SendGrid
    r"\bohmo_[\w-]{32,}",  # ours: run/token
    r"\b\d{10}\.[0-9a-f]{16}\.[0-9a-f]{64}\b",  # ours: the cookie of a browser
    r"(?<![\w-])eyJ[\w-]{8,}\.eyJ[\w-]{8,}\.[\w-]*",  # JWT
)
SHAPES = Hinted(
    re.compile("|".join(_SHAPES), re.DOTALL),
    (
        *("-----BEGIN ", "sk-", "sk_", "rk_", "whsec_", "xox", "xapp-", "https://hooks", "syt_"),
        *("syl_", "syr_", "mct_", "mcr_", "gh[pousr]_", "github_pat_", "glpat-", "AKIA", "ASIA"),
        *("AIza", r"ya29\.", "hf_", "npm_", "pypi-", "gsk_", "xai-", r"SG\.", "ohmo_", "eyJ"),
    ),
    (
        (":[A-Za-z0-9_-]{30}", 6, 12),
        (r"\.[\w-]{6}\.[\w-]{27}", 24, 28),
        (r"\.[0-9a-f]{16}\.[0-9a-f]{64}", 10, 10),
    ),
)
IN_CONTEXT = Hinted(
    re.compile(  # the word before it gives it away; that word stays
        r"(?P<before>\b(?:Bearer|Basic)\s+(?!Info)"
        r"|[?&](?:access_token|token|api_?key|key|code|secret|password)=)[^\s&@\"']{4,}"
        r"|(?P<user>://[^/\s:@]*:)[^/\s@]+(?=@)",
        re.IGNORECASE,
    ),
    (r"bearer\s", r"basic\s", r"\?[a-z_]{3,12}=", "&[a-z_]{3,12}=", "://"),
)
_PRIVATE_FIELD = re.compile(
    r"(?:^|_)(?:token|password|secret|api_?key|authorization|cookie)$", re.IGNORECASE
)
# bidirectional controls reorder what a person reads; control characters command terminals; lone
# surrogates cannot be written
_UNSAFE = re.compile(
    "[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff"
    "\ud800-\udfff]"
)
_SHORTEST_SECRET = 6
_SHORTEST_IN_WORDS = 8  # what is shorter may be a word that people use
_PLACES = "next page forward sync lock client request idempotency publickey"
# a token that keeps a place, or tells two requests apart, opens nothing
_TOKEN = "".join(f"(?<!{word})(?<!{word}[_-])" for word in _PLACES.split()) + "token"
_KEYS = ("api", "access", "account", "private", "signing", "encryption", "master")
_OTHERS = (
    *("passw(?:or)?d", "passphrase", "pwd", "credentials?"),
    "secret(?:[ _-]?access)?(?:[ _-]?key)?(?:_base)?",
    *(f"{what}[ _-]?key" for what in _KEYS),
)
_NAMES = "|".join((_TOKEN, *_OTHERS))
_BEHIND = r"""(?:\\{0,3}["'`]?[ \t]{0,4}[:=>]|[ \t]{1,4}is[ \t])"""
NAMED = Hinted(
    re.compile(
        rf"""(?P<option>--(?:[a-z0-9]{{1,20}}-){{0,3}})?(?<!:)(?P<name>{_NAMES})
    (?P<between>\\{{0,3}}["'`]?[ \t]{{0,4}}(?::=|=>|[=:](?![=:])|>)[ \t]{{0,4}}
      |[ \t]{{1,4}}is[ \t]{{1,4}}|(?(option)[ \t]{{1,4}}|(?!)))
    (?P<quote>\\{{0,3}}["'`])?
    (?P<value>(?(quote)[^"'`\n\\]{{1,200}}|[^\s"'`,;&<>(){{}}\[\]|\\]{{1,200}}))""",
        re.IGNORECASE | re.VERBOSE,
    ),
    (
        *(f"{name}{_BEHIND}" for name in ("token", *_OTHERS)),
        f"--(?:[a-z0-9]{{1,20}}-){{0,3}}(?:{'|'.join(('token', *_OTHERS))})",
    ),
)
_QUOTED, _BARE = re.compile(r"[^\"'`\n\\]*"), re.compile(r"[^\s\"'`,;&<>(){}\[\]|\\]*")
PLACED = Hinted(
    re.compile(  # what is a secret by its place; ``a`` stays
        r"(?P<a>\b(?P<scheme>Bearer|Basic|Token|ApiKey)[ \t]{1,4})"  # RFC 6750
        r"(?P<value>[A-Za-z0-9_.~+/=-]{8,})"
        r"|(?P<dsn>://[^/\s:@\"']{0,200}:)(?P<word>[^/\s@\"'`]{1,200})(?=@)"  # RFC 3986, 3.2.1
        r"|(?P<netrc>\blogin[ \t]{1,9}\S{1,99}[ \t]{1,9}password[ \t]{1,9})(?P<pass>\S+)"
        r"|(?P<curl>(?:-u|--user)[ =][\"']?[^\s:\"']{1,99}:)(?P<of>[^\s\"':]{6,})"
        r"|(?P<link>/login\?code=|[?&]sig=)(?P<code>[\w%+/-]{16,})",  # ours; Azure's signature
        re.IGNORECASE,
    ),
    (
        *(rf"{scheme}[ \t]" for scheme in ("bearer", "basic", "token", "apikey")),
        *("://", r"login[ \t]", "-u[ =]", "--user[ =]", r"/login\?code=", r"\?sig=", "&sig="),
    ),
)
COOKIES = Hinted(
    re.compile(r"(\bcookie[\"']?[ \t]{0,4}:[ \t]{0,4}[\"']?)([^\n\"']+)", re.IGNORECASE),
    ("cookie",),
)
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

# Nothing above is in these, and no sign that goes: most keys and identifiers of a line are such.
PLAIN = re.compile(r"[a-z0-9]*|[a-z0-9_]{1,11}")


class Redactor:
    """Blots out secrets. ``secrets``: the values known at this moment."""

    def __init__(self, secrets: Callable[[], Collection[str]] = frozenset) -> None:
        self._secrets = secrets
        self._known: frozenset[str] = frozenset()
        self._literal: re.Pattern[str] | None = None

    def text(self, text: str) -> str:
        """The text without secrets, control and bidirectional characters (tab and line feed
        stay)."""
        known = frozenset(value for value in self._secrets() if len(value) >= _SHORTEST_SECRET)
        if known != self._known:
            self._known = known
            longest_first = sorted(known, key=len, reverse=True)
            self._literal = re.compile("|".join(map(re.escape, longest_first))) if known else None
        if self._literal is not None:
            text = self._literal.sub(BLOT, text)
        if PLAIN.fullmatch(text):
            return text
        text = SHAPES.sub(lambda _: BLOT, _UNSAFE.sub("\N{REPLACEMENT CHARACTER}", text))
        text = IN_CONTEXT.sub(lambda match: f"{match['before'] or match['user']}{BLOT}", text)
        return without_assigned(text, BLOT)

    def words(self, text: str) -> str:
        """What people or the model will read: known values, the shapes of tokens
        and what is assigned to a secret's name are taken out, everything else stays as it is."""
        for value in sorted(self._secrets(), key=len, reverse=True):
            if len(value) >= _SHORTEST_IN_WORDS and value in text:
                text = text.replace(value, REDACTED)
        return without_assigned(SHAPES.sub(lambda _: REDACTED, text), REDACTED)

    def value(self, value: Any, field: str = "") -> Any:
        """The same for everything inside lists and mappings."""
        if isinstance(value, str):
            return BLOT if value and _PRIVATE_FIELD.search(field) else self.text(value)
        if isinstance(value, dict):
            items = cast("dict[Any, Any]", value).items()
            return {self.text(str(key)): self.value(item, str(key)) for key, item in items}
        if isinstance(value, list):
            return [self.value(item, field) for item in cast("list[Any]", value)]
        return value


def without_assigned(text: str, blot: str) -> str:
    """The text with ``blot`` in place of each secret that what stands before it gives away:
    ``password=…``, a cookie, a DSN's password. Doing it again changes nothing.

    A value is taken out when it is written out and looks drawn, not said: what names, calls or
    looks up a secret stays as it is. Every search is bounded, so that the time grows with the
    text."""

    def cookie(found: re.Match[str]) -> str:
        name, value = found.groups()
        drawn = _has_mixture(value, 6) and not _ELSEWHERE.match(value)
        return f"{name}={blot}" if drawn and name.lower() not in _ATTRIBUTES else found[0]

    def placed(found: re.Match[str]) -> str:
        groups = [group for group in found.groups() if group is not None]
        return f"{groups[0]}{blot}" if _is_in_place(found, groups[-1]) else found[0]

    text = COOKIES.sub(lambda found: found[1] + _COOKIE.sub(cookie, found[2]), text)
    text = PLACED.sub(placed, text)
    parts: list[str] = []
    kept = at = 0
    for start in NAMED.starts(text):
        if start < at or (found := NAMED.pattern.match(text, start)) is None:
            continue
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
        if scheme == "basic":  # RFC 7617: base64 of ``user:password``
            try:
                return b":" in a2b_base64(value + "=" * (-len(value) % 4))
            except NoBase64:
                return False
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
    kinds = [
        (char.islower(), char.isupper(), char.isdigit()) for char in value if char not in "_-./"
    ]
    changes = sum(one != other for one, other in pairwise(kinds))
    least = 0.45 if value.isalpha() else 0.33
    return changes >= least * len(kinds) and any(map(str.isalpha, value))
