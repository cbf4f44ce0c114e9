"""A stranger is told a code; nothing they say reaches the model until the owner lets them in."""

from __future__ import annotations

import re
from collections.abc import Callable

from ohmo.assembly.doors import HousePeople
from ohmo.gateway.access import Policy
from ohmo.testing import World, house


async def test_a_stranger_is_let_in_with_the_code_they_were_told(world: Callable[..., World]) -> None:
    life = world(policy=Policy(dm="pairing"))
    async with house(life) as built:
        await life.platform.says("hello?", person="eve", chat="dm:eve")
        card = await life.hears("I do not know you yet", "dm:eve")
        assert life.model.requests == []
        code = re.search(r"`([A-Z2-9]{8})`", card.text)
        assert code is not None
        assert (await built.truth()).asking == 1
        people = HousePeople(built.store, built.access, life.clock, "user")
        assert await people.pair("WRONGONE") is None
        assert await people.pair(code[1]) is not None
        await life.platform.says("hello again", person="eve", chat="dm:eve")
        await life.hears("echo: hello again", "dm:eve")
        assert (await built.truth()).asking == 0
    async with house(life):
        await life.platform.says("and tomorrow", person="eve", chat="dm:eve")
        await life.hears("echo: and tomorrow", "dm:eve")
