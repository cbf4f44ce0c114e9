"""One line per tool call, at most twenty, and a footer that is always there."""

from __future__ import annotations

import pytest

from channels.text import parse
from ohmo.contracts.messages import CallResult, ModelStep, Text, ToolCall, ToolResult, Usage
from ohmo.contracts.turns import TurnCost
from ohmo.gateway.draft_updates import ACTIVITY_LINES, Activity, footer, footnote, icon

USAGE = Usage("m", "turn", 1_000, 200, 34, 56, 0)


def worked(calls: int) -> TurnCost:
    steps: list[ModelStep | CallResult] = []
    for number in range(calls):
        steps.append(
            ModelStep(
                (ToolCall(str(number), "Read", {"file_path": f"/w/{number}"}, ""),), "m", "tools"
            )
        )
        steps.append(CallResult(ToolResult(str(number), "a\nb\n")))
    return TurnCost(tuple(steps), 1_234, 56, 12.4).and_then(
        (ModelStep((Text("done"),), "m", "end"),), None
    )


def test_a_line_has_an_icon_the_tool_its_argument_and_how_many_lines_came_back() -> None:
    seen = Activity()
    seen.started("1", "Bash", "ls -la")
    seen.started("2", "Read", "/etc/hosts")
    assert seen.shown(0).splitlines()[:2] == ["💻 Bash `ls -la`", "📖 Read `/etc/hosts`"]
    seen.ended("2", ToolResult("2", "one\ntwo\n"))
    seen.ended("1", ToolResult("1", "no such file", error=True))
    assert seen.shown(0).splitlines()[:2] == [
        "💻 Bash `ls -la` ✗ 1 line",
        "📖 Read `/etc/hosts` → 2 lines",
    ]


def test_a_long_shell_line_is_cut_at_120_characters_and_line_breaks_are_shown() -> None:
    seen = Activity()
    seen.started("1", "Bash", "cd /tmp\necho " + "x" * 200)
    code = seen.shown(0).splitlines()[0].split("`")[1]
    assert len(code) == 120
    assert code.startswith("cd /tmp ↵ echo xxx")
    assert code.endswith("…")


def test_after_twenty_lines_the_rest_is_counted_before_the_footer() -> None:
    seen = Activity()
    for number in range(25):
        seen.started(str(number), "Read", str(number))
    seen.asked(USAGE)
    lines = seen.shown(7.4).splitlines()
    assert len(lines) == ACTIVITY_LINES + 2
    assert lines[-2:] == ["+5 more", "_1.2k in / 56 out · 7 s · 1 turn · 25 calls_"]


def test_nothing_is_shown_of_a_turn_without_tools() -> None:
    seen = Activity()
    seen.asked(USAGE)
    assert seen.shown(5) == ""
    seen.line = "the model is busy"
    assert seen.shown(5) == "_the model is busy_"


@pytest.mark.parametrize("argument", ["echo `date`", "``", "a*b*c _d_ <b> [x](y)", "` `", "~~~"])
def test_an_argument_is_never_markup(argument: str) -> None:
    seen = Activity()
    seen.started("1", "Bash", argument)
    paragraph = parse(seen.shown(0).splitlines()[0]).children[0].children[0]
    assert [child.content for child in paragraph.children if child.type == "code_inline"] == [
        argument.strip()
    ]


@pytest.mark.parametrize(
    ("tool", "sign"),
    [("Bash", "💻"), ("mcp__git__log", "🔌"), ("CronCreate", "⏰"), ("Whatever", "🔧")],
)
def test_each_kind_of_tool_has_an_icon(tool: str, sign: str) -> None:
    assert icon(tool) == sign


@pytest.mark.parametrize(
    ("count", "shown"),
    [
        (0, "0"),
        (999, "999"),
        (1_000, "1.0k"),
        (999_949, "999.9k"),
        (999_950, "1.0M"),
        (2_500_000, "2.5M"),
    ],
)
def test_tokens_are_told_short(count: int, shown: str) -> None:
    assert footer(count, 0, 0, 0, 0).startswith(f"_{shown} in")


def test_beneath_an_answer_stands_the_footer_and_the_lines_when_they_are_to_be_kept() -> None:
    foot = "_1.2k in / 56 out · 12 s · 3 turns · 2 calls_"
    assert footnote("live", worked(2)) == foot
    assert footnote("keep", worked(2)).splitlines() == [
        "📖 Read `/w/0` → 2 lines",
        "📖 Read `/w/1` → 2 lines",
        foot,
    ]
    assert footnote("keep", worked(25)).splitlines()[ACTIVITY_LINES] == "+5 more"
    assert footnote("off", worked(2)) == footnote("live", worked(0)) == ""


def test_the_name_of_a_tool_that_does_not_exist_is_no_markup() -> None:
    seen = Activity()
    seen.started("c", "@everyone\n[x](https://evil.example) `", "ls")
    assert seen.shown(1.0).splitlines()[0] == "🔧 everyonexhttps:evil.example `ls`"
