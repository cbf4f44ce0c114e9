"""The loopback server keeps Feishu's rules: each has a check that passes with it and fails once the
rule is switched off."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from typing import Any

import aiohttp
import pytest

from tests.platforms.feishu.frames import Frame, parse
from tests.platforms.feishu.rig import FeishuRig, rig
from tests.platforms.feishu.rules import Refusal, Rules
from tests.platforms.feishu.world import APP, SECRET, World

DM, GROUP = "oc_dmada", "oc_group"
Check = Callable[[FeishuRig, aiohttp.ClientSession], Awaitable[None]]


def card(content: str = "hi", **config: Any) -> dict[str, Any]:
    element = {"tag": "markdown", "content": content, "element_id": "answer"}
    return {
        "schema": "2.0",
        "config": {"update_multi": True, **config},
        "body": {"elements": [element]},
    }


def code_of(call: Callable[[], object]) -> int:
    """0, or the code it is refused with."""
    try:
        call()
    except Refusal as refusal:
        return refusal.code
    return 0


def post(
    world: World, content: dict[str, Any], key: str = "", chat: str = GROUP, **more: Any
) -> dict[str, Any]:
    return world.post(chat, "interactive", json.dumps(content, ensure_ascii=False), key, **more)


async def connected(
    feishu: FeishuRig, http: aiohttp.ClientSession
) -> aiohttp.ClientWebSocketResponse:
    return await http.ws_connect((await endpoint(feishu, http))["data"]["URL"])


async def endpoint(feishu: FeishuRig, http: aiohttp.ClientSession) -> dict[str, Any]:
    async with http.post(
        feishu.server.url + "/callback/ws/endpoint", json={"AppID": APP, "AppSecret": SECRET}
    ) as response:
        return await response.json()


async def answered(ws: aiohttp.ClientWebSocketResponse, code: int | None) -> Frame:
    frame = parse((await ws.receive(timeout=5)).data)
    if code is not None:
        frame.payload = json.dumps({"code": code}).encode()
        await ws.send_bytes(frame.bytes())
    return frame


async def tokens(feishu: FeishuRig, http: aiohttp.ClientSession) -> None:
    url = feishu.server.url + "/open-apis/bot/v3/info"
    async with (
        http.get(url) as missing,
        http.get(url, headers={"Authorization": "Bearer t-wrong"}) as wrong,
    ):
        assert [(await one.json())["code"] for one in (missing, wrong)] == [99991661, 99991663]


async def tickets(feishu: FeishuRig, http: aiohttp.ClientSession) -> None:
    url = (await endpoint(feishu, http))["data"]["URL"]
    async with http.ws_connect(url):
        with pytest.raises(aiohttp.WSServerHandshakeError):
            await http.ws_connect(url)


async def connections(feishu: FeishuRig, http: aiohttp.ClientSession) -> None:
    lines = [await connected(feishu, http) for _ in range(3)]
    assert (await endpoint(feishu, http))["code"] == 1000040350
    for line in lines:
        await line.close()


async def silence_brings_it_again(feishu: FeishuRig, http: aiohttp.ClientSession) -> None:
    async with await connected(feishu, http) as ws:
        await feishu.says("hi")
        first = await answered(ws, None)
        again = await answered(ws, 200)
        assert first.get("message_id") == again.get("message_id")


async def failure_brings_it_again(feishu: FeishuRig, http: aiohttp.ClientSession) -> None:
    async with await connected(feishu, http) as ws:
        await feishu.says("hi")
        first = await answered(ws, 500)
        again = await answered(ws, 200)
        assert first.get("message_id") == again.get("message_id")


async def a_callback_comes_once(feishu: FeishuRig, http: aiohttp.ClientSession) -> None:
    async with await connected(feishu, http) as ws:
        lost = feishu.server.event("card.action.trigger", {}, callback=True)
        await answered(ws, 500)
        await feishu.server.until(lambda server: bool(server.kept.dropped), 5)
        assert feishu.server.kept.dropped == [lost]


@dataclass
class Clock:
    now: float = 1_800_000_000.0

    def __call__(self) -> float:
        return self.now


@dataclass
class Ground:
    """A tenant whose clock the check holds."""

    rules: Rules
    clock: Clock = field(default_factory=Clock)

    def __post_init__(self) -> None:
        self.world = World(self.clock, self.rules)


Pure = Callable[[Ground], None]


def folds(ground: Ground) -> None:
    first, again = post(ground.world, card(), "k"), post(ground.world, card(), "k")
    assert first["message_id"] == again["message_id"]


def cards_have_a_size(ground: Ground) -> None:
    assert code_of(lambda: post(ground.world, card("x" * 40_000))) == 230025


def texts_have_a_size(ground: Ground) -> None:
    assert (
        code_of(lambda: ground.world.post(GROUP, "text", json.dumps({"text": "x" * 160_000}), ""))
        == 230025
    )


def six_tables(ground: Ground) -> None:
    assert code_of(lambda: post(ground.world, card("\n\n".join(["|a|\n|-|\n|1|"] * 6)))) == 230099


def many_elements(ground: Ground) -> None:
    wide = card()
    wide["body"]["elements"] = [{"tag": "markdown", "content": "x"}] * 201
    assert code_of(lambda: post(ground.world, wide)) == 230099


def long_labels(ground: Ground) -> None:
    wide = card()
    wide["body"]["elements"].append(
        {"tag": "button", "text": {"tag": "plain_text", "content": "x" * 101}, "behaviors": []}
    )
    assert code_of(lambda: post(ground.world, wide)) == 230099


def known_tags(ground: Ground) -> None:
    odd = card()
    odd["body"]["elements"].append({"tag": "action"})
    assert code_of(lambda: post(ground.world, odd)) == 230099


def multi(ground: Ground) -> None:
    message = post(ground.world, card())["message_id"]
    assert (
        code_of(lambda: ground.world.patch(message, json.dumps(card(update_multi=False)))) == 230099
    )


def own_cards(ground: Ground) -> None:
    message = post(ground.world, card())["message_id"]
    ground.clock.now += 15 * 86_400
    assert code_of(lambda: ground.world.patch(message, json.dumps(card()))) == 230031


def patches(ground: Ground) -> None:
    message = post(ground.world, card())["message_id"]
    assert 230020 in [
        code_of(lambda: ground.world.patch(message, json.dumps(card()))) for _ in range(6)
    ]


def posts(ground: Ground) -> None:
    codes = [code_of(lambda: post(ground.world, card())) for _ in range(6)]
    assert codes == [0, 0, 0, 0, 0, 230020]
    assert code_of(lambda: post(ground.world, card(), chat=DM)) == 0


def threads_apart(ground: Ground) -> None:
    root = ground.world.says(GROUP, "ou_ada", "root")
    ground.world.says(GROUP, "ou_ada", "reply", root["message_id"])
    rows = ground.world.history("chat", GROUP, {})["items"]
    assert [json.loads(row["body"]["content"])["text"] for row in rows] == ["root"]
    assert len(ground.world.history("thread", root["thread_id"], {})["items"]) == 2


def pages(ground: Ground) -> None:
    assert code_of(lambda: ground.world.history("chat", GROUP, {"page_size": "51"})) == 230001


def entities_once(ground: Ground) -> None:
    shown = {"type": "card", "data": {"card_id": ground.world.entity(card())}}
    assert [code_of(lambda: post(ground.world, shown)) for _ in range(2)] == [0, 230099]


def growing(ground: Ground) -> None:
    entity = ground.world.entity(card(streaming_mode=True))
    assert [code_of(lambda: ground.world.stream(entity, "answer", "x", 5)) for _ in range(2)] == [
        0,
        300317,
    ]


def open_streams(ground: Ground) -> None:
    entity = ground.world.entity(card())
    assert code_of(lambda: ground.world.stream(entity, "answer", "x", 1)) == 300309


def locked(ground: Ground) -> None:
    message = post(
        ground.world,
        {"type": "card", "data": {"card_id": ground.world.entity(card(streaming_mode=True))}},
    )["message_id"]
    assert code_of(lambda: ground.world.patch(message, json.dumps(card()))) == 200810


def changed_as_entities(ground: Ground) -> None:
    entity = ground.world.entity(card())
    message = post(ground.world, {"type": "card", "data": {"card_id": entity}})["message_id"]
    assert code_of(lambda: ground.world.patch(message, json.dumps(card()))) == 200810
    ground.world.update(entity, json.dumps(card()), 1)


def resources(ground: Ground) -> None:
    key = ground.world.keep("file", "a.txt", b"x")
    row = ground.world.says(DM, "ou_ada", "no file here")
    assert code_of(lambda: ground.world.resource(row["message_id"], key, "file")) == 234003


def sizes(ground: Ground) -> None:
    assert code_of(lambda: ground.world.keep("file", "a.txt", b"")) == 234010
    assert code_of(lambda: ground.world.keep("image", "a.png", bytes((10 << 20) + 1))) == 234006


def emoji(ground: Ground) -> None:
    row = ground.world.says(DM, "ou_ada", "x")
    assert code_of(lambda: ground.world.react(row["message_id"], "no-such")) == 231001


LIVE: dict[
    str, tuple[Check, dict[str, Any], Rules]
] = {  # rule -> check, what switches it off, under which other rules
    "tokens": (tokens, {"tokens": False}, Rules()),
    "tickets_once": (tickets, {"tickets_once": False}, Rules()),
    "connections": (connections, {"connections": 99}, Rules(connections=3)),
    "answer_seconds": (
        silence_brings_it_again,
        {"answer_seconds": 99.0},
        Rules(answer_seconds=0.1, retry_after=(0.1,)),
    ),
    "retries": (failure_brings_it_again, {"retries": False}, Rules(retry_after=(0.1,))),
    "retry_after": (failure_brings_it_again, {"retry_after": ()}, Rules(retry_after=(0.1,))),
    "callbacks_once": (
        a_callback_comes_once,
        {"callbacks_once": False},
        Rules(retry_after=(0.1,) * 4),
    ),
}
STILL: dict[str, tuple[Pure, dict[str, Any], Rules]] = {
    "uuid_seconds": (folds, {"uuid_seconds": 0.0}, Rules()),
    "card_bytes": (cards_have_a_size, {"card_bytes": 10**9}, Rules()),
    "text_bytes": (texts_have_a_size, {"text_bytes": 10**9}, Rules()),
    "tables": (six_tables, {"tables": 99}, Rules()),
    "elements": (many_elements, {"elements": 999}, Rules()),
    "label": (long_labels, {"label": 999}, Rules()),
    "schema": (known_tags, {"schema": False}, Rules()),
    "update_multi": (multi, {"update_multi": False}, Rules()),
    "own_cards_only": (own_cards, {"own_cards_only": False}, Rules()),
    "patches_a_second": (patches, {"patches_a_second": 99}, Rules()),
    "posts_a_second": (posts, {"posts_a_second": 99}, Rules()),
    "thread_apart": (threads_apart, {"thread_apart": False}, Rules()),
    "page": (pages, {"page": 999}, Rules()),
    "entity_once": (entities_once, {"entity_once": False}, Rules()),
    "sequences": (growing, {"sequences": False}, Rules()),
    "streaming_needed": (open_streams, {"streaming_needed": False}, Rules()),
    "streaming_locks": (locked, {"streaming_locks": False}, Rules(streaming_locks=True)),
    "entities_apart": (changed_as_entities, {"entities_apart": False}, Rules(entities_apart=True)),
    "resources": (resources, {"resources": False}, Rules()),
    "file_sizes": (sizes, {"file_sizes": False}, Rules()),
    "emoji": (emoji, {"emoji": False}, Rules()),
}


@pytest.mark.parametrize("rule", STILL)
def test_a_rule_holds_and_its_check_fails_without_it(rule: str) -> None:
    check, off, rules = STILL[rule]
    check(Ground(replace(rules)))
    with pytest.raises(AssertionError):
        check(Ground(replace(rules, **off)))


async def held(check: Check, rules: Rules) -> bool:
    async with rig(rules) as feishu, aiohttp.ClientSession() as http:
        try:
            async with asyncio.timeout(
                2.0
                if rules.answer_seconds > 50 or not rules.retries or not rules.retry_after
                else 15.0
            ):
                await check(feishu, http)
        except (AssertionError, TimeoutError, pytest.fail.Exception, TypeError):
            return False
        return True


@pytest.mark.parametrize("rule", LIVE)
async def test_a_rule_of_the_connection_holds_and_its_check_fails_without_it(rule: str) -> None:
    check, off, rules = LIVE[rule]
    assert await held(check, replace(rules))
    assert not await held(check, replace(rules, **off))


async def test_one_to_one_chats_are_not_among_the_groups() -> None:
    for rules, count in ((Rules(), 1), (Rules(groups_only=False), 3)):
        async with rig(rules) as feishu:
            found: Any = feishu.server.method("GET", "im/v1/chats", {}, {})
            assert len(found["data"]["items"]) == count


def test_every_rule_has_a_check() -> None:
    assert set(Rules.__dataclass_fields__) == {*LIVE, *STILL, "groups_only"}
