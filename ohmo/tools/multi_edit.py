"""MultiEdit: replaces several exact pieces of one text file, all of them or none."""

from __future__ import annotations

from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field

from ohmo.contracts.tool import CallContext, Footprint, ToolOutput
from ohmo.tools.edit import replaced
from ohmo.tools.files import rewrite
from ohmo.tools.inputs import PathText, PydanticTool
from ohmo.tools.results import ToolError, absolute_path, change_in_thread, description
from ohmo.tools.workbench import Workbench


class Change(BaseModel):
    model_config = ConfigDict(extra="forbid", title="MultiEdit", defer_build=True)
    old_string: str = Field(min_length=1)
    new_string: str
    replace_all: bool = False


class MultiEditInput(BaseModel):
    model_config = ConfigDict(extra="forbid", title="MultiEdit", defer_build=True)
    file_path: PathText
    edits: list[Change] = Field(min_length=1, max_length=100)


class MultiEdit(PydanticTool):
    name = "MultiEdit"
    input = MultiEditInput

    def __init__(self, workbench: Workbench) -> None:
        self._bench = workbench
        self._stamps = workbench.stamps
        self.description = description("MultiEdit")

    def footprint(self, arguments: MultiEditInput, cwd: Path) -> Footprint:
        path = absolute_path(arguments.file_path, cwd)
        return Footprint(reads=(path,), writes=(path,), effect="once")

    async def run(self, arguments: MultiEditInput, context: CallContext) -> ToolOutput:
        path = absolute_path(arguments.file_path, context.cwd)
        return await change_in_thread(
            context, path, lambda: self._edit(path, arguments, context), "nothing was changed"
        )

    def _edit(self, path: Path, arguments: MultiEditInput, context: CallContext) -> str:
        places = 0

        def change(text: str) -> str:
            nonlocal places
            for number, edit in enumerate(arguments.edits):
                try:
                    text, count = replaced(
                        text, edit.old_string, edit.new_string, every=edit.replace_all
                    )
                except ToolError as error:
                    raise ToolError(f"`edits.{number}`: {error}") from error
                places += count
            return text

        [target] = context.judged.writes
        rewrite(target, self._bench.opening(context), self._stamps, context.thread, change)
        return f"{path}: {len(arguments.edits)} edits, {places} places replaced"


TOOL = MultiEdit
