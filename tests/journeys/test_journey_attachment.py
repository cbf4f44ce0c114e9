"""A file is fetched when the turn needs it; the model is told where it lies, and told when it
cannot be had."""

from __future__ import annotations

from pathlib import Path

from channels.errors import Rejected
from ohmo.contracts.messages import CallResult, Text, UserStep
from ohmo.contracts.provider import ModelRequest
from ohmo_testing.house import house
from ohmo_testing.scripted import Says
from tests.journeys.conftest import MakeWorld


def told(request: ModelRequest) -> str:
    return "\n".join(
        block.text
        for step in request.steps
        if isinstance(step, UserStep)
        for block in step.blocks
        if isinstance(block, Text)
    )


async def test_the_model_can_read_a_file_that_came_with_a_message(world: MakeWorld) -> None:
    def read(request: ModelRequest) -> Says:
        path = told(request).split(", ")[-1].rstrip("]")
        return Says("", calls=(("Read", {"file_path": path}),))

    life = world(read, "It says: forty-two.")
    async with house(life):
        await life.platform.sends_file("notes.txt", b"forty-two\n")
        await life.hears("forty-two")
    path = Path(told(life.model.requests[0]).split(", ")[-1].rstrip("]"))
    assert path.read_bytes() == b"forty-two\n"
    assert any(
        "forty-two" in step.result.text
        for step in life.model.requests[-1].steps
        if isinstance(step, CallResult)
    )


async def test_a_file_that_is_gone_is_said_and_the_turn_goes_on(world: MakeWorld) -> None:
    life = world("I could not get it.")
    life.platform.fail("fetch", Rejected("it was deleted"))
    async with house(life):
        await life.platform.sends_file("notes.txt", b"x")
        await life.hears("I could not get it.")
    assert "notes.txt could not be fetched" in told(life.model.requests[0])
