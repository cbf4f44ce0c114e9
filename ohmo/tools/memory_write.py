"""MemoryWrite: a note for later sessions; where foreign words stand in this one, the proposal of
one that a person accepts."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from ohmo.contracts.messages import ToolResult
from ohmo.contracts.tool import CallContext, Footprint, ToolOutput
from ohmo.memory.desk import Found
from ohmo.memory.notes import LONGEST, Note, NotRemembered
from ohmo.tools.inputs import PydanticTool, SafeText
from ohmo.tools.results import description, error_result, in_thread, os_message, text_result
from ohmo.tools.workbench import MemoryDoor, Workbench, has_memory, memory_of


class MemoryWriteInput(BaseModel):
    model_config = ConfigDict(extra="forbid", title="MemoryWrite", defer_build=True)
    subject: SafeText = Field(max_length=120)
    content: SafeText = Field(max_length=LONGEST)
    description: str = Field(default="", max_length=300, description="one line for the index")
    aliases: list[SafeText] = Field(
        default_factory=list[SafeText], max_length=10, description="other words for it"
    )
    about: Literal["", "person", "chat", "workspace"] = Field(
        default="", description="whose note; default: this person in private, else this chat"
    )


class MemoryWrite(PydanticTool):
    name = "MemoryWrite"
    input = MemoryWriteInput

    ready = staticmethod(has_memory)

    def __init__(self, workbench: Workbench) -> None:
        self._door = MemoryDoor(memory_of(workbench), workbench)
        self.description = description("MemoryWrite")

    def footprint(self, arguments: MemoryWriteInput, cwd: Path) -> Footprint:  # noqa: ARG002
        return Footprint(effect="repeatable")

    async def run(self, arguments: MemoryWriteInput, context: CallContext) -> ToolOutput:
        if why := self._door.closed(context):
            return error_result(context, why)
        scopes = await self._door.scopes(context)
        about = arguments.about or scopes[0].label
        scope = next((scope for scope in scopes if scope.label == about), None)
        if scope is None:
            labels = ", ".join(scope.label for scope in scopes)
            return error_result(context, f"`about`: {about} is not to be had here, only {labels}")
        note = Note(
            scope.folder,
            "",
            " ".join(arguments.subject.split()),
            arguments.content,
            " ".join(arguments.description.split()),
            tuple(arguments.aliases),
        )
        memory = self._door.memory
        said = await self._door.said(context)
        try:
            written = await in_thread(lambda: memory.write(scope, note, said))
        except NotRemembered as error:
            return error_result(context, f"not remembered: {error}")
        except OSError as error:
            return error_result(context, os_message(error, memory.root))
        if isinstance(written, Found):
            return text_result(context, f"Remembered as {written.called}.")
        text, posts = await self._door.proposed(written, context)
        return ToolOutput(ToolResult(context.call, text), posts)


TOOL = MemoryWrite
