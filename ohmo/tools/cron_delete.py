"""CronDelete: a job is removed; a run that is going on ends first."""

from __future__ import annotations

from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field

from ohmo.contracts.cron import BadJob, NoSuchJob
from ohmo.contracts.tool import CallContext, Footprint, ToolOutput
from ohmo.tools.answers import description, failed, said
from ohmo.tools.scheduling import caller, door_of, has_door
from ohmo.tools.workbench import Workbench


class CronDeleteInput(BaseModel):
    model_config = ConfigDict(extra="forbid", title="CronDelete", defer_build=True)
    name: str = Field(min_length=1, max_length=100)


class CronDelete:
    name = "CronDelete"
    input = CronDeleteInput

    ready = staticmethod(has_door)

    def __init__(self, workbench: Workbench) -> None:
        self._door = door_of(workbench)
        self.description = description("CronDelete")

    def footprint(self, arguments: CronDeleteInput, cwd: Path) -> Footprint:  # noqa: ARG002
        return Footprint()

    async def run(self, arguments: CronDeleteInput, context: CallContext) -> ToolOutput:
        by, _ = await caller(self._door, context)
        if context.role == "guest":
            return failed(context, "guests have no jobs")
        try:
            await self._door.desk.remove(arguments.name, by)
        except (BadJob, NoSuchJob) as error:
            return failed(context, str(error))
        return said(context, f"Removed the job {arguments.name}.")


TOOL = CronDelete
