"""Read: some lines of a text file, a piece of a long line, or an image."""

from __future__ import annotations

import os
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field

from ohmo.contracts.messages import Image
from ohmo.contracts.tool import CallContext, Footprint, ToolOutput
from ohmo.tools.answers import Trouble, description, failed, in_thread, located, os_words, said
from ohmo.tools.files.opening import opened
from ohmo.tools.files.pieces import Window, read_lines, read_piece
from ohmo.tools.files.text import PEEK, coding_of
from ohmo.tools.inputs import PathText
from ohmo.tools.workbench import Workbench

_IMAGES = ((b"\x89PNG\r\n\x1a\n", "image/png"), (b"\xff\xd8\xff", "image/jpeg"), (b"GIF87a", "image/gif"), (b"GIF89a", "image/gif"))


class ReadInput(BaseModel):
    model_config = ConfigDict(extra="forbid", title="Read", defer_build=True)
    file_path: PathText
    offset: int = Field(default=1, ge=0, description="first line, from 1")
    limit: int | None = Field(default=None, ge=1, description="number of lines")
    char_offset: int | None = Field(default=None, ge=0, description="start inside the line `offset`, for very long lines")


def image_type(start: bytes) -> str | None:
    """By magic number: PNG, JPEG, GIF, WebP."""
    if start[:4] == b"RIFF" and start[8:12] == b"WEBP":
        return "image/webp"
    return next((kind for magic, kind in _IMAGES if start.startswith(magic)), None)


class Read:
    name = "Read"
    input = ReadInput

    def __init__(self, workbench: Workbench) -> None:
        self._limits, self._stamps = workbench.limits, workbench.stamps
        self.description = description("Read", lines=self._limits.read_lines, chars=self._limits.line_chars)

    def footprint(self, arguments: ReadInput, cwd: Path) -> Footprint:
        return Footprint(reads=(located(arguments.file_path, cwd),), effect="none")

    async def run(self, arguments: ReadInput, context: CallContext) -> ToolOutput:
        path = located(arguments.file_path, context.cwd)
        try:
            text, images = await in_thread(lambda: self._read(path, arguments, context.thread))
        except Trouble as trouble:
            return failed(context, str(trouble))
        except OSError as error:
            return failed(context, _missing(path, context.cwd) if isinstance(error, FileNotFoundError) else os_words(error, path))
        return said(context, text, images=images)

    def _read(self, path: Path, arguments: ReadInput, thread: str) -> tuple[str, tuple[Image, ...]]:
        with opened(path) as file:
            status = os.fstat(file.fileno())
            start = file.read(PEEK)
        kind = image_type(start)
        if kind is not None:
            if status.st_size > self._limits.image_bytes:
                raise Trouble(
                    f"{path}: the image has {status.st_size} bytes, at most {self._limits.image_bytes} can be shown; make it smaller"
                )
            return f"[{kind}, {status.st_size} bytes]", (Image(path.resolve(), kind),)
        coding = coding_of(start, whole=len(start) == status.st_size)
        if coding is None:
            raise Trouble(f"{path} is binary ({status.st_size} bytes); use Bash with file, strings or xxd to look into it")
        self._stamps.remember(thread, Path(os.path.realpath(path)))
        line = max(1, arguments.offset)
        if arguments.char_offset is not None:
            return read_piece(path, coding, line, arguments.char_offset), ()
        limit = min(arguments.limit or self._limits.read_lines, self._limits.read_lines)
        return read_lines(path, coding, Window(line, limit, self._limits.line_chars, self._limits.read_output)), ()


def _missing(path: Path, cwd: Path) -> str:
    """Names a neighbour that the model may have meant."""
    try:
        near = [entry.name for entry in path.parent.iterdir() if entry.stem.casefold() == path.stem.casefold()][:3]
    except OSError:
        return f"{path}: no such file, and no such folder (the working directory is {cwd})"
    return f"{path}: no such file" + (f"; there is {', '.join(sorted(near))}" if near else f" (the working directory is {cwd})")


TOOL = Read
