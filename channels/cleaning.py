"""What strangers typed, without what hides, turns round or breaks it."""

from __future__ import annotations

import re
import unicodedata
from dataclasses import fields, is_dataclass, replace
from functools import cache
from typing import TypeVar, cast

from channels.contract import Said

# Spec: Unicode Bidirectional Algorithm (UAX 9), explicit formatting characters; Unicode block Tags;
# code points of category Cs.
_REMOVED = re.compile("[\x00\u202a-\u202e\u2066-\u2069\U000e0000-\U000e007f\ud800-\udfff]")
_PAIR = re.compile("[\ud800-\udbff][\udc00-\udfff]")
_JOINERS = re.compile("[\u200c\u200d]+")


def clean(text: str) -> str:
    """Takes out what only deceives or breaks: NUL, lone surrogates, bidirectional overrides, tag
    characters, stray joiners.

    Two halves of a surrogate pair become the character they stand for. Zero-width joiners and
    non-joiners stay where a script or an emoji needs them: after a letter, mark or emoji and before
    another, or after a virama. Everything else stays as it is."""
    if text.isascii() and "\0" not in text:
        return text
    text = _PAIR.sub(
        lambda pair: pair.group().encode("utf-16", "surrogatepass").decode("utf-16"), text
    )
    text = _REMOVED.sub("", text)
    return _JOINERS.sub(_needed_joiner, text)


Heard = TypeVar("Heard", bound=Said)


def cleaned(said: Heard) -> Heard:
    """An arrival with every text in it clean: names, media types, references and emoji were typed
    by strangers, too."""
    return cast("Heard", _cleaned(said))


def _cleaned(value: object) -> object:
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, tuple):
        items = cast("tuple[object, ...]", value)
        better = tuple(_cleaned(item) for item in items)
        return (
            better if any(new is not old for new, old in zip(better, items, strict=True)) else items
        )
    changed = {
        name: new
        for name in _fields(type(value))
        if (new := _cleaned(old := getattr(value, name))) is not old
    }
    return (
        replace(cast("Said", value), **changed) if changed else value
    )  # nearly always clean: then nothing is made anew


@cache
def _fields(kind: type) -> tuple[str, ...]:
    """Of a data class; anything else has none."""
    return tuple(field.name for field in fields(kind)) if is_dataclass(kind) else ()


def _needed_joiner(run: re.Match[str]) -> str:
    before = run.string[run.start() - 1 : run.start()] if run.start() else ""
    after = run.string[run.end() : run.end() + 1]
    if not _joins(before):
        return ""
    return run.group()[0] if _joins(after) or unicodedata.combining(before) == 9 else ""


def _joins(character: str) -> bool:
    return character != "" and (
        unicodedata.category(character)[0] in "LM"
        or unicodedata.category(character) in {"So", "Sk"}
    )
