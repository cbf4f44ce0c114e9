"""GitLog: who committed what, the newest first."""

from __future__ import annotations

from pydantic import ConfigDict, Field

from ohmo.contracts.tool import ToolOutput
from ohmo.tools.inputs import SafeText
from ohmo.tools.repositories import GitReader, Look, Repository, revisions

# gitformatting of git-log(1): id, when, who, where a branch or tag is, first line
_LINE = "--format=%h %ad %an%d: %s"
_WHOLE = "--format=commit %H%d%n%an <%ae> %ad%n%n%w(0,4,4)%B"


class GitLogInput(Look):
    model_config = ConfigDict(title="GitLog")
    revision: SafeText | None = Field(default=None, description="A, A..B or A...B")
    limit: int = Field(default=20, ge=1, le=200)
    full: bool = Field(default=False, description="whole messages, names of files")


class GitLog(GitReader):
    name = "GitLog"
    input = GitLogInput

    async def look(self, arguments: GitLogInput, repository: Repository) -> ToolOutput:
        shown = (
            (_WHOLE, "--name-status", "--no-ext-diff", "--no-textconv")
            if arguments.full
            else (_LINE,)
        )
        return await repository.told(
            "log",
            "--no-color",
            "--no-mailmap",
            "--no-show-signature",
            "--date=format:%Y-%m-%d %H:%M",
            f"--max-count={arguments.limit}",
            *shown,
            *revisions(arguments.revision),
            "--",
            *repository.within(arguments.paths),
            nothing="no commit",
        )


TOOL = GitLog
