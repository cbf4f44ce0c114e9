"""Sleep: waits, until a message for the conversation comes."""

from __future__ import annotations

import asyncio
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field

from ohmo.contracts.tool import CallContext, Footprint, ToolOutput
from ohmo.tools.inputs import PydanticTool
from ohmo.tools.results import description, error_result, text_result
from ohmo.tools.workbench import Workbench

_MOST = 600  # seconds
_TELL = 10.0  # seconds between two words of progress
_REST = 5.0  # seconds that are left of the turn behind it


class SleepInput(BaseModel):
    model_config = ConfigDict(extra="forbid", title="Sleep", defer_build=True)
    seconds: int = Field(ge=1, le=_MOST)
    reason: str = Field(default="", max_length=200, description="the person sees it")


class Sleep(PydanticTool):
    name = "Sleep"
    input = SleepInput

    def __init__(self, workbench: Workbench) -> None:  # noqa: ARG002
        self.description = description("Sleep", most=_MOST // 60)

    def footprint(self, arguments: SleepInput, cwd: Path) -> Footprint:  # noqa: ARG002
        return Footprint(effect="none")

    async def run(self, arguments: SleepInput, context: CallContext) -> ToolOutput:
        loop = asyncio.get_running_loop()
        began = loop.time()
        left = context.deadline - began - _REST
        if arguments.seconds > left:
            return error_result(
                context,
                f"this turn has {max(0, left):.0f} s left; wait less, or make a job (CronCreate)"
                " that goes on later",
            )
        message = asyncio.ensure_future(context.message())
        try:
            while (passed := loop.time() - began) < arguments.seconds and not message.done():
                why = f": {arguments.reason}" if arguments.reason else ""
                context.progress(f"{passed:.0f} of {arguments.seconds} s{why}")
                await asyncio.wait({message}, timeout=min(_TELL, arguments.seconds - passed))
        finally:
            message.cancel()
        if passed < arguments.seconds:
            return text_result(
                context,
                f"Woken after {passed:.0f} s: a message waits. If you are not shown it next, end"
                " your turn soon, so that it is read.",
            )
        return text_result(context, f"{arguments.seconds} s have passed.")


TOOL = Sleep
