"""What a card says about a call."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from channels.text import parse
from ohmo.contracts.messages import ToolCall
from ohmo.contracts.tool import CallContext
from ohmo.permissions.rules import Ruling
from ohmo.permissions.wording import argument, detail_of, title_of, visible

CONTEXT = CallContext(
    "t", "c", "th", "ada", Path("/w"), 0.0, "default", "owner", "s", lambda _: None
)


def bash(command: str) -> ToolCall:
    return ToolCall("t.1", "Bash", {"command": command}, "f")


ASKED = Ruling("ask", "mode", "default", "it may change something")


def test_an_edit_that_only_takes_away_says_so_and_a_switch_that_is_off_is_shown() -> None:
    given = {
        "file_path": "a",
        "old_string": "milk",
        "new_string": "",
        "replace_all": False,
        "n": None,
    }
    lines = detail_of(ToolCall("t.1", "Edit", given, "f"), CONTEXT, ASKED).split("\n")
    assert lines == [
        "file_path: `a`",
        "old_string: `milk`",
        "new_string: (empty)",
        "replace_all: `False`",
        "in `/w`: it may change something (mode: default)",
    ]


def test_what_nobody_sees_in_a_command_is_written_out_before_somebody_allows_it() -> None:
    hidden = "\u202e\u2066\u200b\r\x1b\U000e0041\ud800"
    call = ToolCall("t.1", "Bash", {"command": f"ls a{hidden}b"}, "f")
    written = r"`ls a\u202e\u2066\u200b\r\x1b\U000e0041\ud800b`"
    assert f"command: {written}" in detail_of(call, CONTEXT, Ruling("ask", "mode"))
    assert title_of(call) == f"Bash: {written.strip('`')}"


@given(
    st.text(min_size=1, max_size=400), st.integers(1, 50), st.sampled_from(["command", "content"])
)
def test_an_argument_is_shown_whole_and_nothing_in_it_leaves_its_place(
    text: str, times: int, name: str
) -> None:
    text *= times
    (shown,) = [
        node for node in parse(argument(name, text)).walk() if node.type in ("fence", "code_inline")
    ]
    end = "\n" if shown.type == "fence" else ""
    assert shown.content == visible(text, exact=name == "command") + end
    assert len(parse(f"{argument(name, text)}\nlast: `x`").children) == (
        1 if shown.type == "code_inline" else 3
    )


@pytest.mark.parametrize("lines", [1, 2, 5000])
def test_a_title_says_how_many_lines_and_characters_it_leaves_out(lines: int) -> None:
    command = "\n".join(["echo " + "x" * 200, *["rm -rf y"] * (lines - 1)])
    more = {1: "", 2: ", 1 line", 5000: ", 4999 lines"}[lines]
    assert title_of(bash(command)) == f"Bash: echo {'x' * 115}… (+85 characters{more})"
    assert command in detail_of(bash(command), CONTEXT, ASKED)


def test_a_title_of_one_short_line_stands_alone() -> None:
    assert title_of(bash(" make test\n")) == "Bash: make test"
    assert title_of(ToolCall("t", "TodoWrite", {"todos": []}, "f")) == "TodoWrite"


def test_why_somebody_is_asked_and_the_name_of_an_argument_hold_no_markup() -> None:
    ruling = Ruling(
        "ask", "sensitive", "[x](https://e.io)\n\n**ok**", "it says \u202e[y](https://f.io)"
    )
    call = ToolCall("t", "mcp__a__b", {"go\n\n[z](https://g.io)": "1"}, "f")
    detail = detail_of(call, CONTEXT, ruling)
    kinds = {node.type for node in parse(detail).walk()}
    assert kinds <= {"root", "paragraph", "inline", "text", "code_inline", "softbreak"}
    assert "\u202e" not in detail
