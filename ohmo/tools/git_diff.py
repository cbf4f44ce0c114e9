"""GitDiff: what was changed, or lies between two commits, without what no tool may read."""

from __future__ import annotations

from typing import Self

from pydantic import ConfigDict, Field, model_validator

from ohmo.contracts.tool import ToolOutput
from ohmo.tools.inputs import SafeText
from ohmo.tools.repositories import GitReader, Look, Repository, revisions

# Of submodules which commit they are at, and nothing that git of their own would say.
_PLAIN = ("--no-ext-diff", "--no-textconv", "--no-color", "--ignore-submodules=dirty")


class GitDiffInput(Look):
    model_config = ConfigDict(title="GitDiff")
    revision: SafeText | None = Field(default=None, description="A, A..B or A...B")
    staged: bool = False
    stat: bool = False

    @model_validator(mode="after")
    def _one_side(self) -> Self:
        if self.staged and self.revision is not None and ".." in self.revision:
            raise ValueError("`staged` goes with one commit, not with two")
        return self


class GitDiff(GitReader):
    name = "GitDiff"
    input = GitDiffInput

    async def look(self, arguments: GitDiffInput, repository: Repository) -> ToolOutput:
        words = [*_PLAIN, *(["--cached"] if arguments.staged else [])]
        limits = repository.within(arguments.paths)
        between = [*revisions(arguments.revision), "--", *limits]
        # Both names of what was renamed.
        listed = ("--name-only", "--no-renames", "-z")
        changed = await repository.names("diff", *words, *listed, *between)
        left_out = await repository.without(changed)
        plural = (
            "file that no tool may read is"
            if len(left_out) == 1
            else "files that no tool may read are"
        )
        return await repository.told(
            "diff",
            *words,
            "-M",
            "--stat=100" if arguments.stat else "-p",
            *between,
            *left_out,
            nothing="no difference (a file that git does not know yet is in no diff)",
            note=f"[{len(left_out)} {plural} left out]" if left_out else "",
        )


TOOL = GitDiff
