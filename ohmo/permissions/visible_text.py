"""Which characters a person reads for what they are; all others are written out (``\\u202e``)."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import groupby

_CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f]")
# What shows nothing and yet is a letter, a mark or a symbol by its category: those that are
# Default_Ignorable_Code_Point (Unicode, DerivedCoreProperties); blank patterns, fillers, and what
# stands for an object that is not there.
_BLANK = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180d\u180f\u3164\ufe00-\ufe0f\uffa0"
    "\U000e0100-\U000e01ef\u2800\ufffc\U00013441\U00013442\U00016fe4\U0001d159]"
)
_MOST_MARKS = 4  # on one letter, and none twice in a row (UTS 39, 5.4)
_OVERLAY = 1  # canonical combining class of marks that cross a letter out
# Scripts, as the names of their letters begin. Apart: nothing in them looks like an ASCII letter,
# and they stand beside such letters in a word. Today: what people write (UAX 31, table 5).
_APART = re.compile(r"(?:CJK|HIRAGANA|KATAKANA|KATAKANA-HIRAGANA|HANGUL|BOPOMOFO|IDEOGRAPHIC) ")
_TODAY = re.compile(
    _APART.pattern + r"|(?:GREEK|CYRILLIC|ARMENIAN|GEORGIAN|HEBREW|ARABIC|THAANA|DEVANAGARI|BENGALI"
    r"|GURMUKHI|GUJARATI|ORIYA|TAMIL|TELUGU|KANNADA|MALAYALAM|SINHALA|THAI|LAO|TIBETAN|MYANMAR"
    r"|ETHIOPIC|KHMER) "
)
_NONE = re.compile(r"(?!)")
# Of Cyrillic, Greek and Armenian, which have words that look like ASCII from end to end.
_LIKE_LETTERS = frozenset(
    "асԁеһіјӏорԛѕхуԝѵАВЕЅІЈКМНОРСТХУӀԚԜѴοανρυικγϲϳΑΒΕΖΗΙΚΜΝΟΡΤΥΧϹͿօոսհցյքԼՏՍՕ"
)
_LIKE_SIGNS = frozenset("‐‑‒–−⁄∕⧸․｡∶꞉ǃǀ‘’‛′ʹʼ“”″‚‹›∣∖⧵⁎∗∼")


def visible(text: str, *, exact: bool = False) -> str:
    """``text`` with what nobody sees, or takes for something else, written out.

    That is: controls but line feed and tab, formats, surrogates, private and unassigned code
    points, all that is Default_Ignorable, every space but U+0020; marks on no letter, or too many
    on one; and in a word that has ASCII letters, letters of scripts that look like them. ``exact``:
    of a command, a path or an address also whole words and signs that look like ASCII."""
    if text.isascii():
        return _CONTROLS.sub(lambda found: _written(found[0]), text)
    return "".join(_pieces(text, exact=exact))


def _pieces(text: str, *, exact: bool) -> Iterator[str]:
    before = " "
    for kind, run in groupby(text, _kind):
        characters = list(run)
        if kind == "word":
            yield from _word(characters, exact=exact)
        elif kind == "hidden":
            yield from map(_written, characters)
        else:
            wide = unicodedata.east_asian_width(before) == "W"  # then fullwidth signs are its own
            for one in characters:
                yield _written(one) if exact and not wide and _like_sign(one) else one
        before = characters[-1]


def _written(character: str) -> str:
    return character.encode("unicode_escape", "surrogatepass").decode()


@lru_cache(maxsize=4096)
def _kind(character: str) -> str:
    category = unicodedata.category(character)[0]
    if character in " \n\t":
        return "sign"
    if category in "CZ" or _BLANK.match(character):
        return "hidden"
    return "word" if category in "LMN" else "sign"


def _word(characters: Sequence[str], *, exact: bool) -> Iterator[str]:
    """Letters, digits and their marks."""
    letters = [one for one in characters if unicodedata.category(one)[0] == "L"]
    scripts: re.Pattern[str] | None = None
    if any(one.isascii() for one in letters):
        scripts = _APART
    elif exact:
        scripts = _NONE if all(one in _LIKE_LETTERS for one in letters) else _TODAY
    letter, marks = "", list[str]()
    for one in characters:
        if unicodedata.category(one)[0] == "M":
            # What follows would stand on the escape.
            letter = letter if _may_stand(one, marks) else ""
            yield one if letter else _written(one)
            marks.append(one)
        else:
            letter, marks = one, []
            known = one.isascii() or scripts is None or _is_of(one, scripts)
            yield one if known else _written(one)


def _may_stand(mark: str, below: Sequence[str]) -> bool:
    """On a letter that bears ``below`` already."""
    if unicodedata.category(mark) == "Me" or unicodedata.combining(mark) == _OVERLAY:
        return False
    return mark not in below[-1:] and len(below) < _MOST_MARKS


@lru_cache(maxsize=4096)
def _is_of(letter: str, scripts: re.Pattern[str]) -> bool:
    """Whether a letter or digit is of these scripts, or one of ASCII's with a mark, or of the two
    Latin blocks behind it."""
    kind = unicodedata.category(letter)
    if kind in ("Lu", "Ll", "Lt", "Nl", "Nd") and unicodedata.normalize("NFKC", letter).isascii():
        return False  # another form of the same letter: fullwidth, mathematical, a Roman numeral
    if letter <= "\u017f":
        return letter not in "ıĸ"
    name = unicodedata.name(letter, "")
    if name.startswith("LATIN "):
        return unicodedata.normalize("NFD", letter)[0].isascii()
    return kind == "No" or scripts.match(name) is not None


@lru_cache(maxsize=4096)
def _like_sign(sign: str) -> bool:
    folded = unicodedata.normalize("NFKC", sign)
    return sign in _LIKE_SIGNS or (not sign.isascii() and len(folded) == 1 and folded.isascii())
