"""CronCreate: a job that runs later or again and again, confirmed with the local time it was
understood as."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from channels.contract import Choice
from ohmo.ambient import derived
from ohmo.contracts.cron import BadJob
from ohmo.contracts.errors import ConfigError
from ohmo.contracts.tool import CallContext, Footprint, Question, ToolOutput
from ohmo.cron.spec import rhythm, when_words
from ohmo.permissions.wording import argument
from ohmo.tools.inputs import PydanticTool
from ohmo.tools.results import description, error_result, text_result
from ohmo.tools.workbench import Workbench, caller, has_scheduler, scheduler_of

_CHOICES = (Choice("once", "Make this job", "good"), Choice("deny", "Do not", "danger"))


class CronCreateInput(BaseModel):
    model_config = ConfigDict(extra="forbid", title="CronCreate", defer_build=True)
    prompt: str = Field(min_length=1, max_length=20_000, description="what to do at that time")
    schedule: str | None = Field(default=None, description="cron fields, e.g. 0 9 * * 1-5")
    at: str | None = Field(default=None, description="once, e.g. 2026-12-01 09:00")
    every: str | None = Field(default=None, description="e.g. 5m")
    tz: str | None = None
    name: str | None = None
    to: str | None = Field(default=None, description="address; default: here")
    when: Literal["always", "changed", "wrong"] = "always"
    rules: list[str] = Field(
        default_factory=list, max_length=50, description="what it may do unasked"
    )


class CronCreate(PydanticTool):
    name = "CronCreate"
    input = CronCreateInput

    ready = staticmethod(has_scheduler)

    def __init__(self, workbench: Workbench) -> None:
        self._scheduler = scheduler_of(workbench)
        self.description = description("CronCreate")

    def footprint(self, arguments: CronCreateInput, cwd: Path) -> Footprint:  # noqa: ARG002
        """Rules, and another place than this one for its reports, are shown and allowed with the
        job, in every mode. Raises BadJob: the model is told before anybody is asked."""
        spec = self._scheduler.desk.understand(_fields(arguments))
        note = (
            f"Job `{spec.name}`: {rhythm(spec)}, first run"
            f" **{when_words(self._scheduler.desk.first(spec), spec.tz)}**."
        )
        if dear := self._scheduler.desk.caution(spec):
            note += f" Mind: {dear}."
        if not spec.rules and spec.to is None:
            return Footprint(effect="repeatable", note=note, lasting="jobs")
        # What it may and whom it tells stand before its words, which could imitate them.
        parts = [note]
        if spec.rules:
            rules = [
                f"- `{rule}`" if "`" not in rule else argument("-", rule) for rule in spec.rules
            ]
            parts.append("\n".join(["It may then, without asking:", *rules]))
        if spec.to is not None:
            parts.append(
                f"{argument('Its reports go to', spec.to)}\n\nOnly the owner or an admin can allow"
                " that."
            )
        parts.append(argument("prompt", spec.prompt))
        question = Question(
            "permission",
            f"CronCreate: {spec.name}",
            "\n\n".join(parts),
            _CHOICES,
            digest="",
            by="" if spec.to is None else "admin",
        )
        return Footprint(effect="repeatable", question=question)

    async def run(self, arguments: CronCreateInput, context: CallContext) -> ToolOutput:
        by, place = await caller(self._scheduler, context)
        if context.role == "guest":
            return error_result(context, "guests have no jobs")
        here = place if place is not None and place.channel != "house" else None
        try:
            row = await self._scheduler.desk.create(
                _fields(arguments), by, job=derived("job", context.call), place=here
            )
        except (BadJob, ConfigError) as error:
            return error_result(context, str(error))
        spec = row.body.spec
        where = spec.to or ("here" if here is not None else "only into its history")
        return text_result(
            context,
            f"Made the job {row.name}: {rhythm(spec)} in {spec.tz}; first run"
            f" {when_words(row.next_at, spec.tz)}; report goes {where}.",
        )


def _fields(arguments: CronCreateInput) -> dict[str, object]:
    return {
        name: value for name, value in arguments.model_dump().items() if value not in (None, "", [])
    }


TOOL = CronCreate
