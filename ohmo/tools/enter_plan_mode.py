"""EnterPlanMode: from here on nothing is changed, until a person has allowed the plan."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from pydantic import BaseModel, ConfigDict

from ohmo.contracts.tool import CallContext, Footprint, ToolOutput
from ohmo.tools.inputs import PydanticTool
from ohmo.tools.results import description, error_result, text_result
from ohmo.tools.workbench import Workbench


class EnterPlanModeInput(BaseModel):
    model_config = ConfigDict(extra="forbid", title="EnterPlanMode", defer_build=True)


class EnterPlanMode(PydanticTool):
    name = "EnterPlanMode"
    input = EnterPlanModeInput

    def __init__(self, workbench: Workbench) -> None:  # noqa: ARG002
        self.description = description("EnterPlanMode")

    def footprint(self, arguments: EnterPlanModeInput, cwd: Path) -> Footprint:  # noqa: ARG002
        return Footprint(effect="house")

    async def run(self, arguments: EnterPlanModeInput, context: CallContext) -> ToolOutput:  # noqa: ARG002
        if context.role == "guest":
            return error_result(context, "a guest's words change no mode")
        if context.mode == "plan":
            return text_result(context, "Plan mode is on already.")
        text = (
            "Plan mode is on: nothing may be changed. Read, search and think, then call"
            " ExitPlanMode with the plan; the person allows it, or says what to change."
        )
        return replace(text_result(context, text), plans=True)


TOOL = EnterPlanMode
