"""BashOutput: what a background command said since the last look."""

from __future__ import annotations

from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field

from ohmo.contracts.tool import CallContext, Footprint, ToolOutput
from ohmo.tools.bash import background_report, output_parts
from ohmo.tools.inputs import PydanticTool
from ohmo.tools.results import ToolError, description, error_result, text_result
from ohmo.tools.workbench import Workbench


class BashOutputInput(BaseModel):
    model_config = ConfigDict(extra="forbid", title="BashOutput", defer_build=True)
    bash_id: str = Field(min_length=1)


class BashOutput(PydanticTool):
    name = "BashOutput"
    input = BashOutputInput

    def __init__(self, workbench: Workbench) -> None:
        self._jobs = workbench.background
        self._room = workbench.limits.bash_output
        self.description = description("BashOutput")

    def footprint(self, arguments: BashOutputInput, cwd: Path) -> Footprint:  # noqa: ARG002
        return Footprint(effect="house")

    async def run(self, arguments: BashOutputInput, context: CallContext) -> ToolOutput:
        try:
            background = self._jobs.get(arguments.bash_id, context.thread)
        except ToolError as error:
            return error_result(context, str(error))
        if background.job is None or not background.runs:
            ended = await background.end(self._room)
            return text_result(
                context, background_report(arguments.bash_id, ended, self._room), spill=ended.spill
            )
        output = await background.job.read()
        parts = output_parts(output.out, output.err, self._room, "")
        return text_result(context, "\n".join([*parts, f"[{arguments.bash_id} is running]"]))


TOOL = BashOutput
