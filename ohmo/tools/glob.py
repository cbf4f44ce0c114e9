"""Glob: files by name."""

from __future__ import annotations

import stat
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field

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
from ohmo.tools.search.request import glob_regex
from ohmo.tools.workbench import Workbench


class GlobInput(BaseModel):
    model_config = ConfigDict(extra="forbid", title="Glob", defer_build=True)
    pattern: SafeText
    path: PathText | None = Field(default=None, description="folder")


class Glob(PydanticTool):
    name = "Glob"
    input = GlobInput

    def __init__(self, workbench: Workbench) -> None:
        self._bench = workbench
        self._engine = SearchEngine(
            workbench.ripgrep, workbench.sensitive, workbench.limits.small_tree
        )
        self._most = workbench.limits.search_lines
        self.description = description("Glob", most=self._most)

    def footprint(self, arguments: GlobInput, cwd: Path) -> Footprint:
        return Footprint(reads=(_split(arguments, cwd)[0],), effect="none")

    async def run(self, arguments: GlobInput, context: CallContext) -> ToolOutput:
        root, pattern = _split(arguments, context.cwd)
        [start] = context.judged.reads
        opening = self._bench.opening(context)
        try:
            expression = glob_regex(pattern)
            if not stat.S_ISDIR((await in_thread(lambda: opening.status(start))).st_mode):
                raise NotADirectoryError
            accepts = expression.fullmatch
            paths, more = await self._engine.files(
                start, lambda path: bool(accepts(path)), self._most, opening
            )
        except ToolError as error:
            return error_result(context, str(error))
        except TimeoutError:
            return error_result(context, "the search took too long; name a narrower `path`")
        except (FileNotFoundError, NotADirectoryError):
            return error_result(context, f"{root}: no such folder")
        except OSError as error:
            return error_result(context, os_message(error, root))
        if not paths:
            return text_result(context, f"no file matches {arguments.pattern} below {root}")
        lines = [str(root / path) for path in paths]
        if more:
            cut = f"[more files match; these are the first {self._most}: narrow the pattern]"
            lines.append(cut)
        return text_result(context, "\n".join(lines))


def _split(arguments: GlobInput, cwd: Path) -> tuple[Path, str]:
    """Where to start and what to match there: an absolute pattern brings its own folder."""
    if not arguments.pattern.startswith(("/", "~")):
        return absolute_path(arguments.path or ".", cwd), arguments.pattern
    parts = str(absolute_path(arguments.pattern, cwd)).split("/")
    fixed = next(
        (index for index, part in enumerate(parts) if set(part) & set("*?[{")), len(parts) - 1
    )
    return Path("/".join(parts[:fixed]) or "/"), "/" + "/".join(parts[fixed:])


TOOL = Glob
