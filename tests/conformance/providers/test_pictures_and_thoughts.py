"""Pictures on every wire, and what gateways call thoughts on chat completions."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from ohmo.contracts.errors import NoSuchModel, Refused
from ohmo.contracts.messages import CallResult, Image, Text, Thinking, ToolResult, UserStep
from ohmo.contracts.provider import ModelRequest
from ohmo.providers.openai.wire import CompletionsWire
from ohmo.providers.request_bytes import ConversationCache
from ohmo.providers.wire_parts import classify
from tests.conformance.providers.rigs import Conversation, Rig, rig
from tests.platforms.model.script import Call, Turn

PNG = bytes.fromhex("89504e470d0a1a0a") + b"rest"
WIRES = ("anthropic", "openai", "responses")
REFUSALS = {  # as they are said, each at a request with a picture
    "anthropic": (400, "messages.0.content.0.image.source.base64: image exceeds 5 MB maximum"),
    "openai": (500, "image input is not supported - hint: you may need to provide the mmproj"),
    "responses": (400, "Invalid content type. image_url is only supported by certain models."),
}


@pytest.fixture(params=WIRES)
async def made(request: pytest.FixtureRequest) -> AsyncIterator[Rig]:
    async with rig(request.param) as made:
        yield made


def shows(talk: Conversation, picture: Path) -> ModelRequest:
    blocks = (Image(picture, "image/png"), Text("what is it?"))
    talk.steps += (UserStep(blocks, "ada", "message"),)
    return talk.request()


async def test_a_picture_goes_along_and_one_that_is_too_large_is_told_of(
    made: Rig, tmp_path: Path
) -> None:
    small, large = tmp_path / "small.png", tmp_path / "large.png"
    small.write_bytes(PNG)
    large.write_bytes(PNG * (2 << 20))
    talk = Conversation(made.model)
    talk.takes((await made.ask(shows(talk, small))).step)
    await made.ask(shows(talk, large))
    raw = made.server.asked[-1].raw.decode()
    assert raw.count("iVBORw0KGgpyZXN0") == 1
    assert "(the image large.png is not shown: 24.0 MiB are more than" in raw
    assert str(large) in raw


async def test_a_model_that_takes_no_picture_is_told_of_it_and_answers(
    made: Rig, tmp_path: Path
) -> None:
    picture = tmp_path / "a.png"
    picture.write_bytes(PNG)
    status, message = REFUSALS[made.wire]
    talk = Conversation(made.model)
    made.server.next(Turn(status=status, message=message))
    answer = (await made.ask(shows(talk, picture))).step
    assert answer.stop == "end"
    talk.takes(answer)
    await made.ask(talk.says("and now?"))
    assert ["iVBORw0" in asked.raw.decode() for asked in made.server.asked] == [True, False, False]
    assert f"the file is {picture}" in made.server.asked[-1].raw.decode()
    made.server.next(*[Turn(status=400, message="image: another fault")] * 2)
    with pytest.raises(Refused):  # not for ever
        await made.ask(shows(talk, picture))


@pytest.mark.parametrize("field", ["reasoning_content", "reasoning", "reasoning_details"])
async def test_what_a_gateway_calls_thoughts_is_kept_and_sent_back_only_where_it_is_wanted(
    field: str,
) -> None:
    async with rig("openai") as made:
        talk = Conversation(made.model)
        quirks = frozenset({field})
        made.server.next(
            Turn(thinking="so it is", calls=(Call("Read", {"file_path": "a"}),), quirks=quirks)
        )
        step = (await made.ask(talk.says("go"))).step
        thought = step.blocks[0]
        assert isinstance(thought, Thinking)
        assert thought.provider == "openai-chat"
        assert "so it is" in thought.opaque
        (call,) = talk.takes(step)
        talk.result(call, "content")
        talk.takes((await made.ask(talk.request())).step)
        assert "so it is" not in made.server.asked[-1].raw.decode()  # local servers want none
    wanting = ConversationCache(CompletionsWire(field))
    body, tail = wanting.write(wanting.open(talk.steps), lambda _: "")
    assert thought.opaque[1:-1].encode() in bytes(body) + tail


async def test_an_endpoint_that_wants_thoughts_back_gets_them_from_then_on() -> None:
    async with rig("openai") as made:
        talk = Conversation(made.model)
        made.server.next(
            Turn(thinking="so it is", calls=(Call("Read", {"file_path": "a"}),)),
            Turn(
                status=400, message="The reasoning_content in the thinking mode must be passed back"
            ),
            Turn(calls=(Call("Read", {"file_path": "b"}),)),  # nothing was thought here
        )
        (call,) = talk.takes((await made.ask(talk.says("go"))).step)
        (call,) = talk.takes((await made.ask(talk.result(call, "content"))).step)
        talk.steps += (CallResult(ToolResult(call.id, "content")),)
        await made.ask(talk.request())
        said = [one for one in made.server.asked[-1].body["messages"] if one["role"] == "assistant"]
        assert [one["reasoning_content"] for one in said] == ["so it is", ""]


async def test_a_gateway_that_refuses_cache_marks_is_asked_without() -> None:
    async with rig("anthropic") as made:
        talk = Conversation(made.model)
        message = "tools.2.cache_control: Extra inputs are not permitted"
        made.server.next(Turn(status=400, message=message))
        talk.takes((await made.ask(talk.says("one"))).step)
        await made.ask(talk.says("two"))
        assert [b"cache_control" in asked.raw for asked in made.server.asked] == [
            True,
            False,
            False,
        ]


@pytest.mark.parametrize("gateway", [True, False])
def test_a_gateway_without_the_model_says_that_it_has_no_route(gateway: bool) -> None:
    error = classify("openai (gw)", "m", 404, "", "no", gateway=gateway)
    assert isinstance(error, NoSuchModel)
    assert ("the gateway has no route for model m" in str(error)) is gateway
