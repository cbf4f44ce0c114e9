"""CronToggle: a job is paused, or runs again."""

from __future__ import annotations

from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field

from ohmo.contracts.cron import BadJob, NoSuchJob
from ohmo.contracts.tool import CallContext, Footprint, ToolOutput
from ohmo.tools.cron_list import job_line
from ohmo.tools.inputs import PydanticTool
from ohmo.tools.results import description, error_result, text_result
from ohmo.tools.workbench import Workbench, caller, has_scheduler, scheduler_of


class CronToggleInput(BaseModel):
    model_config = ConfigDict(extra="forbid", title="CronToggle", defer_build=True)
    name: str = Field(min_length=1, max_length=100)
    enabled: bool


class CronToggle(PydanticTool):
    name = "CronToggle"
    input = CronToggleInput

    ready = staticmethod(has_scheduler)

    def __init__(self, workbench: Workbench) -> None:
        self._scheduler = scheduler_of(workbench)
        self.description = description("CronToggle")

    def footprint(self, arguments: CronToggleInput, cwd: Path) -> Footprint:  # noqa: ARG002
        return Footprint(effect="repeatable", lasting="jobs")

    async def run(self, arguments: CronToggleInput, context: CallContext) -> ToolOutput:
        by, _ = await caller(self._scheduler, context)
        if context.role == "guest":
            return error_result(context, "guests have no jobs")
        desk = self._scheduler.desk
        try:
            row = await (desk.resume if arguments.enabled else desk.pause)(arguments.name, by)
        except (BadJob, NoSuchJob) as error:
            return error_result(context, str(error))
        return text_result(context, job_line(row))


TOOL = CronToggle
