"""Read: some lines of a text file, a piece of a long line, or an image."""

from __future__ import annotations

import os
from contextlib import suppress
from io import BytesIO
from pathlib import Path
from typing import BinaryIO

from pydantic import BaseModel, ConfigDict, Field

from ohmo.contracts.messages import Image
from ohmo.contracts.tool import CallContext, Footprint, ToolOutput
from ohmo.tools.files import PEEK, Coding, Opening, Window, coding_of, read_lines, read_piece
from ohmo.tools.inputs import PathText, PydanticTool
from ohmo.tools.notebook_edit import Notebook
from ohmo.tools.results import (
    ToolError,
    absolute_path,
    description,
    error_result,
    in_thread,
    os_message,
    text_result,
)
from ohmo.tools.workbench import Workbench

_NOTEBOOK = 50 << 20  # bytes of one that is shown as cells
_IMAGES = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
)


class ReadInput(BaseModel):
    model_config = ConfigDict(extra="forbid", title="Read", defer_build=True)
    file_path: PathText
    offset: int = Field(default=1, ge=0, description="first line, from 1")
    limit: int | None = Field(default=None, ge=1, description="number of lines")
    char_offset: int | None = Field(
        default=None, ge=0, description="start inside the line `offset`, for very long lines"
    )


def image_type(start: bytes) -> str | None:
    """By magic number: PNG, JPEG, GIF, WebP."""
    if start[:4] == b"RIFF" and start[8:12] == b"WEBP":
        return "image/webp"
    return next((kind for magic, kind in _IMAGES if start.startswith(magic)), None)


class Read(PydanticTool):
    name = "Read"
    input = ReadInput

    def __init__(self, workbench: Workbench) -> None:
        self._bench = workbench
        self._limits = workbench.limits
        self._stamps = workbench.stamps
        self.description = description(
            "Read", lines=self._limits.read_lines, chars=self._limits.line_chars
        )

    def footprint(self, arguments: ReadInput, cwd: Path) -> Footprint:
        return Footprint(reads=(absolute_path(arguments.file_path, cwd),), effect="none")

    async def run(self, arguments: ReadInput, context: CallContext) -> ToolOutput:
        named = absolute_path(arguments.file_path, context.cwd)
        [path] = context.judged.reads
        opening = self._bench.opening(context)

        def read() -> tuple[str, tuple[Image, ...]]:
            with opening.file(path) as file:
                return self._read(file, path, arguments, context)

        try:
            text, images = await in_thread(read)
        except ToolError as error:
            return error_result(context, str(error))
        except FileNotFoundError:
            return error_result(
                context, await in_thread(lambda: _missing(named, path, opening, context.cwd))
            )
        except OSError as error:
            return error_result(context, os_message(error, named))
        return text_result(context, text, images=images)

    def _read(
        self, file: BinaryIO, path: Path, arguments: ReadInput, context: CallContext
    ) -> tuple[str, tuple[Image, ...]]:
        status = os.fstat(file.fileno())
        start = file.read(PEEK)
        kind = image_type(start)
        if kind is not None:
            most = self._limits.image_bytes
            data = start + file.read(most)
            if len(data) > most:
                raise ToolError(f"{path}: the image has more than {most} bytes; make it smaller")
            # a copy for the model: it is shown the picture with every request, whatever stands at
            # its path then
            copy = self._bench.keep(f"{context.thread}/seen", context.call, path.name, data)
            return f"[{kind}, {status.st_size} bytes]", (Image(copy, kind),)
        coding = coding_of(start, whole=len(start) == status.st_size)
        if coding is None:
            raise ToolError(
                f"{path} is binary ({status.st_size} bytes); use Bash with file, strings or xxd to"
                " look into it"
            )
        self._stamps.remember(context.thread, path, status)
        line = max(1, arguments.offset)
        if path.suffix == ".ipynb" and status.st_size <= _NOTEBOOK:
            with suppress(ToolError):  # what is none is shown as the text it is
                file.seek(0)
                cells = Notebook(file.read(_NOTEBOOK).decode("utf-8-sig", "replace")).shown()
                file = BytesIO(cells.encode("utf-8", "replace"))
                coding = Coding("utf-8")
        if arguments.char_offset is not None:
            return read_piece(file, coding, line, arguments.char_offset), ()
        limit = min(arguments.limit or self._limits.read_lines, self._limits.read_lines)
        return (
            read_lines(
                file, coding, Window(line, limit, self._limits.line_chars, self._limits.read_output)
            ),
            (),
        )


def _missing(path: Path, judged: Path, opening: Opening, cwd: Path) -> str:
    """Names a neighbour that the model may have meant."""
    try:
        with opening.listed(judged.parent) as folder:
            names = os.listdir(folder)  # noqa: PTH208
        near = [name for name in names if Path(name).stem.casefold() == path.stem.casefold()][:3]
    except (OSError, ToolError):
        return f"{path}: no such file, and no such folder (the working directory is {cwd})"
    return f"{path}: no such file" + (
        f"; there is {', '.join(sorted(near))}" if near else f" (the working directory is {cwd})"
    )


TOOL = Read
