"""Grep: lines by regular expression."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from ohmo.contracts.tool import CallContext, Footprint, ToolOutput
from ohmo.tools.inputs import PathText, PydanticTool, SafeText
from ohmo.tools.results import (
    ToolError,
    absolute_path,
    description,
    error_result,
    os_message,
    text_result,
)
from ohmo.tools.search.engine import SearchEngine
from ohmo.tools.search.request import ALIASES, KINDS, Hit, Search, glob_regex, portable
from ohmo.tools.workbench import Workbench

_LINE = 500
_CONTEXT = 50


class GrepInput(BaseModel):
    model_config = ConfigDict(extra="forbid", title="Grep", populate_by_name=True, defer_build=True)
    pattern: SafeText
    path: PathText | None = None
    glob: SafeText | None = Field(default=None, description="which files, e.g. *.py")
    type: str | None = Field(default=None, description="py, js, rust ...")
    output_mode: Literal["content", "files_with_matches", "count"] = "files_with_matches"
    ignore_case: bool = Field(default=False, alias="-i")
    line_numbers: bool = Field(default=True, alias="-n")
    after: int = Field(default=0, ge=0, le=_CONTEXT, alias="-A")
    before: int = Field(default=0, ge=0, le=_CONTEXT, alias="-B")
    around: int = Field(default=0, ge=0, le=_CONTEXT, alias="-C")
    head_limit: int | None = Field(default=None, ge=1)
    multiline: bool = False


class Grep(PydanticTool):
    name = "Grep"
    input = GrepInput

    def __init__(self, workbench: Workbench) -> None:
        self._bench = workbench
        self._engine = SearchEngine(
            workbench.ripgrep, workbench.sensitive, workbench.limits.small_tree
        )
        self._most = workbench.limits.search_lines
        self.description = description("Grep")

    def footprint(self, arguments: GrepInput, cwd: Path) -> Footprint:
        return Footprint(reads=(absolute_path(arguments.path or ".", cwd),), effect="none")

    async def run(self, arguments: GrepInput, context: CallContext) -> ToolOutput:
        root = absolute_path(arguments.path or ".", context.cwd)
        [start] = context.judged.reads
        opening = self._bench.opening(context)
        most = min(arguments.head_limit or self._most, self._most)
        try:
            request = Search(
                root=start,
                pattern=portable(arguments.pattern),
                accepts=_accepts(arguments),
                mode=arguments.output_mode,
                ignore_case=arguments.ignore_case,
                multiline=arguments.multiline,
                before=arguments.before or arguments.around,
                after=arguments.after or arguments.around,
            )
            hits, more = await self._engine.search(request, most, opening)
        except ToolError as error:
            return error_result(context, str(error))
        except TimeoutError:
            return error_result(
                context, "the search took too long; name a narrower `path` or `glob`"
            )
        except FileNotFoundError:
            return error_result(context, f"{root}: no such file or folder")
        except OSError as error:
            return error_result(context, os_message(error, root))
        if not hits:
            return text_result(context, f"no match below {root}")
        base = root if start.is_dir() else root.parent
        rows = [row for hit in hits for row in _rows(hit, base, arguments)]
        shown = rows[:most]
        if more or len(rows) > most:
            shown.append(f"[more matches; these are the first {most}: narrow the search]")
        return text_result(context, "\n".join(shown))


def _accepts(arguments: GrepInput) -> Callable[[str], bool]:
    checks: list[Callable[[str], object]] = []
    if arguments.glob:
        refused = arguments.glob.startswith("!")
        named = glob_regex(arguments.glob.removeprefix("!"))
        checks.append(lambda path: (named.fullmatch(path) is not None) is not refused)
    if arguments.type:
        kind = ALIASES.get(arguments.type, arguments.type)
        if kind not in KINDS:
            raise ToolError(
                f"`type`: {arguments.type!r} is not known; use `glob`, or one of"
                f" {', '.join(sorted(KINDS))}"
            )
        kinds = [glob_regex(pattern) for pattern in KINDS[kind]]
        checks.append(lambda path: any(each.fullmatch(path) for each in kinds))
    return lambda path: all(check(path) for check in checks)


def _rows(hit: Hit, base: Path, arguments: GrepInput) -> Iterator[str]:
    path = base / hit.path
    if arguments.output_mode == "files_with_matches":
        yield str(path)
    elif arguments.output_mode == "count":
        yield f"{path}:{hit.count}"
    else:
        last = 0
        for line in hit.lines:
            if last and line.number > last + 1:
                yield "--"
            last = line.number
            text = line.text.rstrip("\r")
            if len(text) > _LINE:
                text = f"{text[:_LINE]} [... {len(text) - _LINE} more characters]"
            mark = ":" if line.match else "-"
            number = f"{line.number}{mark}" if arguments.line_numbers else ""
            yield f"{path}{mark}{number}{text}"


TOOL = Grep
