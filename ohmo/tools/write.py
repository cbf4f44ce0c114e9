"""Write: a whole file, in one step."""

from __future__ import annotations

import os
from pathlib import Path

from pydantic import BaseModel, ConfigDict

from ohmo.contracts.tool import CallContext, Footprint, ToolOutput
from ohmo.tools.answers import Trouble, description, in_one_step, located
from ohmo.tools.files.opening import content as content_of
from ohmo.tools.files.replace import replace_file
from ohmo.tools.files.rewriting import MOST
from ohmo.tools.files.text import Coding, decode, encode, windows_ends
from ohmo.tools.inputs import PathText
from ohmo.tools.workbench import Workbench


class WriteInput(BaseModel):
    model_config = ConfigDict(extra="forbid", title="Write", defer_build=True)
    file_path: PathText
    content: str


class Write:
    name = "Write"
    input = WriteInput

    def __init__(self, workbench: Workbench) -> None:
        self._stamps = workbench.stamps
        self.description = description("Write")

    def footprint(self, arguments: WriteInput, cwd: Path) -> Footprint:
        return Footprint(writes=(located(arguments.file_path, cwd),), effect="once")

    async def run(self, arguments: WriteInput, context: CallContext) -> ToolOutput:
        path = located(arguments.file_path, context.cwd)
        return await in_one_step(context, path, lambda: self._write(path, arguments.content, context.thread), "nothing was written")

    def _write(self, path: Path, content: str, thread: str) -> str:
        target = Path(os.path.realpath(path))
        if target.is_dir():
            raise Trouble(f"{path} is a folder")
        if self._stamps.changed(thread, target):
            raise Trouble(f"{path} changed since you last read it; Read it again first")
        coding, existed = Coding("utf-8"), target.exists()
        if existed:
            before = decode(content_of(target, MOST))
            if before is not None:
                text, coding = before
                if windows_ends(text) and "\r\n" not in content:
                    content = content.replace("\n", "\r\n")
        data = _bytes(content, coding)
        replace_file(target, data)
        self._stamps.remember(thread, target)
        lines = content.count("\n") + (not content.endswith("\n") and bool(content))
        return f"{'replaced' if existed else 'created'} {path} ({lines} line{'' if lines == 1 else 's'})"


def _bytes(content: str, coding: Coding) -> bytes:
    """In the file's own coding where it can say the text, else UTF-8; lone surrogates are refused."""
    try:
        return encode(content, coding)
    except UnicodeEncodeError:
        try:
            return content.encode("utf-8")
        except UnicodeEncodeError as error:
            raise Trouble(f"`content` holds half a character at {error.start}; give valid text") from error


TOOL = Write
