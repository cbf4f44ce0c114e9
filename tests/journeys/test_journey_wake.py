"""Somebody at the API wakes a mind and says where the answer goes; the same wake again is the same
one."""

from __future__ import annotations

from dataclasses import replace

from channels.contract import Address, ChatId
from ohmo.contracts.arrivals import Wake
from ohmo_testing.house import World, eventually, house
from tests.journeys.conftest import MakeWorld

TEAM = Address("fake", "bot", ChatId("team"))


def wake(life: World, deliver: Address | None) -> Wake:
    place = Address("house", "local", ChatId("triage"))
    return Wake("api:1", "api", place, deliver, "owner", "how is CI?", life.clock())


async def test_an_answer_is_delivered_where_the_wake_says_and_once(world: MakeWorld) -> None:
    life = world("CI is green.")
    async with house(life) as built:
        first = await built.bus.publish_wake(wake(life, TEAM))
        await life.hears("CI is green.", "team")
        assert (await built.bus.publish_wake(wake(life, TEAM))).seq == first.seq
        await life.platform.says("ping")
        await life.hears("echo: ping")
    assert life.texts("team") == ["CI is green."]


async def test_a_wake_that_is_to_be_told_to_nobody_ends_silently(world: MakeWorld) -> None:
    life = world("nothing to report")
    async with house(life) as built:
        accepted = await built.bus.publish_wake(replace(wake(life, None), key="api:2"))

        async def ended() -> bool:
            found = await built.store.arrival(accepted.thread, accepted.seq)
            return found is not None and found.ending == "answered"

        await eventually(ended)
    assert life.platform.chats == {}
