"""GitCommit: commits some paths, or what is staged. It is git's own command, judged and run as in
Bash: what the repository runs at a commit is run, and told to whoever is asked."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field

from channels.text import code_span
from ohmo.contracts.tool import CallContext, Footprint, ToolOutput
from ohmo.permissions.wording import argument, visible
from ohmo.shell.git_repository import located, unknown_settings
from ohmo.tools.bash import Bash, BashInput
from ohmo.tools.inputs import PathText, PydanticTool, SafeText
from ohmo.tools.repositories import has_git
from ohmo.tools.results import description
from ohmo.tools.workbench import Workbench

_HOOKS = (  # that a commit runs (githooks(5))
    "pre-commit",
    "prepare-commit-msg",
    "commit-msg",
    "post-commit",
    "post-index-change",
    "reference-transaction",
    "pre-auto-gc",
)
_MOST_SETTINGS = 12


class GitCommitInput(BaseModel):
    model_config = ConfigDict(extra="forbid", title="GitCommit", defer_build=True)
    message: SafeText = Field(max_length=20_000)
    paths: list[PathText] = Field(
        default=[], max_length=200, description="also new or deleted; none: what is staged"
    )


class GitCommit(PydanticTool):
    name = "GitCommit"
    input = GitCommitInput
    ready = staticmethod(has_git)

    def __init__(self, workbench: Workbench) -> None:
        self._bash = Bash(workbench)
        self.description = description("GitCommit")

    def footprint(self, arguments: GitCommitInput, cwd: Path) -> Footprint:
        order = _order(arguments)
        note = "\n".join((argument("runs", order.command), *_runs_besides(cwd)))
        return replace(self._bash.footprint(order, cwd), note=note)

    async def run(self, arguments: GitCommitInput, context: CallContext) -> ToolOutput:
        return await self._bash.run(_order(arguments), context)


def _order(arguments: GitCommitInput) -> BashInput:
    commit = f"git commit -m {shlex.quote(arguments.message)}"
    if not arguments.paths:
        return BashInput(command=commit)
    paths = shlex.join(arguments.paths)
    return BashInput(command=f"git add -- {paths} && {commit} -- {paths}")


def _runs_besides(cwd: Path) -> Iterator[str]:
    """What git runs, or may, because the repository says so; CommonMark."""
    found = located(os.path.realpath(cwd))
    if found is None:
        return
    common = Path(found.folders[-1])
    hooks = [name for name in _HOOKS if os.access(common / "hooks" / name, os.X_OK)]
    if hooks:
        yield f"which runs the hooks {', '.join(hooks)} of {code_span(visible(str(common)))}"
    settings = list(islice(unknown_settings(f"{common}/config"), _MOST_SETTINGS + 1))
    if settings:
        more = " and more" if len(settings) > _MOST_SETTINGS else ""
        shown = ", ".join(code_span(visible(each[:100])) for each in settings[:_MOST_SETTINGS])
        yield f"which obeys settings of the repository that may run something: {shown}{more}"


TOOL = GitCommit
