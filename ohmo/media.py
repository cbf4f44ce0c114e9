"""Where a person's files lie once a turn needed them: below the folder of the place where they were
sent one for each attachment, its name decided by what it is, not by when it came."""

from __future__ import annotations

import re
from pathlib import Path

from channels.contract import Address, Attachment
from ohmo.ambient import derived

_UNSAFE = re.compile(r"[^\w.\- ]+")
PICTURES = frozenset(
    {"image/png", "image/jpeg", "image/gif", "image/webp"}
)  # what both model wires accept


def media_folder(place: Address) -> str:
    """The name of the folder of a place: the turns of its conversations may read it, no others."""
    return derived("media", place.channel, place.account, place.chat, place.topic or "")


class Media:
    """Pure paths under ``root`` (0700)."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def path(self, address: Address, attachment: Attachment) -> Path:
        """The same attachment always has the same path, so a step may name it before it is
        fetched."""
        own = derived("attachment", attachment.ref)
        return self.root / media_folder(address) / own / safe_name(attachment.name)


def safe_name(name: str) -> str:
    """A file name without folders, control characters or leading dots; at most 120 characters, its
    suffix kept."""
    flat = _UNSAFE.sub("_", name.replace("\\", "/").rsplit("/", 1)[-1]).strip(" .") or "file"
    if len(flat) <= 120:
        return flat
    stem, dot, suffix = flat.rpartition(".")
    return f"{stem[: 110 - len(suffix)]}.{suffix}" if dot and len(suffix) < 16 else flat[:120]


def is_picture(attachment: Attachment) -> bool:
    """Whether the model can look at it."""
    return attachment.media_type.partition(";")[0].strip().lower() in PICTURES
