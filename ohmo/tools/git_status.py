"""GitStatus: how a repository stands: its branch, what was changed, what git does not know."""

from __future__ import annotations

from pydantic import ConfigDict

from ohmo.contracts.tool import ToolOutput
from ohmo.tools.repositories import GitReader, Look, Repository

_BEGUN = {  # what git keeps while it is in the middle of something
    "MERGE_HEAD": "a merge",
    "CHERRY_PICK_HEAD": "a cherry-pick",
    "REVERT_HEAD": "a revert",
    "BISECT_LOG": "a bisection",
    "rebase-merge": "a rebase",
    "rebase-apply": "a rebase",
}


class GitStatusInput(Look):
    model_config = ConfigDict(title="GitStatus")


class GitStatus(GitReader):
    name = "GitStatus"
    input = GitStatusInput

    async def look(self, arguments: GitStatusInput, repository: Repository) -> ToolOutput:
        words = ("--porcelain=v1", "--branch", "--untracked-files=normal")
        limits = repository.within(arguments.paths)
        begun = [what for name, what in _BEGUN.items() if (repository.own / name).exists()]
        return await repository.told(
            "status",
            *words,
            "--ignore-submodules=dirty",
            "--",
            *limits,
            nothing="(no output)",
            note=f"[in the middle of {' and '.join(begun)}]" if begun else "",
        )


TOOL = GitStatus
