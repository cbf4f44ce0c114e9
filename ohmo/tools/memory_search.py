"""MemorySearch: the notes that fit some words best, in any language, with or without marks."""

from __future__ import annotations

from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field

from ohmo.contracts.tool import CallContext, Footprint, ToolOutput
from ohmo.memory.desk import glimpse
from ohmo.memory.notes import NotRemembered
from ohmo.tools.inputs import PydanticTool, SafeText
from ohmo.tools.results import description, error_result, in_thread, os_message, text_result
from ohmo.tools.workbench import MemoryDoor, Workbench, has_memory, memory_of


class MemorySearchInput(BaseModel):
    model_config = ConfigDict(extra="forbid", title="MemorySearch", defer_build=True)
    query: SafeText = Field(max_length=1_000)
    limit: int = Field(default=5, ge=1, le=20)


class MemorySearch(PydanticTool):
    name = "MemorySearch"
    input = MemorySearchInput

    ready = staticmethod(has_memory)

    def __init__(self, workbench: Workbench) -> None:
        self._door = MemoryDoor(memory_of(workbench), workbench)
        self.description = description("MemorySearch")

    def footprint(self, arguments: MemorySearchInput, cwd: Path) -> Footprint:  # noqa: ARG002
        return Footprint(effect="none")

    async def run(self, arguments: MemorySearchInput, context: CallContext) -> ToolOutput:
        scopes = await self._door.scopes(context)
        memory = self._door.memory
        try:
            found = await in_thread(lambda: memory.search(scopes, arguments.query, arguments.limit))
        except NotRemembered as error:
            return error_result(context, str(error))
        except OSError as error:
            return error_result(context, os_message(error, memory.root))
        lines = [glimpse(each) for each in found]
        return text_result(context, "\n".join(lines) or "Nothing that is remembered fits.")


TOOL = MemorySearch
