"""TodoWrite: the plan of the present work, as ordered steps with states; the newest list in the
transcript is the plan."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from ohmo.contracts.tool import CallContext, Footprint, PlanState, ToolOutput
from ohmo.tools.inputs import PydanticTool
from ohmo.tools.results import description, error_result, text_result
from ohmo.tools.workbench import Workbench

_MARKS = {"pending": "[ ]", "in_progress": "[>]", "completed": "[x]"}


class Todo(BaseModel):
    # Other agents' lists carry more keys.
    model_config = ConfigDict(extra="ignore", title="TodoWrite", defer_build=True)
    content: str = Field(min_length=1, max_length=500)
    status: Literal["pending", "in_progress", "completed"]


class TodoWriteInput(BaseModel):
    model_config = ConfigDict(extra="forbid", title="TodoWrite", defer_build=True)
    todos: list[Todo] = Field(max_length=100, description="the whole list, in order")


class TodoWrite(PydanticTool):
    name = "TodoWrite"
    input = TodoWriteInput

    def __init__(self, workbench: Workbench) -> None:  # noqa: ARG002
        self.description = description("TodoWrite")

    def footprint(self, arguments: TodoWriteInput, cwd: Path) -> Footprint:  # noqa: ARG002
        return Footprint(effect="house")

    async def run(self, arguments: TodoWriteInput, context: CallContext) -> ToolOutput:
        todos = arguments.todos
        running = [todo for todo in todos if todo.status == "in_progress"]
        if len(running) > 1:
            return error_result(
                context,
                f"`todos`: {len(running)} steps are in_progress; let one be, the others pending",
            )
        done = sum(todo.status == "completed" for todo in todos)
        lines = [
            f"{number}. {_MARKS[todo.status]} {todo.content}"
            for number, todo in enumerate(todos, 1)
        ]
        text = "\n".join([f"Plan: {done} of {len(todos)} done", *lines]) if todos else "Plan: empty"
        # What is in progress; without such a step the first that is not done; at the end the last.
        numbers = [number for number, todo in enumerate(todos, 1) if todo.status == "in_progress"]
        numbers += [number for number, todo in enumerate(todos, 1) if todo.status == "pending"]
        step = next(iter(numbers), len(todos))
        plan = PlanState(step, len(todos), todos[step - 1].content if step else "")
        return replace(text_result(context, text), plan=plan)


TOOL = TodoWrite
