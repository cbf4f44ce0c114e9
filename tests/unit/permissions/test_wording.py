"""What a card says about a call."""

from __future__ import annotations

from pathlib import Path

from ohmo.contracts.messages import ToolCall
from ohmo.contracts.tool import CallContext
from ohmo.permissions.ruling import Ruling
from ohmo.permissions.wording import detail_of, title_of

CONTEXT = CallContext("t", "c", "th", "ada", Path("/w"), 0.0, "default", "owner", "s", lambda _: None)


def test_an_edit_that_only_takes_away_says_so_and_flags_that_are_off_are_left_out() -> None:
    call = ToolCall("t.1", "Edit", {"file_path": "a", "old_string": "milk", "new_string": "", "replace_all": False}, "f")
    lines = detail_of(call, CONTEXT, Ruling("ask", "mode", "default", "it may change something")).split("\n")
    assert lines == ["file_path: `a`", "old_string: `milk`", "new_string: (empty)", "in `/w`: it may change something (mode: default)"]


def test_what_nobody_sees_in_a_command_is_written_out_before_somebody_allows_it() -> None:
    hidden = "\u202e\u2066\u200b\r\x1b\U000e0041\ud800"
    call = ToolCall("t.1", "Bash", {"command": f"ls a{hidden}b"}, "f")
    written = r"`ls a\u202e\u2066\u200b\r\x1b\U000e0041\ud800b`"
    assert f"command: {written}" in detail_of(call, CONTEXT, Ruling("ask", "mode"))
    assert title_of(call) == f"Bash: {written.strip('`')}"


def test_letters_and_emoji_that_need_joiners_stay_as_they_are() -> None:
    text = "\u06a9\u062a\u0627\u0628\u200c\u0647\u0627 \U0001f468\u200d\U0001f469 \u05e9\u05dc\u05d5\u05dd\tx"
    assert f"`{text}`" in detail_of(ToolCall("t", "Write", {"content": text}, "f"), CONTEXT, Ruling("ask", "mode"))
