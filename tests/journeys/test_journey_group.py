"""A group: only what is addressed is answered, in the thread where it was said; with per_person
scope each has a mind of their own."""

from __future__ import annotations

from ohmo.contracts.messages import Text, UserStep
from ohmo.contracts.provider import ModelRequest
from ohmo_testing.house import house
from tests.journeys.conftest import MakeWorld


def told(request: ModelRequest) -> str:
    return "\n".join(
        block.text
        for step in request.steps
        if isinstance(step, UserStep)
        for block in step.blocks
        if isinstance(block, Text)
    )


async def test_a_mention_in_a_thread_is_answered_in_that_thread_and_chatter_is_not(
    world: MakeWorld,
) -> None:
    life = world("It is green.")
    async with house(life):
        await life.platform.says("lunch?", chat="team", person="bob", topic="t1", mention=False)
        await life.platform.says("@ohmo is CI green?", chat="team", person="ada", topic="t1")
        await life.hears("It is green.", "team")
    assert [(said.text, said.topic) for said in life.bot("team")] == [("It is green.", "t1")]
    assert "\nAda:\n@ohmo is CI green?" in told(life.model.requests[0])
    assert len(life.model.requests) == 1


async def test_two_people_share_a_thread_unless_each_is_to_have_their_own(world: MakeWorld) -> None:
    life = world(config="sessions: {scope: per_person}\n")
    async with house(life):
        await life.platform.says("@ohmo my secret is blue", chat="team", person="ada")
        await life.hears("my secret is blue", "team")
        await life.platform.says("@ohmo what do you know?", chat="team", person="bob")
        await life.hears("what do you know?", "team")
        await life.platform.says("@ohmo and of me?", chat="team", person="ada")
        await life.hears("and of me?", "team")
    of_bob, of_ada = life.model.requests[1], life.model.requests[2]
    assert "secret" not in told(of_bob)
    assert "secret" in told(of_ada)
