"""CronDelete: a job is removed; a run that is going on ends first."""

from __future__ import annotations

from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field

from ohmo.contracts.cron import BadJob, NoSuchJob
from ohmo.contracts.tool import CallContext, Footprint, ToolOutput
from ohmo.tools.inputs import PydanticTool
from ohmo.tools.results import description, error_result, text_result
from ohmo.tools.workbench import Workbench, caller, has_scheduler, scheduler_of


class CronDeleteInput(BaseModel):
    model_config = ConfigDict(extra="forbid", title="CronDelete", defer_build=True)
    name: str = Field(min_length=1, max_length=100)


class CronDelete(PydanticTool):
    name = "CronDelete"
    input = CronDeleteInput

    ready = staticmethod(has_scheduler)

    def __init__(self, workbench: Workbench) -> None:
        self._scheduler = scheduler_of(workbench)
        self.description = description("CronDelete")

    def footprint(self, arguments: CronDeleteInput, cwd: Path) -> Footprint:  # noqa: ARG002
        return Footprint(lasting="jobs")

    async def run(self, arguments: CronDeleteInput, context: CallContext) -> ToolOutput:
        by, _ = await caller(self._scheduler, context)
        if context.role == "guest":
            return error_result(context, "guests have no jobs")
        try:
            await self._scheduler.desk.remove(arguments.name, by)
        except (BadJob, NoSuchJob) as error:
            return error_result(context, str(error))
        return text_result(context, f"Removed the job {arguments.name}.")


TOOL = CronDelete
