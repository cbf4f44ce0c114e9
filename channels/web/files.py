"""Files of the browser chat, up and down, kept under random names in the channel's private
folder."""

from __future__ import annotations

import asyncio
import hashlib
import os
import re
import secrets
import shutil
from collections.abc import AsyncIterator
from pathlib import Path

from channels.durable import settle, take_place
from channels.errors import Rejected

_NAME = re.compile(r"[0-9a-f]{32}")
_BLOCK = 1 << 20


class Shelf:
    """One folder of files; names are ours, so that nobody can reach outside it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)

    def path(self, name: str) -> Path | None:
        """The file under this name; None when there is none."""
        if not _NAME.fullmatch(name):
            return None
        path = self._folder / name
        return path if path.is_file() else None

    async def receive(self, blocks: AsyncIterator[bytes], limit: int) -> tuple[str, int]:
        """Write what comes; returns its name and size. Raises Rejected past ``limit`` bytes; an
        unfinished file is never seen."""
        name, size = secrets.token_hex(16), 0
        unfinished = self._folder / f".{name}"
        try:
            with await asyncio.to_thread(unfinished.open, "xb") as file:
                async for block in blocks:
                    size += len(block)
                    if size > limit:
                        raise Rejected(f"the file is larger than {limit} bytes; send a smaller one")
                    await asyncio.to_thread(file.write, block)
                await asyncio.to_thread(settle, file)
            await asyncio.to_thread(take_place, unfinished, self._folder / name)
        finally:
            unfinished.unlink(missing_ok=True)
        return name, size

    async def keep(self, source: Path, limit: int) -> str:
        """A copy of a local file under the hash of its bytes: keeping it again changes nothing.
        Raises Rejected."""
        return await asyncio.to_thread(self._keep, source, limit)

    def _keep(self, source: Path, limit: int) -> str:
        unfinished = self._folder / f".{secrets.token_hex(16)}"
        try:
            with source.open("rb") as original, unfinished.open("xb") as copy:
                if os.fstat(original.fileno()).st_size > limit:
                    raise Rejected(
                        f"{source.name} is larger than {limit} bytes (channels.web.max_file)"
                    )
                digest = hashlib.sha256()
                while block := original.read(_BLOCK):
                    digest.update(block)
                    copy.write(block)
                settle(copy)
            name = digest.hexdigest()[:32]
            take_place(unfinished, self._folder / name)
        except OSError as error:
            raise Rejected(f"{source.name} cannot be sent: {error.strerror or error}") from error
        finally:
            unfinished.unlink(missing_ok=True)
        return name

    async def copy_out(self, name: str, target: Path, limit: int) -> None:
        """Raises Rejected when the file is gone or larger than ``limit`` bytes."""
        path = self.path(name)
        if path is None:
            raise Rejected(f"the file {target.name} is not here any more; send it again")
        if path.stat().st_size > limit:
            raise Rejected(f"{target.name} is larger than {limit} bytes")
        await asyncio.to_thread(shutil.copyfile, path, target)


def plain_name(name: str) -> str:
    """A file name without folders, control characters or leading dots; never empty."""
    last = re.split(r"[\\/]", name)[-1]
    return "".join(c for c in last if c.isprintable()).strip().lstrip(".")[:120] or "file"
