"""Text fields that can be handed to the operating system: no NUL, no half characters."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, Field


def _sound(text: str) -> str:
    if "\0" in text:
        raise ValueError("holds a NUL character; leave it out")
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise ValueError(f"holds half a character at {error.start}; give valid text") from error
    return text


def _path(text: str) -> str:
    if not text.strip():
        raise ValueError("is empty; give a path")
    if len(text.encode()) > 4096:  # PATH_MAX
        raise ValueError("is longer than 4096 bytes")
    return text


Sound = Annotated[str, Field(min_length=1), AfterValidator(_sound)]
PathText = Annotated[str, Field(min_length=1), AfterValidator(_sound), AfterValidator(_path)]
