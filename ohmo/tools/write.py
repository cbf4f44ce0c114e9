"""Write: a whole file, in one step."""

from __future__ import annotations

from pathlib import Path

from pydantic import BaseModel, ConfigDict

from channels.text import some
from ohmo.contracts.tool import CallContext, Footprint, ToolOutput
from ohmo.tools.files import MOST, Coding, Opening, decode, encode, replace_file, windows_ends
from ohmo.tools.inputs import PathText, PydanticTool
from ohmo.tools.results import ToolError, absolute_path, change_in_thread, description
from ohmo.tools.workbench import Workbench


class WriteInput(BaseModel):
    model_config = ConfigDict(extra="forbid", title="Write", defer_build=True)
    file_path: PathText
    content: str


class Write(PydanticTool):
    name = "Write"
    input = WriteInput

    def __init__(self, workbench: Workbench) -> None:
        self._bench = workbench
        self._stamps = workbench.stamps
        self.description = description("Write")

    def footprint(self, arguments: WriteInput, cwd: Path) -> Footprint:
        return Footprint(writes=(absolute_path(arguments.file_path, cwd),), effect="once")

    async def run(self, arguments: WriteInput, context: CallContext) -> ToolOutput:
        path = absolute_path(arguments.file_path, context.cwd)
        [target] = context.judged.writes
        opening = self._bench.opening(context)

        def write() -> str:
            content = arguments.content
            did = self._write(opening, target, content, context.thread)
            lines = content.count("\n") + (not content.endswith("\n") and bool(content))
            return f"{did} {path} ({some(lines, 'line')})"

        return await change_in_thread(context, path, write, "nothing was written")

    def _write(self, opening: Opening, path: Path, content: str, thread: str) -> str:
        try:
            data, status = opening.content(path, MOST)
        except FileNotFoundError:
            data, status = b"", None
        if self._stamps.changed(thread, path, status):
            raise ToolError(f"{path} changed since you last read it; Read it again first")
        coding, before = Coding("utf-8"), decode(data)
        if status is not None and before is not None:
            text, coding = before
            if windows_ends(text) and "\r\n" not in content:
                content = content.replace("\n", "\r\n")
        # In the file's own coding where it can say the text, else UTF-8.
        try:
            data = encode(content, coding)
        except UnicodeEncodeError:
            try:
                data = content.encode("utf-8")
            except UnicodeEncodeError as error:  # a lone surrogate
                raise ToolError(
                    f"`content` holds half a character at {error.start}; give valid text"
                ) from error
        self._stamps.remember(thread, path, replace_file(opening, path, data, status))
        return "created" if status is None else "replaced"


TOOL = Write
