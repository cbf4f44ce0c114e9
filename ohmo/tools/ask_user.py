"""AskUser: a question to the person; the turn waits parked, for as long as the question lives."""

from __future__ import annotations

from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field

from channels.contract import Choice
from ohmo.contracts.tool import CallContext, Footprint, Question, ToolOutput
from ohmo.tools.inputs import PydanticTool
from ohmo.tools.results import description, error_result, text_result
from ohmo.tools.workbench import Workbench


class AskUserInput(BaseModel):
    model_config = ConfigDict(extra="forbid", title="AskUser", defer_build=True)
    question: str = Field(min_length=1, max_length=2000)
    choices: list[str] = Field(
        default_factory=list, max_length=8, description="short answers to pick from"
    )


class AskUser(PydanticTool):
    name = "AskUser"
    input = AskUserInput

    def __init__(self, workbench: Workbench) -> None:  # noqa: ARG002
        self.description = description("AskUser")

    def footprint(self, arguments: AskUserInput, cwd: Path) -> Footprint:  # noqa: ARG002
        """The gate fills in the digest: only it knows the person."""
        choices = tuple(
            Choice(str(number), label[:75]) for number, label in enumerate(arguments.choices, 1)
        )
        detail = "" if choices else "Answer with a message."
        return Footprint(
            effect="house",
            question=Question("question", arguments.question, detail, choices, digest=""),
        )

    async def run(self, arguments: AskUserInput, context: CallContext) -> ToolOutput:
        word = context.word.strip()
        if not word:
            return error_result(context, "nobody answered")
        picked = (
            arguments.choices[int(word) - 1]
            if word.isdecimal() and 0 < int(word) <= len(arguments.choices)
            else word
        )
        return text_result(context, picked)


TOOL = AskUser
