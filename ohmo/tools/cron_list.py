"""CronList: the caller's jobs, or what became of the runs of one."""

from __future__ import annotations

from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field

from ohmo.contracts.cron import JobRow, NoSuchJob
from ohmo.contracts.tool import CallContext, Footprint, ToolOutput
from ohmo.cron.spec import rhythm, when_words
from ohmo.tools.inputs import PydanticTool
from ohmo.tools.results import description, error_result, text_result
from ohmo.tools.workbench import Workbench, caller, has_scheduler, scheduler_of


class CronListInput(BaseModel):
    model_config = ConfigDict(extra="forbid", title="CronList", defer_build=True)
    name: str | None = Field(default=None, description="its last runs")


class CronList(PydanticTool):
    name = "CronList"
    input = CronListInput

    ready = staticmethod(has_scheduler)

    def __init__(self, workbench: Workbench) -> None:
        self._scheduler = scheduler_of(workbench)
        self.description = description("CronList")

    def footprint(self, arguments: CronListInput, cwd: Path) -> Footprint:  # noqa: ARG002
        return Footprint(effect="none")

    async def run(self, arguments: CronListInput, context: CallContext) -> ToolOutput:
        by, _ = await caller(self._scheduler, context)
        if context.role == "guest":
            return error_result(context, "guests have no jobs")
        if arguments.name is None:
            rows = await self._scheduler.desk.list(by)
            return text_result(context, "\n".join(map(job_line, rows)) or "There are no jobs.")
        try:
            row = await self._scheduler.desk.job(arguments.name, by)
            runs = await self._scheduler.desk.history(row.name, by, limit=20)
        except NoSuchJob as error:
            return error_result(context, str(error))
        text = [
            f"- {when_words(job.due, row.body.spec.tz)}:"
            f" {job.state}{f' ({job.reason})' if job.reason else ''}"
            for job in runs
        ]
        return text_result(context, "\n".join([job_line(row), *text]))


def job_line(row: JobRow) -> str:
    """One job in one line."""
    spec = row.body.spec
    due = when_words(row.next_at, spec.tz) if row.enabled else "paused"
    return f"{row.name}: {rhythm(spec)} ({spec.tz}); next {due}; {spec.prompt[:80]}"


TOOL = CronList
