"""TodoWrite and AskUser: what they show, and what a person's word becomes."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tool_calls import Call, judged

from channels.contract import Address, ChatId
from ohmo.contracts.tool import CallContext
from ohmo.tools.catalogue import load_tools
from ohmo.tools.workbench import Workbench


async def test_the_plan_is_shown_in_order_with_its_states(call: Call) -> None:
    todos = [
        {"content": "read", "status": "completed"},
        {"content": "write", "status": "in_progress", "activeForm": "writing"},
        {"content": "test", "status": "pending"},
    ]
    result = await call("TodoWrite", todos=todos)
    assert result.text.splitlines() == [
        "Plan: 1 of 3 done",
        "1. [x] read",
        "2. [>] write",
        "3. [ ] test",
    ]
    assert (await call("TodoWrite", todos=[])).text == "Plan: empty"


async def test_two_steps_at_once_are_refused(call: Call) -> None:
    result = await call(
        "TodoWrite", todos=[{"content": name, "status": "in_progress"} for name in "ab"]
    )
    assert result.error
    assert "`todos`" in result.text


async def test_a_question_carries_its_choices_and_returns_the_one_picked(
    bench: Workbench, context: CallContext
) -> None:
    tool = load_tools(bench)["AskUser"]
    arguments = tool.input.model_validate({"question": "Which colour?", "choices": ["red", "blue"]})
    question = tool.footprint(arguments, context.cwd).question
    assert question is not None
    assert question.kind == "question"
    assert [(choice.value, choice.label) for choice in question.choices] == [
        ("1", "red"),
        ("2", "blue"),
    ]
    assert (await tool.run(arguments, replace(context, word="2"))).result.text == "blue"
    assert (
        await tool.run(arguments, replace(context, word="green, please"))
    ).result.text == "green, please"
    assert (await tool.run(arguments, replace(context, word="7"))).result.text == "7"
    assert (await tool.run(arguments, context)).result.error


@pytest.mark.parametrize(
    ("states", "plan"),
    [
        (["completed", "in_progress", "pending"], (2, 3, "step 2")),
        (["completed", "pending", "pending"], (2, 3, "step 2")),
        (["pending", "completed", "pending"], (1, 3, "step 1")),
        (["completed", "completed"], (2, 2, "step 2")),
        ([], (0, 0, "")),
    ],
)
async def test_a_plan_says_where_it_stands(
    bench: Workbench, context: CallContext, states: list[str], plan: tuple[int, int, str]
) -> None:
    todos = [
        {"content": f"step {number}", "status": state} for number, state in enumerate(states, 1)
    ]
    tool = load_tools(bench)["TodoWrite"]
    found = (await tool.run(tool.input.model_validate({"todos": todos}), context)).plan
    assert found is not None
    assert (found.step, found.total, found.title) == plan


async def test_files_are_shown_as_they_were_and_only_where_somebody_is(
    bench: Workbench, context: CallContext
) -> None:
    here = Address("slack", "T1", ChatId("C1"))

    async def place(thread: str) -> Address | None:
        return {"thread": here, "job": Address("house", "local", ChatId("cron:x"))}.get(thread)

    tool = load_tools(replace(bench, place=place))["Brief"]
    (context.cwd / "a.txt").write_text("first")
    arguments = tool.input.model_validate({"message": "look", "attachments": ["a.txt"]})
    assert tool.footprint(arguments, context.cwd).reads == (context.cwd / "a.txt",)
    ready = judged(tool, arguments, context)
    (post,) = (await tool.run(arguments, ready)).posts
    (context.cwd / "a.txt").write_text("second")
    assert (post.address, post.text, [(path.name, path.read_text()) for path in post.files]) == (
        here,
        "look",
        [("a.txt", "first")],
    )
    nobody = await tool.run(arguments, replace(context, thread="job"))
    assert (nobody.result.error, nobody.posts) == (True, ())
    for wrong in ({}, {"attachments": ["gone.txt"]}, {"attachments": ["."]}):
        given = tool.input.model_validate(wrong)
        made = await tool.run(given, judged(tool, given, context))
        assert (made.result.error, made.posts) == (True, ())


async def test_a_file_that_its_channel_would_not_take_is_not_promised(
    bench: Workbench, context: CallContext
) -> None:
    here = Address("discord", "bot", ChatId("1"))

    async def place(_: str) -> Address | None:
        return here

    (context.cwd / "big.bin").write_bytes(bytes(11))
    tool = load_tools(
        replace(bench, place=place, largest=lambda where: 10 if where == here else None)
    )["Brief"]
    given = tool.input.model_validate({"attachments": ["big.bin"]})
    made = await tool.run(given, judged(tool, given, context))
    assert (made.result.error, made.posts) == (True, ())
    assert "has 11 bytes, discord takes at most 10" in made.result.text
    (context.cwd / "big.bin").write_bytes(bytes(10))
    assert (await tool.run(given, judged(tool, given, context))).posts


def test_without_anybody_to_show_it_to_there_is_no_brief(bench: Workbench) -> None:
    assert "Brief" not in load_tools(bench)
