"""KillShell: ends a background command with everything it started."""

from __future__ import annotations

from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field

from ohmo.contracts.tool import CallContext, Footprint, ToolOutput
from ohmo.tools.bash import background_report
from ohmo.tools.inputs import PydanticTool
from ohmo.tools.results import ToolError, description, error_result, text_result
from ohmo.tools.workbench import Workbench


class KillShellInput(BaseModel):
    model_config = ConfigDict(extra="forbid", title="KillShell", defer_build=True)
    shell_id: str = Field(min_length=1)


class KillShell(PydanticTool):
    name = "KillShell"
    input = KillShellInput

    def __init__(self, workbench: Workbench) -> None:
        self._jobs = workbench.background
        self._room = workbench.limits.bash_output
        self.description = description("KillShell")

    def footprint(self, arguments: KillShellInput, cwd: Path) -> Footprint:  # noqa: ARG002
        return Footprint(effect="house")  # it only ends what this thread was allowed to start

    async def run(self, arguments: KillShellInput, context: CallContext) -> ToolOutput:
        try:
            background = self._jobs.get(arguments.shell_id, context.thread)
        except ToolError as error:
            return error_result(context, str(error))
        if background.job is not None:
            await background.job.close()
        ended = await background.end(self._room)
        return text_result(
            context, background_report(arguments.shell_id, ended, self._room), spill=ended.spill
        )


TOOL = KillShell
