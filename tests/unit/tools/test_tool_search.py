"""ToolSearch: names bring exactly what they say, words bring the few that fit, and hundreds of
tools cost the first request no more than some."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from tool_calls import Call

from ohmo.contracts.provider import ToolSpec
from ohmo.contracts.tool import CallContext
from ohmo.tools.catalogue import CORE, load_tools, tool_specs
from ohmo.tools.tool_search import (
    LISTING,
    MOST_BY_NAME,
    MOST_BY_WORDS,
    ToolSearch,
    listed,
    nearest,
    ranked,
)
from ohmo.tools.workbench import Workbench

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"owner": {"type": "string", "description": "who has the repository"}},
}


def spec(name: str, description: str = "", *, deferred: bool = True) -> ToolSpec:
    return ToolSpec(name, description, SCHEMA, deferred=deferred)


HOUSE = (
    spec("Read", "Reads a text file.", deferred=False),
    spec(
        "CronCreate",
        "Make a job that runs later or regularly, in the zone of the person. Give one of schedule,"
        " at, every.",
    ),
    spec("CronDelete", "Remove a job."),
    spec("CronList", "List jobs, or the runs of one."),
    spec("Brief", "Shows the person something now: a message, and files."),
    spec("mcp__github__create_issue", "Opens an issue in a repository."),
    spec("mcp__github__list_issues", "Lists issues."),
    spec("mcp__wetter__heute", "Thời tiết hôm nay 今天天气"),
)
MANY = tuple(
    spec(f"mcp__server{number // 50}__tool_{number}", f"Does thing number {number} for you.")
    for number in range(400)
)


def knowing(
    context: CallContext, tools: tuple[ToolSpec, ...] = HOUSE, *, shown: tuple[str, ...] = ()
) -> CallContext:
    return replace(
        context,
        tools=tools,
        hidden=frozenset(tool.name for tool in tools if tool.deferred and tool.name not in shown),
    )


@pytest.mark.parametrize(
    "query",
    [
        "select:CronCreate,CronList",
        "select: croncreate , CRONLIST",
        "CronCreate, CronList",
        "CronCreate CronList",
    ],
)
async def test_names_bring_exactly_those(call: Call, context: CallContext, query: str) -> None:
    result = await call("ToolSearch", context=knowing(context), query=query)
    assert result.tools == ("CronCreate", "CronList")
    assert not result.error
    assert "Make a job" in result.text


async def test_a_name_that_is_not_there_is_said_with_the_nearest_and_the_others_come(
    call: Call, context: CallContext
) -> None:
    result = await call("ToolSearch", context=knowing(context), query="select:CronCraete,CronList")
    assert result.tools == ("CronList",)
    assert "CronCraete: there is no such tool; did you mean CronCreate" in result.text
    alone = await call("ToolSearch", context=knowing(context), query="select:Nonsense")
    assert alone.error
    assert alone.tools == ()


async def test_what_is_not_set_up_costs_no_byte_of_the_prompt(bench: Workbench) -> None:
    there = tool_specs(load_tools(bench))
    assert "WebSearch" not in "".join(tool.name + tool.description for tool in there)


async def test_a_tool_that_is_there_already_is_not_brought_again(
    call: Call, context: CallContext
) -> None:
    result = await call(
        "ToolSearch",
        context=knowing(context, shown=("CronList",)),
        query="select:Read,CronList,Brief",
    )
    assert result.tools == ("Brief",)
    assert result.text.count("you have it already") == 2


@pytest.mark.parametrize(
    ("query", "tool", "wants"),
    [
        ("search the web for hotels", "WebSearch", "web_search.provider in config.yaml"),
        ("select:WebSearch", "WebSearch", "web_search.provider in config.yaml"),
        ("generate an image", "ImageGeneration", "images.model in config.yaml"),
        ("trigger a remote house", "RemoteTrigger", "remotes in config.yaml"),
    ],
)
async def test_a_tool_that_nobody_has_set_up_is_told_of_with_its_key_when_it_is_looked_for(
    call: Call, context: CallContext, query: str, tool: str, wants: str
) -> None:
    result = await call("ToolSearch", context=knowing(context), query=query)
    assert not result.error
    assert f"- {tool}: not set up, so you cannot call it; say so. It wants {wants}" in result.text
    assert tool not in result.tools
    other = await call("ToolSearch", context=knowing(context), query="make a scheduled job")
    assert "not set up" not in other.text


@pytest.mark.parametrize(
    ("words", "first"),
    [
        ("make a scheduled job", "CronCreate"),
        ("delete cron job", "CronDelete"),
        ("github issue create", "mcp__github__create_issue"),
        ("show a picture to the person", "Brief"),
        ("thoi tiet hom nay", "mcp__wetter__heute"),
        ("天气", "mcp__wetter__heute"),
    ],
)
async def test_words_bring_what_fits_best_first(
    call: Call, context: CallContext, words: str, first: str
) -> None:
    result = await call("ToolSearch", context=knowing(context), query=words)
    assert result.tools[:1] == (first,)
    assert len(result.tools) <= MOST_BY_WORDS


async def test_words_find_what_is_not_shown_yet_before_what_is(
    call: Call, context: CallContext, bench: Workbench
) -> None:
    tools = tool_specs(load_tools(bench))
    assert (
        await call("ToolSearch", context=knowing(context, tools), query="background command")
    ).tools == ("BashOutput", "KillShell")
    known = await call("ToolSearch", context=knowing(context, tools), query="ask user")
    assert known.tools == ()
    assert "AskUser: you have it already" in known.text
    assert "- ToolSearch" not in known.text


async def test_words_about_nothing_say_what_there_is(call: Call, context: CallContext) -> None:
    result = await call("ToolSearch", context=knowing(context), query="xylophone")
    assert result.error
    assert "CronCreate" in result.text


async def test_a_turn_that_may_use_less_finds_less(call: Call, context: CallContext) -> None:
    result = await call(
        "ToolSearch",
        context=knowing(context, HOUSE[:1] + HOUSE[3:4]),
        query="select:CronList,CronCreate",
    )
    assert result.tools == ("CronList",)
    assert "CronCreate: there is no such tool" in result.text


async def test_hundreds_of_tools_are_found_but_not_brought_together(
    call: Call, context: CallContext
) -> None:
    result = await call("ToolSearch", context=knowing(context, MANY), query="tool 137")
    assert result.tools[0] == "mcp__server2__tool_137"
    assert len(result.tools) <= MOST_BY_WORDS
    everything = await call(
        "ToolSearch",
        context=knowing(context, MANY),
        query="select:" + ",".join(tool.name for tool in MANY[:30]),
    )
    assert len(everything.tools) == MOST_BY_NAME
    assert everything.text.count("not brought") == 10


def test_the_list_of_names_has_a_bound_however_many_there_are() -> None:
    few = listed(HOUSE[1:5])
    assert "CronList (List jobs, or the runs of one)" in few
    some = listed(MANY[:50])
    assert some.startswith("mcp__server0__tool_0, mcp__server0__tool_1")
    many = listed((*HOUSE[1:4], *MANY))
    assert many.startswith("CronCreate, CronDelete, CronList, mcp__server0__* (50)")
    assert max(map(len, (few, some, many))) <= LISTING


def test_nothing_scores_without_a_word_in_common() -> None:
    assert ranked("xylophone", HOUSE) == []
    assert ranked("", HOUSE) == []
    assert nearest("bahs", ["Bash", "Read"]) == ["Bash"]


def test_the_core_is_shown_and_all_else_is_named_by_the_search(bench: Workbench) -> None:
    specs = {tool.name: tool for tool in tool_specs(load_tools(bench))}
    shown = {name for name, tool in specs.items() if not tool.deferred}
    assert shown == set(CORE) - {"Skill"}  # this bench has no skills
    for name, tool in specs.items():
        assert (f" {name} (" in specs["ToolSearch"].description) is tool.deferred


def test_without_anything_to_find_there_is_no_search(bench: Workbench) -> None:
    tools = {name: tool for name, tool in load_tools(bench).items() if name in CORE}
    assert ToolSearch.name not in {tool.name for tool in tool_specs(tools)}


async def test_a_command_left_running_brings_the_tools_that_look_after_it(
    call: Call, context: CallContext
) -> None:
    result = await call("Bash", context=context, command="sleep 60", run_in_background=True)
    assert result.tools == ("BashOutput", "KillShell")
    name = result.text.split(" as ")[1].split(";")[0]
    assert not (await call("KillShell", context=context, shell_id=name)).error
