"""What a platform sent and nobody could read: its head is kept for whoever looks into it, and the
connection goes on."""

from __future__ import annotations

import json
import logging
import re
from pathlib import Path
from zlib import crc32

from channels.errors import NotReady

FILES = 100  # the newest ones
SIZE = 4096  # bytes of each

log = logging.getLogger("channels.quarantine")


class Garbled(NotReady):
    """The platform answered something that cannot be read; ``body`` is what it was."""

    def __init__(self, text: str, body: object) -> None:
        super().__init__(text)
        self.body = body


class Quarantine:
    """A folder (made when it is first needed) of the newest malformed frames; ``count`` is how many
    there were."""

    def __init__(self, folder: Path) -> None:
        self.count = 0
        self._folder = folder

    def keep(self, frame: object, name: str = "") -> None:
        """``frame`` as it came: text, bytes or decoded JSON. Frames of one ``name`` (or, without
        any, equal ones) are kept once.

        A full disk is logged and no worry of the channel."""
        self.count += 1
        head = _head(frame)
        try:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            path = (
                self._folder
                / f"{re.sub(r'[^A-Za-z0-9-]', '_', name)[-80:] or f'frame-{crc32(head):08x}'}.txt"
            )
            path.write_bytes(head)
            path.chmod(0o600)
            kept = sorted(self._folder.iterdir(), key=lambda one: one.stat().st_mtime_ns)
            for old in kept[:-FILES]:
                old.unlink(missing_ok=True)
        except OSError as error:
            log.warning("%s: a malformed frame could not be kept: %s", self._folder, error.strerror)


def _head(frame: object) -> bytes:
    if isinstance(frame, bytes):
        return frame[:SIZE]
    try:
        text = frame[:SIZE] if isinstance(frame, str) else json.dumps(frame, default=repr)
    except (ValueError, RecursionError) as error:
        text = f"cannot be written down: {error}"
    return text.encode("utf-8", "backslashreplace")[:SIZE]
