"""Whatever a model or a platform said can be shown by the API; the numbers told from events of turns."""

from __future__ import annotations

import json
from dataclasses import fields
from pathlib import Path
from typing import Any, get_args, get_type_hints

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ohmo.contracts.agent import (
    CompactionProgress,
    Event,
    TextDelta,
    ToolDone,
    ToolRefused,
    ToolStarted,
    TurnEnded,
    TurnStarted,
)
from ohmo.contracts.messages import Image, ToolResult, Usage
from ohmo.contracts.reports import Counts
from ohmo.control.metrics import Metrics
from ohmo.control.responses import dumps
from tests.unit.control.small_house import SmallHouse

VALUES: dict[str, Any] = {
    "usage": Usage("m", "turn", 1, 2, 3, 4, 5),
    "result": ToolResult(
        "turn.1",
        "x",
        images=(Image(Path("/a.png"), "image/png"),),
        spill=Path("/s.txt"),
        tools=("CronList",),
    ),
    "fatal": True,
    "step": 1,
    "total": 2,
    "phase": "compact_retry",
    "outcome": "answered",
}


@settings(deadline=None)
@given(
    st.text(st.characters(exclude_categories=()) | st.sampled_from('\ud83d\udc00\x00"\\\n\u2028'))
)
def test_any_text_is_valid_utf8_json_on_one_line_and_comes_back_as_it_was(text: str) -> None:
    line = dumps(TextDelta("turn", text)).encode()
    assert b"\n" not in line
    assert b"\r" not in line
    assert json.loads(line)["text"].encode("utf-16", "surrogatepass") == text.encode(
        "utf-16", "surrogatepass"
    )


@pytest.mark.parametrize("kind", get_args(Event))
def test_every_event_is_json_and_says_its_turn_and_its_call(kind: type) -> None:
    names = [field.name for field in fields(kind)]
    assert names[0] == "turn"
    assert ("call" in names) is (kind.__name__.startswith("Tool") or kind.__name__ == "PlanUpdated")
    wanted = {
        field.name: VALUES.get(field.name, field.name)
        for field in fields(kind)
        if field.name not in ("address", "seconds")
    }
    told = json.loads(dumps(kind(**wanted)))
    assert told["turn"] == "turn"
    assert set(names) <= set(told)
    with pytest.raises(AttributeError):
        kind(**wanted).turn = "other"


def test_compaction_has_its_nine_phases() -> None:
    phases = get_args(get_type_hints(CompactionProgress)["phase"])
    assert len(phases) == 9
    assert {"context_collapse_start", "session_memory_end", "compact_failed"} < set(phases)


async def test_a_refused_call_does_not_end_the_time_of_tools_that_run() -> None:
    now = 0.0
    metrics = Metrics(monotonic=lambda: now)
    metrics.event("t", TurnStarted("u", "owner"))
    metrics.event("t", ToolStarted("u", "slow", "Bash", "make"))
    metrics.event("t", ToolRefused("u", "no", "Bash", "rm -r /"))
    metrics.event("t", ToolDone("u", "no", ToolResult("no", "Not allowed", error=True)))
    now = 50.0
    metrics.event("t", ToolDone("u", "slow", ToolResult("slow", "built")))
    now = 50.25
    metrics.event("t", TurnEnded("u", "answered", "built"))
    text = metrics.scrape(Counts({}, {}, None, 0, 0), await SmallHouse().status()).decode()
    assert "ohmo_turn_seconds_sum 50.25" in text
    assert "ohmo_overhead_seconds_sum 0.25" in text
