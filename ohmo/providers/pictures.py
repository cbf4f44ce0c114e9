"""Reads images from disk, off the event loop, before they are written into a request."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Sequence
from pathlib import Path

from ohmo.contracts.messages import Image

# What the first characters of base64 say a picture is. A platform may announce every picture as
# PNG; both model services refuse a wrong name.
_TRUE_TYPES = {
    "/9j/": "image/jpeg",
    "iVBORw": "image/png",
    "R0lGOD": "image/gif",
    "UklGR": "image/webp",
}


def true_type(data: str, announced: str) -> str:
    """The media type of a base64 picture by its own first bytes, else as announced."""
    return next((kind for head, kind in _TRUE_TYPES.items() if data.startswith(head)), announced)


async def read(images: Sequence[Image]) -> dict[Path, str | None]:
    """Base64 by path; None where the file cannot be read any more."""
    return (
        await asyncio.to_thread(lambda: {image.path: _encoded(image.path) for image in images})
        if images
        else {}
    )


def _encoded(path: Path) -> str | None:
    try:
        return base64.b64encode(path.read_bytes()).decode("ascii")
    except OSError:
        return None
