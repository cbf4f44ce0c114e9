"""What a card says about a call."""

from __future__ import annotations

from pathlib import Path

from ohmo.contracts.messages import ToolCall
from ohmo.contracts.tool import CallContext
from ohmo.permissions.ruling import Ruling
from ohmo.permissions.wording import detail_of

CONTEXT = CallContext("t", "c", "th", "ada", Path("/w"), 0.0, "default", "owner", "s", lambda _: None)


def test_an_edit_that_only_takes_away_says_so_and_flags_that_are_off_are_left_out() -> None:
    call = ToolCall("t.1", "Edit", {"file_path": "a", "old_string": "milk", "new_string": "", "replace_all": False}, "f")
    lines = detail_of(call, CONTEXT, Ruling("ask", "mode", "default", "it may change something")).split("\n")
    assert lines == ["file_path: `a`", "old_string: `milk`", "new_string: (empty)", "in `/w`: it may change something (mode: default)"]
