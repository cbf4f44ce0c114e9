"""Text as the index reads it: without case and marks, every Han, kana or Hangul sign a word of its
own; and the question that is put to the index for what somebody said."""

from __future__ import annotations

import re
import unicodedata

_SIGN = (
    "\u2e80-\u2fdf\u3005-\u3007\u3041-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff"
    "\uac00-\ud7a3\uf900-\ufaff\U00020000-\U0003ffff"
)
_WORD = re.compile(rf"[{_SIGN}]|[^\W_{_SIGN}]+")
_PLAIN = str.maketrans("đøłı", "doli")  # letters that have no mark to lose
_MOST_WORDS = 48  # of one question
# Words that say nothing about what is meant; where others are said, these are not looked for.
_LITTLE = """
    a about am an and any are as at
    be been but by
    can could
    did do does
    for from
    had has have he hello her him his how
    i if in into is it its
    me my
    no not
    of ok okay on or our
    please
    she should so some
    tell thanks that the their them then there they this to
    us
    was we were what when where which who why will with would
    yes you your
"""
SAYS_LITTLE = frozenset(_LITTLE.split())


def fold(text: str) -> str:
    """Words with a space between them; done again it changes nothing."""
    return " ".join(match[0] for match in _WORD.finditer(_plain(text)))


def _plain(text: str) -> str:
    decomposed = unicodedata.normalize("NFKD", unicodedata.normalize("NFKD", text).casefold())
    bare = "".join(sign for sign in decomposed if not unicodedata.combining(sign))
    return unicodedata.normalize("NFC", bare).translate(_PLAIN)


def question(text: str, *, loose: bool = True) -> str:
    """For FTS5's MATCH; empty when nothing of ``text`` can be looked for. Signs that stand together
    are looked for in pairs. ``loose``: also single ones, and words that say little; without it
    what is found is meant."""
    plain = _plain(text)
    terms: dict[str, None] = {}
    singles: dict[str, None] = {}
    before: re.Match[str] | None = None
    for match in _WORD.finditer(plain):
        word = match[0]
        if not re.match(f"[{_SIGN}]", word):
            (singles if word in SAYS_LITTLE else terms)[f'"{word}"'] = None
            before = None
            continue
        singles[f'"{word}"'] = None
        if before is not None and before.end() == match.start():
            terms[f'"{before[0]} {word}"'] = None
        before = match
    if loose:
        terms |= singles
    return " OR ".join(list(terms)[:_MOST_WORDS])
