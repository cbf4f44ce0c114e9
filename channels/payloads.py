"""Reading what a platform sent. A field that is not what its documentation says is named, not
guessed; what cannot be read is kept aside, and the connection goes on; what strangers typed is
cleaned of what hides, turns round or breaks it."""

from __future__ import annotations

import json
import logging
import re
import unicodedata
from dataclasses import fields, is_dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any, TypeVar, cast
from zlib import crc32

from channels.contract import Said
from channels.errors import NotReady

FILES = 100  # malformed frames that are kept, the newest ones
SIZE = 4096  # bytes of each

log = logging.getLogger(__name__)

Body = dict[str, Any]


class Malformed(Exception):
    """A payload is not what the platform's documentation says; the text names the field."""


def text_of(body: Body, name: str, default: str | None = None) -> str:
    """``default``: for a field that is missing or null; None: it must be there. Raises
    Malformed."""
    value = body.get(name, default)
    if value is None and default is not None:
        return default
    if not isinstance(value, str):
        raise Malformed(f"{name} is {type(value).__name__}, not a text")
    return value


def first_text(body: Body, *names: str) -> str:
    """The first of these fields that holds words, "" for none. Raises Malformed."""
    texts = (text_of(body, name, "") for name in names)
    return next(filter(None, texts), "")


def body_of(body: Body, name: str, default: Body | None = None) -> Body:
    """The object in a field. ``default``: for one that is missing or null; None: it must be there.
    Raises Malformed."""
    value = body.get(name)
    if value is None and default is not None:
        return default
    if not isinstance(value, dict):
        raise Malformed(f"{name} is {type(value).__name__}, not an object")
    return cast("Body", value)


def soft(body: Body, name: str) -> Body:
    """For questions asked before a payload is judged: whatever is not an object is an empty one."""
    value = body.get(name)
    return cast("Body", value) if isinstance(value, dict) else {}


def bodies_of(body: Body, name: str) -> list[Body]:
    """The objects of a list; what else is in it is passed over, and no list is an empty one. Raises
    Malformed: it is something else."""
    value = body.get(name)
    if value is None:
        return []
    if not isinstance(value, list):
        raise Malformed(f"{name} is {type(value).__name__}, not a list")
    return [cast("Body", item) for item in cast("list[object]", value) if isinstance(item, dict)]


class Garbled(NotReady):
    """The platform answered something that cannot be read; ``body`` is what it was."""

    def __init__(self, text: str, body: object) -> None:
        super().__init__(text)
        self.body = body


class Quarantine:
    """A folder (made when it is first needed) of the newest malformed frames; ``count`` is how many
    there were."""

    def __init__(self, folder: Path, title: str = "") -> None:
        """``title``: of the platform, for the log."""
        self.count = 0
        self._folder = folder
        self._title = title

    def pass_over(self, what: str, frame: object, name: str = "") -> None:
        """Keeps the frame and logs ``what`` it was."""
        self.keep(frame, name)
        log.warning(
            "%s: %s (%d so far); it was skipped, the connection goes on",
            self._title,
            what,
            self.count,
        )

    def keep(self, frame: object, name: str = "") -> None:
        """``frame`` as it came: text, bytes or decoded JSON. Frames of one ``name`` (or, without
        any, equal ones) are kept once.

        A full disk is logged and no worry of the channel."""
        self.count += 1
        try:
            text = frame if isinstance(frame, str | bytes) else json.dumps(frame, default=repr)
        except (ValueError, RecursionError) as error:
            text = f"cannot be written down: {error}"
        head = text[:SIZE]
        if isinstance(head, str):
            head = head.encode("utf-8", "backslashreplace")[:SIZE]
        try:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            stem = re.sub(r"[^A-Za-z0-9-]", "_", name)[-80:] or f"frame-{crc32(head):08x}"
            path = self._folder / f"{stem}.txt"
            path.write_bytes(head)
            path.chmod(0o600)
            kept = sorted(self._folder.iterdir(), key=lambda file: file.stat().st_mtime_ns)
            for file in kept[:-FILES]:
                file.unlink(missing_ok=True)
        except OSError as error:
            log.warning("%s: a malformed frame could not be kept: %s", self._folder, error.strerror)


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
        better = tuple(map(_cleaned, items))
        is_clean = all(new is old for new, old in zip(better, items, strict=True))
        return items if is_clean else better
    changed: dict[str, Any] = {}
    for name in _fields(type(value)):
        old = getattr(value, name)
        new = _cleaned(old)
        if new is not old:
            changed[name] = new
    # Nearly always clean: then nothing is made anew.
    return replace(cast("Said", value), **changed) if changed else value


@cache
def _fields(kind: type) -> tuple[str, ...]:
    """Of a data class; anything else has none."""
    return tuple(field.name for field in fields(kind)) if is_dataclass(kind) else ()


def _needed_joiner(run: re.Match[str]) -> str:
    start, end = run.span()
    before = run.string[max(0, start - 1) : start]
    after = run.string[end : end + 1]
    if not _joins(before):
        return ""
    is_virama = unicodedata.combining(before) == 9
    return run.group()[0] if is_virama or _joins(after) else ""


def _joins(character: str) -> bool:
    if character == "":
        return False
    category = unicodedata.category(character)
    return category[0] in "LM" or category in {"So", "Sk"}
