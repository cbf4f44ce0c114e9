"""MemoryRead: one note whole, with who said it where; without a name what there is."""

from __future__ import annotations

from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field

from ohmo.contracts.tool import CallContext, Footprint, ToolOutput
from ohmo.memory.desk import shown
from ohmo.memory.notes import NotRemembered
from ohmo.tools.inputs import PydanticTool
from ohmo.tools.results import (
    description,
    error_result,
    head_cut,
    in_thread,
    os_message,
    text_result,
)
from ohmo.tools.workbench import MemoryDoor, Workbench, has_memory, memory_of

_MOST = 32 << 10  # bytes that one call shows


class MemoryReadInput(BaseModel):
    model_config = ConfigDict(extra="forbid", title="MemoryRead", defer_build=True)
    name: str = Field(default="", max_length=200, description="empty: a list of all")


class MemoryRead(PydanticTool):
    name = "MemoryRead"
    input = MemoryReadInput

    ready = staticmethod(has_memory)

    def __init__(self, workbench: Workbench) -> None:
        self._door = MemoryDoor(memory_of(workbench), workbench)
        self.description = description("MemoryRead")

    def footprint(self, arguments: MemoryReadInput, cwd: Path) -> Footprint:  # noqa: ARG002
        return Footprint(effect="none")

    async def run(self, arguments: MemoryReadInput, context: CallContext) -> ToolOutput:
        scopes = await self._door.scopes(context)
        memory = self._door.memory

        def read() -> str:
            if arguments.name:
                return shown(memory.read(scopes, arguments.name))
            lines: list[str] = []
            for scope in scopes:
                if index := memory.index(scope):
                    lines += [f"{scope.label}:", *index]
            return "\n".join(lines) or "Nothing is remembered here."

        try:
            text = await in_thread(read)
        except NotRemembered as error:
            return error_result(context, str(error))
        except OSError as error:
            return error_result(context, os_message(error, memory.root))
        cut = head_cut(text, _MOST)
        return text_result(
            context, cut if cut == text else f"{cut}\n(cut: MemorySearch finds more)"
        )


TOOL = MemoryRead
