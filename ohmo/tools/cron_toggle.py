"""CronToggle: a job is paused, or runs again."""

from __future__ import annotations

from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field

from ohmo.contracts.cron import BadJob, NoSuchJob
from ohmo.contracts.tool import CallContext, Footprint, ToolOutput
from ohmo.tools.answers import description, failed, said
from ohmo.tools.scheduling import caller, door_of, has_door, line
from ohmo.tools.workbench import Workbench


class CronToggleInput(BaseModel):
    model_config = ConfigDict(extra="forbid", title="CronToggle", defer_build=True)
    name: str = Field(min_length=1, max_length=100)
    enabled: bool


class CronToggle:
    name = "CronToggle"
    input = CronToggleInput

    ready = staticmethod(has_door)

    def __init__(self, workbench: Workbench) -> None:
        self._door = door_of(workbench)
        self.description = description("CronToggle")

    def footprint(self, arguments: CronToggleInput, cwd: Path) -> Footprint:  # noqa: ARG002
        return Footprint(effect="repeatable")

    async def run(self, arguments: CronToggleInput, context: CallContext) -> ToolOutput:
        by, _ = await caller(self._door, context)
        if context.role == "guest":
            return failed(context, "guests have no jobs")
        desk = self._door.desk
        try:
            row = await (desk.resume if arguments.enabled else desk.pause)(arguments.name, by)
        except (BadJob, NoSuchJob) as error:
            return failed(context, str(error))
        return said(context, line(row))


TOOL = CronToggle
