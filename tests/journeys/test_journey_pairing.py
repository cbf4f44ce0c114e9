"""A stranger is told a code; nothing they say reaches the model until the owner lets them in."""

from __future__ import annotations

import re

from ohmo.gateway.access import Policy
from ohmo.gateway.people import PeopleDesk, role_of_next
from ohmo_testing.house import house
from tests.journeys.conftest import MakeWorld


async def test_a_stranger_is_let_in_with_the_code_they_were_told(world: MakeWorld) -> None:
    life = world(policy=Policy(dm="pairing"))
    async with house(life) as built:
        await life.platform.says("hello?", person="eve", chat="dm:eve")
        card = await life.hears("I do not know you yet", "dm:eve")
        assert life.model.requests == []
        code = re.search(r"`([A-Z2-9]{8})`", card.text)
        assert code is not None
        assert (await built.status()).asking == 1
        role = role_of_next("user", chosen=False, owner_named=True)
        people = PeopleDesk(
            built.store, built.store, built.access, life.clock, role, built.bus.publish
        )
        assert await people.pair("WRONGONE") is None
        let_in = await people.pair(code[1])
        assert let_in is not None
        assert let_in.role == "guest"
        await life.hears("You are let in as guest", "dm:eve")
        await life.hears("echo: hello?", "dm:eve")
        await life.platform.says("hello again", person="eve", chat="dm:eve")
        await life.hears("echo: hello again", "dm:eve")
        assert (await built.status()).asking == 0
    async with house(life):
        await life.platform.says("and tomorrow", person="eve", chat="dm:eve")
        await life.hears("echo: and tomorrow", "dm:eve")
