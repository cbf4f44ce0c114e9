"""T3: what a turn says while it runs. Each event names its turn, tool events their call, and all of
it is JSON."""

from __future__ import annotations

import asyncio
import json

from ohmo.contracts.agent import (
    Event,
    Failure,
    ModelDone,
    PlanUpdated,
    TextDelta,
    ToolDone,
    ToolProgress,
    ToolRefused,
    ToolStarted,
    TurnEnded,
    TurnStarted,
)
from ohmo.contracts.errors import BadKey
from ohmo.control.responses import encode
from ohmo_testing.house import World, eventually, house
from ohmo_testing.scripted import Says
from tests.journeys.conftest import MakeWorld

TODOS = {
    "todos": [
        {"content": "look", "status": "completed"},
        {"content": "tell", "status": "in_progress"},
    ]
}


async def watched(world: World, said: str) -> list[Event]:
    """Everything the turn said."""
    heard: list[Event] = []
    async with house(world) as built:

        async def listen() -> None:
            with built.bus.outbound.listen() as events:
                async for _, event in events:
                    heard.append(event)

        ear = asyncio.create_task(listen())
        await asyncio.sleep(0)
        await world.platform.says(said)
        await eventually(lambda: any(isinstance(event, TurnEnded) for event in heard))
        ear.cancel()
        await asyncio.wait([ear])
    return heard


async def test_start_and_end_of_each_call_match_and_the_plan_is_told(world: MakeWorld) -> None:
    calls = (
        ("Glob", {"pattern": "*.py"}),
        ("TodoWrite", TODOS),
        ("Bash", {"command": "printf 'one\\ntwo\\n'"}),
        ("Fly", {}),
    )
    heard = await watched(
        world(Says("Looking.", calls=calls), "Done.", config="permissions: {allow: [Bash]}\n"),
        "look",
    )
    assert len({event.turn for event in heard}) == 1
    assert isinstance(heard[0], TurnStarted)
    assert isinstance(heard[-1], TurnEnded)
    begun = {
        event.call: event.name for event in heard if isinstance(event, ToolStarted | ToolRefused)
    }
    assert list(begun.values()).count("Fly") == 1
    assert sorted(begun) == sorted(event.call for event in heard if isinstance(event, ToolDone))
    assert {event.call for event in heard if isinstance(event, ToolProgress)} <= set(begun)
    (plan,) = [event for event in heard if isinstance(event, PlanUpdated)]
    assert (begun[plan.call], plan.step, plan.total, plan.title) == ("TodoWrite", 2, 2, "tell")
    assert "".join(event.text for event in heard if isinstance(event, TextDelta)) == "Looking.Done."
    assert [event.text for event in heard if isinstance(event, ModelDone)] == ["Looking.", "Done."]
    assert all(json.loads(json.dumps(encode(event)))["turn"] == heard[0].turn for event in heard)


async def test_a_turn_that_cannot_go_on_says_so_as_an_error(world: MakeWorld) -> None:
    heard = await watched(world(BadKey("The key was refused.")), "hello")
    assert [(event.text, event.fatal) for event in heard if isinstance(event, Failure)] == [
        ("The key was refused.", True)
    ]
    assert isinstance(heard[-1], TurnEnded)
    assert heard[-1].outcome == "failed"
