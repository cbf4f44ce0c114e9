"""Edit: replaces one exact piece of a text file, in one step."""

from __future__ import annotations

from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field

from ohmo.contracts.tool import CallContext, Footprint, ToolOutput
from ohmo.tools.files import rewrite, windows_ends
from ohmo.tools.inputs import PathText, PydanticTool
from ohmo.tools.results import ToolError, absolute_path, change_in_thread, description
from ohmo.tools.workbench import Workbench


class EditInput(BaseModel):
    model_config = ConfigDict(extra="forbid", title="Edit", defer_build=True)
    file_path: PathText
    old_string: str = Field(min_length=1)
    new_string: str
    replace_all: bool = False


class Edit(PydanticTool):
    name = "Edit"
    input = EditInput

    def __init__(self, workbench: Workbench) -> None:
        self._bench = workbench
        self._stamps = workbench.stamps
        self.description = description("Edit")

    def footprint(self, arguments: EditInput, cwd: Path) -> Footprint:
        path = absolute_path(arguments.file_path, cwd)
        return Footprint(reads=(path,), writes=(path,), effect="once")

    async def run(self, arguments: EditInput, context: CallContext) -> ToolOutput:
        path = absolute_path(arguments.file_path, context.cwd)
        return await change_in_thread(
            context, path, lambda: self._edit(path, arguments, context), "nothing was changed"
        )

    def _edit(self, path: Path, arguments: EditInput, context: CallContext) -> str:
        summary = ""

        def change(text: str) -> str:
            nonlocal summary
            after, count = replaced(
                text, arguments.old_string, arguments.new_string, every=arguments.replace_all
            )
            start = text.find(arguments.old_string.split("\n")[0])
            line = text[:start].count("\n") + 1
            summary = f"{path}: replaced 1 place at line {line}"
            if count > 1:
                summary = f"{path}: replaced {count} places"
            return after

        [target] = context.judged.writes
        rewrite(target, self._bench.opening(context), self._stamps, context.thread, change)
        return summary


def replaced(text: str, old: str, new: str, *, every: bool) -> tuple[str, int]:
    """The new text and how many places changed. In a file with Windows line ends, plain line ends
    in ``old`` mean those. Raises ToolError."""
    if windows_ends(text) and "\r\n" not in old:
        old = old.replace("\n", "\r\n")
        new = new if "\r\n" in new else new.replace("\n", "\r\n")
    if old == new:
        raise ToolError("`old_string` and `new_string` are the same")
    count = text.count(old)
    if count == 0:
        raise ToolError("`old_string` is not in the file" + _near(text, old))
    if count > 1 and not every:
        lines: list[str] = []
        at = text.find(old)
        while at >= 0 and len(lines) < 8:
            lines.append(str(text.count("\n", 0, at) + 1))
            at = text.find(old, at + len(old))
        if at >= 0:
            lines.append("...")
        raise ToolError(
            f"`old_string` is there {count} times (lines {', '.join(lines)}); give more of its"
            " surroundings, or replace_all=true"
        )
    return text.replace(old, new), count


def _near(text: str, old: str) -> str:
    """Says when only the white space differs."""
    squeezed = " ".join(old.split())
    if not squeezed:
        return ""
    if squeezed in " ".join(text.split()):
        return (
            "; it is there with other spaces, tabs or line ends: Read the place and copy it exactly"
        )
    first = old.strip().splitlines()[0].strip()
    for number, line in enumerate(text.splitlines(), 1):
        if first and first in line:
            return f"; its first line is at line {number}, what follows differs: Read the place"
    return "; Read the file and copy the place exactly"


TOOL = Edit
