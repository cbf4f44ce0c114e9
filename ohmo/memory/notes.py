"""A note as it stands in its file: who said it where and when, as YAML front matter, then text."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any

from channels.record import record
from ohmo.config.source import parse
from ohmo.contracts.errors import OhmoError

INDEX = "MEMORY.md"
LARGEST = 64 << 10  # bytes of a file that is read
LONGEST = 8_000  # characters that a tool writes into one
_HEAD = re.compile(r"---[ \t]*\n(.*?)^---[ \t]*(?:\n|\Z)", re.DOTALL | re.MULTILINE)
_LINE = re.compile(r"(\w+): +(?:(\".*\"|\[\".*\"\])|([\w(][^#:\"'\n]*?)) *")  # JSON, or plain
_MOST_HEAD = 8 << 10  # characters


class NotRemembered(OhmoError):
    """It is not in memory, or could not be put there; one line."""


@record
class Note:
    """``folder``: of its scope below the memory; ``name``: of its file, without ``.md``. ``at``:
    when it was said, ISO 8601. ``source``: where its words came from when nobody here said them,
    and who accepted them."""

    folder: str
    name: str
    title: str
    text: str
    description: str = ""
    aliases: tuple[str, ...] = ()
    said_by: str = ""
    where: str = ""
    at: str = ""
    source: str = ""

    @property
    def head(self) -> str:
        """What counts twice in a search."""
        return " ".join((self.title, self.description, *self.aliases))

    def provenance(self) -> str:
        """Who said it where and when, in words; empty: nobody knows."""
        known = [self.said_by and f"said by {self.said_by}", self.where and f"in {self.where}"]
        known += [self.at[:10] and f"on {self.at[:10]}", self.source and f"from {self.source}"]
        return ", ".join(part for part in known if part)

    def file(self) -> str:
        """As it is written."""
        fields: dict[str, str | tuple[str, ...]] = {
            "title": self.title,
            "description": self.description,
            "aliases": self.aliases,
            "said_by": self.said_by,
            "where": self.where,
            "at": self.at,
            "source": self.source,
        }
        return front_matter(fields) + self.text.strip() + "\n"


def together(values: Iterable[str]) -> str:
    """Each name that stands in them once, with commas between."""
    parts = (part for value in values for part in value.split(", ") if part)
    return ", ".join(dict.fromkeys(parts))


def front_matter(fields: Mapping[str, str | tuple[str, ...]]) -> str:
    """What is not empty; JSON is YAML."""
    lines: list[str] = []
    for name, value in fields.items():
        if isinstance(value, str) and value:
            lines.append(f"{name}: {json.dumps(value, ensure_ascii=False)}")
        elif value:
            lines.append(f"{name}: {json.dumps(list(value), ensure_ascii=False)}")
    return "\n".join(["---", *lines, "---", "", ""])


def note_of(folder: str, name: str, raw: bytes) -> tuple[Note, str]:
    """Of a file that anybody may have edited, and what is wrong with it ("" for nothing): what
    cannot be read as front matter is text like the rest. Raises NotRemembered: it is no text."""
    try:
        text = raw.decode("utf-8").removeprefix("\ufeff").replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        where = f"byte {error.start}"
        raise NotRemembered(f"it is not UTF-8 at {where}; save it as UTF-8") from None
    fields, text, problem = parted(text)
    first = next((line.strip("# \t") for line in text.splitlines() if line.strip("# \t")), "")
    aliases = fields.get("aliases", ())
    note = Note(
        folder,
        name,
        title=_word(fields, "title") or first[:120] or name,
        text=text.strip(),
        description=_word(fields, "description"),
        aliases=(aliases,) if isinstance(aliases, str) else aliases,
        said_by=_word(fields, "said_by"),
        where=_word(fields, "where"),
        at=_word(fields, "at"),
        source=_word(fields, "source"),
    )
    return note, problem


def parted(text: str) -> tuple[Mapping[str, str | tuple[str, ...]], str, str]:
    """Front matter, what follows it, and what is wrong with it."""
    match = _HEAD.match(text)
    if match is None:
        broken = text.startswith("---\n")
        return {}, text, "its front matter has no end (a line ---)" if broken else ""
    fields = _as_we_write(match[1])  # YAML in general takes a hundred times as long
    if fields is None:
        fields = _as_people_write(match[1])
    if fields is None:
        return {}, text, "its front matter is no YAML of keys and values; it is read as text"
    return fields, text[match.end() :], ""


def _as_we_write(head: str) -> dict[str, str | tuple[str, ...]] | None:
    """None: a person wrote it otherwise."""
    fields: dict[str, str | tuple[str, ...]] = {}
    for line in head.splitlines():
        match = _LINE.fullmatch(line)
        if match is None:
            return None
        try:
            value: Any = json.loads(match[2]) if match[2] else match[3]
        except (ValueError, RecursionError):
            return None
        fields[match[1]] = value if isinstance(value, str) else tuple(map(str, value))
    return fields


def _as_people_write(head: str) -> dict[str, str | tuple[str, ...]] | None:
    """None: it is no YAML of keys and values, or too long."""
    source = parse(head, "") if len(head) <= _MOST_HEAD else None
    if source is None or source.problems:
        return None
    fields: dict[str, str | tuple[str, ...]] = {}
    for name, value in source.data.items():
        try:
            if isinstance(value, list):
                items = [each for each in value[:50] if isinstance(each, str | int)]
                fields[name] = tuple(str(each)[:200] for each in items)
            elif value is not None and not isinstance(value, dict):
                fields[name] = str(value)
        except ValueError:  # a number that Python writes out for nobody
            return None
    return fields


def _word(fields: Mapping[str, str | tuple[str, ...]], name: str) -> str:
    value = fields.get(name, "")
    return " ".join((value if isinstance(value, str) else " ".join(value)).split())[:500]
