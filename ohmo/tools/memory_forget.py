"""MemoryForget: takes a note away; where foreign words stand in this session, only proposes to."""

from __future__ import annotations

from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field

from ohmo.contracts.messages import ToolResult
from ohmo.contracts.tool import CallContext, Footprint, ToolOutput
from ohmo.memory.desk import Found
from ohmo.memory.notes import NotRemembered
from ohmo.tools.inputs import PydanticTool, SafeText
from ohmo.tools.results import description, error_result, in_thread, os_message, text_result
from ohmo.tools.workbench import MemoryDoor, Workbench, has_memory, memory_of


class MemoryForgetInput(BaseModel):
    model_config = ConfigDict(extra="forbid", title="MemoryForget", defer_build=True)
    name: SafeText = Field(max_length=200, description="as MemorySearch names it")


class MemoryForget(PydanticTool):
    name = "MemoryForget"
    input = MemoryForgetInput

    ready = staticmethod(has_memory)

    def __init__(self, workbench: Workbench) -> None:
        self._door = MemoryDoor(memory_of(workbench), workbench)
        self.description = description("MemoryForget")

    def footprint(self, arguments: MemoryForgetInput, cwd: Path) -> Footprint:  # noqa: ARG002
        return Footprint(effect="repeatable")

    async def run(self, arguments: MemoryForgetInput, context: CallContext) -> ToolOutput:
        if why := self._door.closed(context):
            return error_result(context, why)
        scopes = await self._door.scopes(context)
        said = await self._door.said(context)
        memory = self._door.memory
        try:
            gone = await in_thread(lambda: memory.forget(scopes, arguments.name, said))
        except NotRemembered as error:
            return error_result(context, str(error))
        except OSError as error:
            return error_result(context, os_message(error, memory.root))
        if isinstance(gone, Found):
            return text_result(context, f"Forgot {gone.called}.")
        text, posts = await self._door.proposed(gone, context)
        return ToolOutput(ToolResult(context.call, text), posts)


TOOL = MemoryForget
