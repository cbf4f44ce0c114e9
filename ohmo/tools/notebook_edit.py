"""NotebookEdit: replaces, inserts or deletes one cell of a notebook, in one step."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from ohmo.contracts.tool import CallContext, Footprint, ToolOutput
from ohmo.tools.files import rewrite
from ohmo.tools.inputs import PathText, PydanticTool, SafeText
from ohmo.tools.notebooks import CellType, Notebook, new_id
from ohmo.tools.results import ToolError, absolute_path, change_in_thread, description
from ohmo.tools.workbench import Workbench


class NotebookEditInput(BaseModel):
    model_config = ConfigDict(extra="forbid", title="NotebookEdit", defer_build=True)
    notebook_path: PathText
    cell_id: SafeText | None = None
    cell_number: int | None = Field(default=None, ge=0, description="from 0")
    new_source: str | None = None
    cell_type: CellType | None = None
    edit_mode: Literal["replace", "insert", "delete"] = Field(
        default="replace", description="insert: behind the cell; without one at the start"
    )


class NotebookEdit(PydanticTool):
    name = "NotebookEdit"
    input = NotebookEditInput

    def __init__(self, workbench: Workbench) -> None:
        self._bench = workbench
        self._stamps = workbench.stamps
        self.description = description("NotebookEdit")

    def footprint(self, arguments: NotebookEditInput, cwd: Path) -> Footprint:
        path = absolute_path(arguments.notebook_path, cwd)
        return Footprint(reads=(path,), writes=(path,), effect="once")

    async def run(self, arguments: NotebookEditInput, context: CallContext) -> ToolOutput:
        path = absolute_path(arguments.notebook_path, context.cwd)
        return await change_in_thread(
            context, path, lambda: self._edit(path, arguments, context), "nothing was changed"
        )

    def _edit(self, path: Path, arguments: NotebookEditInput, context: CallContext) -> str:
        done = ""

        def change(text: str) -> str:
            nonlocal done
            try:
                after, done = _changed(Notebook(text), arguments, context.call)
            except ToolError as error:
                raise ToolError(f"{path}: {error}") from error
            return after

        [target] = context.judged.writes
        rewrite(target, self._bench.opening(context.judged), self._stamps, context.thread, change)
        return f"{path}: {done}"


def _changed(notebook: Notebook, arguments: NotebookEditInput, call: str) -> tuple[str, str]:
    """The text, and what was done. Raises ToolError."""
    source = arguments.new_source
    named = arguments.cell_id is not None or arguments.cell_number is not None
    if arguments.edit_mode == "insert":
        at = notebook.place(arguments.cell_id, arguments.cell_number) + 1 if named else 0
        kind = arguments.cell_type or "code"
        return notebook.inserted(at, source or "", kind, new_id(call)), f"inserted cell {at}"
    at = notebook.place(arguments.cell_id, arguments.cell_number)
    if arguments.edit_mode == "delete":
        return notebook.deleted(at), f"deleted cell {at}"
    if source is None:
        raise ToolError("`new_source` is missing; give the whole cell")
    return notebook.replaced(at, source, arguments.cell_type), f"replaced cell {at}"


TOOL = NotebookEdit
