"""NotebookEdit: replaces, inserts or deletes one cell of a notebook, in one step. Notebooks of
nbformat 4 ("The Notebook file format") are shown as cells, and changed one cell at a time, so that
every other byte stays as it was."""

from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path
from typing import Literal, cast

from pydantic import BaseModel, ConfigDict, Field

from channels.record import record
from ohmo.contracts.messages import Json
from ohmo.contracts.tool import CallContext, Footprint, ToolOutput
from ohmo.tools.files import rewrite
from ohmo.tools.inputs import PathText, PydanticTool, SafeText
from ohmo.tools.results import ToolError, absolute_path, change_in_thread, description, head_cut
from ohmo.tools.systems import table
from ohmo.tools.workbench import Workbench

CellType = Literal["code", "markdown", "raw"]
_WHITE = re.compile(r"[ \t\r\n]*")
_DECODER = json.JSONDecoder()
_OUTPUT = 4_000  # bytes of the outputs of one cell that are shown


@record
class Span:
    """A value in the text of a file."""

    start: int
    end: int


def members(text: str, start: int) -> dict[str, Span]:
    """The values of the object that begins at ``start``. Raises ValueError."""
    found: dict[str, Span] = {}
    at = _after(text, start + 1)
    while text[at] != "}":
        name, at = _DECODER.raw_decode(text, at)
        at = _after(text, _after(text, at) + 1)  # the colon
        _, end = _DECODER.raw_decode(text, at)
        found[name] = Span(at, end)
        at = _next(text, end)
    return found


def elements(text: str, start: int) -> list[Span]:
    """Those of the array that begins at ``start``. Raises ValueError."""
    found: list[Span] = []
    at = _after(text, start + 1)
    while text[at] != "]":
        _, end = _DECODER.raw_decode(text, at)
        found.append(Span(at, end))
        at = _next(text, end)
    return found


def _after(text: str, at: int) -> int:
    match = _WHITE.match(text, at)
    return match.end() if match is not None else at


def _next(text: str, end: int) -> int:
    """Behind the comma, or at the bracket."""
    at = _after(text, end)
    return _after(text, at + 1) if text[at] == "," else at


class Notebook:
    """Raises ToolError: the text is no notebook of nbformat 4."""

    def __init__(self, text: str) -> None:
        try:
            data = table(json.loads(text))
            if data.get("nbformat") != 4:
                raise ToolError("is no notebook of nbformat 4")
            start = _after(text, 0)
            cells = members(text, start)["cells"]
            self._spans = elements(text, cells.start)
        except (ValueError, KeyError, IndexError, RecursionError):
            raise ToolError("is no notebook that can be read (broken JSON, or no cells)") from None
        self.cells = [table(cell) for cell in cast("list[Json]", data["cells"])]
        self._text = text
        self._cells = cells
        minor = data.get("nbformat_minor")
        self._ids = isinstance(minor, int) and minor >= 5  # cells have one since then
        # As it is written: how deep, and whether letters beyond ASCII stand for themselves.
        line = re.search(r"\n([ \t]+)\S", text)
        self._indent = line[1] if line is not None else None
        self._ascii = text.isascii() and "\\u" in text

    def place(self, id: str | None, number: int | None) -> int:
        """Raises ToolError: there is no such cell."""
        if id is not None:
            for at, cell in enumerate(self.cells):
                if cell.get("id") == id:
                    return at
            raise ToolError(f"there is no cell with the id {id!r}; Read the notebook")
        if number is None:
            raise ToolError("name the cell: `cell_id` or `cell_number`")
        if number >= len(self.cells):
            raise ToolError(
                f"there is no cell {number}: there are {len(self.cells)}, counted from 0"
            )
        return number

    def replaced(self, at: int, source: str, kind: CellType | None) -> str:
        """The whole text; what a code cell printed goes with the code that printed it."""
        cell = dict(self.cells[at])
        kind = kind or cast("CellType", cell.get("cell_type"))
        same = kind == cell.get("cell_type")
        new: dict[str, Json] = {
            "source": _lines(source, listed=not isinstance(cell.get("source"), str))
        }
        if kind == "code":
            new |= {"outputs": [], "execution_count": None}
        span = self._spans[at]
        places = members(self._text, span.start)
        if same and new.keys() <= places.keys():
            text = self._text
            for key in sorted(new, key=lambda key: -places[key].start):
                place = places[key]
                text = text[: place.start] + self._written(new[key], 3) + text[place.end :]
            return text
        cell |= {"cell_type": kind, **new}
        if kind != "code":
            cell.pop("outputs", None)
            cell.pop("execution_count", None)
        return self._text[: span.start] + self._written(cell, 2) + self._text[span.end :]

    def inserted(self, at: int, source: str, kind: CellType, id: str) -> str:
        """The whole text, with a new cell that becomes the one with the number ``at``."""
        cell: dict[str, Json] = {"cell_type": kind}
        if kind == "code":
            cell["execution_count"] = None
        if self._ids:
            cell["id"] = id
        cell["metadata"] = {}
        if kind == "code":
            cell["outputs"] = []
        cell["source"] = _lines(source, listed=True)
        written = self._written(cell, 2)
        text = self._text
        between = f"\n{self._indent * 2}" if self._indent is not None else ""
        if not self._spans:
            last = f"\n{self._indent}" if self._indent is not None else ""
            array = f"[{between}{written}{last}]"
            return text[: self._cells.start] + array + text[self._cells.end :]
        if at < len(self._spans):
            start = self._spans[at].start
            return f"{text[:start]}{written},{between or ' '}{text[start:]}"
        end = self._spans[-1].end
        return f"{text[:end]},{between or ' '}{written}{text[end:]}"

    def deleted(self, at: int) -> str:
        """The whole text."""
        span = self._spans[at]
        text = self._text
        if at + 1 < len(self._spans):
            return text[: span.start] + text[self._spans[at + 1].start :]
        if at:
            return text[: self._spans[at - 1].end] + text[span.end :]
        return f"{text[: self._cells.start]}[]{text[self._cells.end :]}"

    def _written(self, value: Json, depth: int) -> str:
        text = json.dumps(value, ensure_ascii=self._ascii, indent=self._indent)
        return text.replace("\n", f"\n{(self._indent or '') * depth}")

    def shown(self) -> str:
        """All cells, as plain lines."""
        lines: list[str] = []
        for number, cell in enumerate(self.cells):
            name = f" id={cell['id']}" if cell.get("id") else ""
            lines.append(f"# cell {number} ({cell.get('cell_type')}){name}")
            lines.append(_joined(cell.get("source")))
            outputs = cell.get("outputs")
            printed = "\n".join(map(_output, outputs)) if isinstance(outputs, list) else ""
            if printed:
                shown = head_cut(printed, _OUTPUT)
                more = "" if shown == printed else "\n[more output is left out]"
                lines.append(f"# output of cell {number}\n{shown}{more}")
        return "\n".join(lines) or "# a notebook without cells"


def new_id(call: str) -> str:
    """For the cell that a call inserts; the same when it is made again."""
    return hashlib.sha256(call.encode()).hexdigest()[:8]


def _joined(value: Json) -> str:
    if isinstance(value, list):
        return "".join(each for each in value if isinstance(each, str))
    return value if isinstance(value, str) else ""


def _lines(source: str, *, listed: bool) -> Json:
    pieces: list[Json] = list(re.findall(r"[^\n]*\n|[^\n]+", source))
    return pieces if listed else source


def _output(value: Json) -> str:
    output = table(value)
    if "text" in output:
        return _joined(output["text"]).rstrip("\n")
    if output.get("output_type") == "error":
        return f"{output.get('ename')}: {output.get('evalue')}"
    data = table(output.get("data"))
    words = _joined(data.get("text/plain")).rstrip("\n")
    others = [kind for kind in data if kind != "text/plain"]
    return "\n".join(filter(None, [words, *(f"[{kind}]" for kind in others)]))


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
        rewrite(target, self._bench.opening(context), self._stamps, context.thread, change)
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
