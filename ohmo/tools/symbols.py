"""Symbols: what names mean in source code, from a process that reads it beside this one."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from ohmo.codeintel.grammars import SUFFIXES
from ohmo.contracts.tool import CallContext, Footprint, ToolOutput
from ohmo.tools.inputs import PathText, PydanticTool, SafeText
from ohmo.tools.results import (
    ToolError,
    absolute_path,
    description,
    error_result,
    in_thread,
    os_message,
    text_result,
)
from ohmo.tools.search.engine import SearchEngine
from ohmo.tools.workbench import Workbench

_MOST_FILES = 5_000


class SymbolsInput(BaseModel):
    model_config = ConfigDict(extra="forbid", title="Symbols", defer_build=True)
    operation: Literal["document", "workspace", "definition", "references", "hover"]
    path: PathText | None = Field(default=None, description="file")
    line: int | None = Field(default=None, ge=1)
    column: int | None = Field(default=None, ge=1)
    name: SafeText | None = Field(default=None, description="on that line, or anywhere: f, A.f")
    query: SafeText | None = Field(default=None, description="part of a name, for workspace")

    @model_validator(mode="after")
    def _enough(self) -> Self:
        if self.operation == "document" and self.path is None:
            raise ValueError("document needs `path`")
        if self.operation == "workspace" and self.query is None:
            raise ValueError("workspace needs `query`")
        if self.line is not None and self.path is None:
            raise ValueError("`line` needs `path`")
        if self.operation in ("definition", "references", "hover"):
            by_place = self.line is not None and (self.name or self.column)
            if not by_place and self.name is None:
                raise ValueError(f"{self.operation} needs `name`, or `path`, `line` and `column`")
        return self


class Symbols(PydanticTool):
    name = "Symbols"
    input = SymbolsInput

    def __init__(self, workbench: Workbench) -> None:
        self._bench = workbench
        self._engine = SearchEngine(
            workbench.ripgrep, workbench.sensitive, workbench.limits.small_tree
        )
        self._reader = workbench.code
        self.description = description("Symbols")

    def footprint(self, arguments: SymbolsInput, cwd: Path) -> Footprint:
        if arguments.path is None:
            return Footprint(reads=(cwd,), effect="none")
        path = absolute_path(arguments.path, cwd)
        if arguments.operation == "document":
            return Footprint(reads=(path,), effect="none")
        return Footprint(reads=(project_of(path, cwd), path), effect="none")

    async def run(self, arguments: SymbolsInput, context: CallContext) -> ToolOutput:
        root, *named = context.judged.reads
        path = named[0] if named else root if arguments.operation == "document" else None
        opening = self._bench.opening(context)
        try:
            paths = list[str]()
            if path is not None:
                await in_thread(lambda: opening.file(path).close())
                paths.append(str(path))
            more = False
            if arguments.operation != "document":
                below, more = await self._engine.files(root, _is_code, _MOST_FILES, opening)
                paths += [str(root / one) for one in below]
            order: dict[str, Any] = {
                "root": str(root if arguments.operation != "document" else context.cwd),
                "paths": paths,
                "places": list(await in_thread(lambda: list(self._bench.sensitive.existing()))),
                "asked": [
                    arguments.operation,
                    str(path) if path is not None else None,
                    arguments.line,
                    arguments.column,
                    arguments.name or "",
                    arguments.query or "",
                ],
            }
            answered, text = await self._reader.ask(order)
        except ToolError as error:
            return error_result(context, str(error))
        except TimeoutError:
            return error_result(context, "it took too long; name a file, or a narrower one")
        except OSError as error:
            return error_result(context, os_message(error, path or root))
        if more:
            text += f"\n[only the first {_MOST_FILES} files below {root} were looked at]"
        return text_result(context, text) if answered else error_result(context, text)


def _is_code(path: str) -> bool:
    return path.endswith(SUFFIXES)


def project_of(path: Path, cwd: Path) -> Path:
    """Where the names of a file are looked for: its repository, but nothing above ``cwd`` when it
    lies in it; else its folder."""
    for folder in path.parents:
        if (folder / ".git").exists() or folder == cwd:
            return folder
    return path.parent


TOOL = Symbols
