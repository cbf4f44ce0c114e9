"""Those who watch turns fall asleep or raise; turns, pages and other watchers go on."""

from __future__ import annotations

import asyncio
from pathlib import Path

from structlog.testing import capture_logs

from ohmo.contracts.agent import Event, TextDelta, TurnStarted
from ohmo.control.event_hub import EventHub
from ohmo.lifecycle import follow
from ohmo_testing.channels import FakePlatform
from ohmo_testing.house import ManualClock, World, house
from tests.unit.control.small_house import SmallHouse


def raises(thread: str, event: Event) -> None:
    raise RuntimeError(f"{thread}: {event.turn}")


async def test_metrics_that_raise_end_no_stream() -> None:
    kept: list[str] = []

    def keeps(thread: str, _: Event) -> None:
        kept.append(thread)

    watchers = {"metrics": raises, "log": keeps}
    with capture_logs() as logs:
        hub = EventHub(SmallHouse(), watchers, "life")
        with hub.listen("t") as stream:
            said = [TurnStarted("turn", "ada"), TextDelta("turn", "word")]
            for event in said:
                hub.hear("t", event)
            told = [entry.event for entry in stream.take()]
    assert told == said
    assert kept == ["t", "t"]
    assert [each["watcher"] for each in logs if each["event"] == "watcher_failed"] == ["metrics"]


async def test_turns_of_the_house_are_answered_beside_watchers_that_sleep_or_raise(
    tmp_path: Path,
) -> None:
    clock = ManualClock()
    config = "limits: {queue: 4}\n"
    world = World(tmp_path / "home", FakePlatform(clock=clock), clock=clock, config=config)
    async with house(world) as built:
        stream = built.bus.outbound
        asleep = stream.listen("sleeps")
        with asleep:
            failing = asyncio.create_task(follow("raises", stream.listen, raises))
            await asyncio.sleep(0)
            for number in range(5):
                await world.platform.says(f"message {number}.")
                await world.hears(f"message {number}.")
            assert not failing.done()
            failing.cancel()
            await asyncio.wait([failing])
            lost = stream.dropped
        assert lost > 0
        assert stream.dropped == lost  # also when the sleeper has gone
