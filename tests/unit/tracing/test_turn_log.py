"""The log tells what turns do, and nothing that was said."""

from __future__ import annotations

from structlog.testing import capture_logs

from channels.contract import Address, ChatId
from ohmo.contracts.agent import (
    Failure,
    ModelDone,
    TextDelta,
    ToolDone,
    ToolRefused,
    ToolStarted,
    TurnEnded,
    TurnStarted,
)
from ohmo.contracts.messages import ToolResult, Usage
from ohmo.tracing.turn_log import TurnLog


def test_a_turn_leaves_a_line_for_each_tool_each_failure_and_its_end_and_no_words_of_anybody() -> (
    None
):
    now = [100.0]
    log = TurnLog(lambda: now[0])
    with capture_logs() as lines:
        log.event("thread1", TurnStarted("turn1", "ada", Address("slack", "T1", ChatId("C1"))))
        log.event("thread1", TextDelta("turn1", "my secret plan"))
        log.event(
            "thread1", ModelDone("turn1", "my secret plan", Usage("m", "turn", 10, 20, 3, 4, 5))
        )
        log.event("thread1", ToolStarted("turn1", "call1", "Bash", "cat diary"))
        log.event("thread1", ToolRefused("turn1", "call2", "Write", "diary"))
        now[0] += 1.5
        log.event(
            "thread1", ToolDone("turn1", "call2", ToolResult("call2", "Not allowed", error=True))
        )
        log.event("thread1", ToolDone("turn1", "call1", ToolResult("call1", "dear diary")))
        log.event("thread1", Failure("turn1", "m: cannot be reached", fatal=False))
        now[0] += 0.5
        log.event("thread1", TurnEnded("turn1", "answered", "dear diary"))
        log.event("thread1", TurnEnded("unheard", "answered", "x"))
    place = {"turn": "turn1", "thread": "thread1", "channel": "slack"}
    assert lines == [
        {
            "log_level": "info",
            "event": "tool_ended",
            **place,
            "tool": "Write",
            "ok": False,
            "seconds": 1.5,
        },
        {
            "log_level": "info",
            "event": "tool_ended",
            **place,
            "tool": "Bash",
            "ok": True,
            "seconds": 1.5,
        },
        {
            "log_level": "warning",
            "event": "turn_failure",
            **place,
            "error": "m: cannot be reached",
            "fatal": False,
        },
        {
            "log_level": "info",
            "event": "turn_ended",
            **place,
            "outcome": "answered",
            "seconds": 2.0,
            "model_calls": 1,
            "tokens": 37,
        },
    ]
