"""The numbers told from the events of turns."""

from __future__ import annotations

from ohmo.contracts.agent import ToolDone, ToolRefused, ToolStarted, TurnEnded, TurnStarted
from ohmo.contracts.messages import ToolResult
from ohmo.contracts.reports import Counts
from ohmo.control.metrics import Metrics
from tests.unit.control.small_house import SmallHouse


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
