"""ExitPlanMode: shows the plan to a person, who allows it or says what to change."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field

from channels.contract import Choice
from ohmo.contracts.tool import CallContext, Footprint, PlanState, Question, ToolOutput
from ohmo.permissions.wording import visible
from ohmo.tools.inputs import PydanticTool, SafeText
from ohmo.tools.results import description, text_result
from ohmo.tools.workbench import Workbench

_MOST = 12_000  # characters: a chat shows it whole, else nobody could allow it there
_STEP = re.compile(r"(?:[-*+]|\d{1,3}[.)])\s+(?:\[[ xX]\]\s+)?(.+)")
_MOST_STEPS = 100
_CHOICES = (Choice("once", "Carry it out", "good"), Choice("deny", "Keep planning", "danger"))
_MEANING = (
    "Allowed, plan mode ends and this is done under the rules of this conversation. To have it"
    " changed, say `/deny` and what you want."
)


class ExitPlanModeInput(BaseModel):
    model_config = ConfigDict(extra="forbid", title="ExitPlanMode", defer_build=True)
    plan: SafeText = Field(max_length=_MOST, description="Markdown; steps as a list")


class ExitPlanMode(PydanticTool):
    name = "ExitPlanMode"
    input = ExitPlanModeInput

    def __init__(self, workbench: Workbench) -> None:  # noqa: ARG002
        self.description = description("ExitPlanMode")

    def footprint(self, arguments: ExitPlanModeInput, cwd: Path) -> Footprint:  # noqa: ARG002
        """What it means to allow it stands before the words of the plan, which could imitate
        it."""
        detail = f"{_MEANING}\n\n{visible(arguments.plan)}"
        title = "Shall this plan be carried out?"
        return Footprint(
            effect="house", question=Question("permission", title, detail, _CHOICES, digest="")
        )

    async def run(self, arguments: ExitPlanModeInput, context: CallContext) -> ToolOutput:
        lines = ["The person allowed the plan. Plan mode is over: carry it out."]
        steps = steps_of(arguments.plan)
        plan: PlanState | None = None
        if steps:
            numbered = [f"{number}. [ ] {step}" for number, step in enumerate(steps, 1)]
            lines += ["", f"Plan: 0 of {len(steps)} done", *numbered]
            plan = PlanState(1, len(steps), steps[0])
        return replace(text_result(context, "\n".join(lines)), plan=plan, plans=False)


def steps_of(plan: str) -> list[str]:
    """The steps of a plan that is, or holds, a list: its outermost entries."""
    found: list[tuple[int, str]] = []
    for line in plan.splitlines():
        match = _STEP.fullmatch(line.strip())
        if match is not None:
            found.append((len(line) - len(line.lstrip()), match[1][:500]))
    least = min((indent for indent, _ in found), default=0)
    return [step for indent, step in found if indent == least][:_MOST_STEPS]


TOOL = ExitPlanMode
