"""The bytes of an attachment: not begun when too many are announced, and never left half there."""

from __future__ import annotations

import re
from collections.abc import AsyncIterable, Awaitable
from pathlib import Path
from typing import Protocol

from channels.contract import Attachment
from channels.errors import Rejected


class Download(Protocol):
    def __call__(self, path: Path, limit: int, /) -> Awaitable[object]: ...


def plain_name(attachment: Attachment) -> str:
    """Its name as that of a file inside a folder: without folders, leading dots and control
    characters, at most 80 characters."""
    return re.sub(r"[\x00-\x1f/\\]", "_", Path(attachment.name).name).lstrip(".")[-80:] or "file"


async def downloaded(
    title: str, attachment: Attachment, path: Path, limit: int, download: Download
) -> Path:
    """``path``, once ``download`` has written it. ``title``: of the platform; ``limit``: bytes.

    Raises Rejected for a file that is announced as larger, and whatever ``download`` raises, also
    when it is cancelled: nothing is left of it then."""
    if (attachment.size or 0) > limit:
        raise Rejected(
            f"{title}: the file has {attachment.size} bytes, at most {limit} are fetched"
        )
    whole = False
    try:
        await download(path, limit)
        whole = True
    finally:
        if not whole:
            path.unlink(missing_ok=True)  # noqa: ASYNC240 - must also happen when cancelled
    return path


async def save(title: str, chunks: AsyncIterable[bytes], path: Path, limit: int) -> None:
    """What a platform sends of a file. ``title``: of the platform. Raises Rejected past ``limit``
    bytes."""
    taken = 0
    with path.open("wb") as out:
        async for chunk in chunks:
            taken += len(chunk)
            if taken > limit:
                raise Rejected(f"{title}: the file has more than {limit} bytes")
            out.write(chunk)
