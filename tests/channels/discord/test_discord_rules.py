"""The loopback Discord keeps Discord's rules: each has a check that passes with it and fails once
the rule is switched off."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from typing import Any

import aiohttp
import pytest

from tests.platforms.discord.rig import DiscordRig, rig
from tests.platforms.discord.rules import Rules
from tests.platforms.discord.world import APPLICATION, DIRECT, GROUP, TOKEN

Check = Callable[[DiscordRig, aiohttp.ClientSession], Awaitable[None]]
ADA = DIRECT["dm:ada"]
BUTTON = {"type": 2, "style": 2, "label": "x", "custom_id": "same"}


async def api(
    discord: DiscordRig,
    http: aiohttp.ClientSession,
    method: str,
    path: str,
    body: Any = None,
    *,
    token: str = TOKEN,
) -> tuple[int, Any]:
    headers = {"Authorization": f"Bot {token}"}
    async with http.request(
        method, discord.server.url + path, json=body, headers=headers
    ) as response:
        text = await response.text()
        return response.status, json.loads(text) if text else None


async def gateway(
    discord: DiscordRig,
    http: aiohttp.ClientSession,
    *first: dict[str, Any],
    token: str = TOKEN,
    intents: int = 0xFFFFFF,
) -> aiohttp.ClientWebSocketResponse:
    ws = await http.ws_connect(f"{discord.server.gateway.address}?v=10&encoding=json")
    assert (await ws.receive_json(timeout=10))["op"] == 10
    for body in first or ({"op": 2, "d": {"token": token, "intents": intents, "properties": {}}},):
        await ws.send_json(body)
    return ws


async def until(ws: aiohttp.ClientWebSocketResponse, event: str) -> dict[str, Any]:
    """The event; a close or ten silent seconds fail."""
    while True:
        message = await ws.receive(timeout=10)
        assert message.type is aiohttp.WSMsgType.TEXT, message
        body = json.loads(message.data)
        if body["t"] == event or event == f"op {body['op']}":
            return body


async def closed(ws: aiohttp.ClientWebSocketResponse) -> int | None:
    for _ in range(5):
        try:
            message = await ws.receive(timeout=1)
        except TimeoutError:
            break
        if message.type in (aiohttp.WSMsgType.CLOSE, aiohttp.WSMsgType.CLOSED):
            return ws.close_code
    return None


async def token(discord: DiscordRig, http: aiohttp.ClientSession) -> None:
    assert (await api(discord, http, "GET", "/users/@me", token="wrong"))[0] == 401
    assert await closed(await gateway(discord, http, token="wrong")) == 4004


async def identify(discord: DiscordRig, http: aiohttp.ClientSession) -> None:
    assert await closed(await gateway(discord, http, {"op": 3, "d": {}})) == 4003


async def intents(discord: DiscordRig, http: aiohttp.ClientSession) -> None:
    ws = await gateway(discord, http, intents=1 << 9)
    await until(ws, "GUILD_CREATE")
    await discord.says("a secret", chat="group", mention=False)
    assert (await until(ws, "MESSAGE_CREATE"))["d"]["content"] == ""
    discord.server.world.content_allowed = False
    assert await closed(await gateway(discord, http, intents=1 << 15)) == 4014


async def resumed(
    discord: DiscordRig, http: aiohttp.ClientSession, code: int
) -> aiohttp.ClientWebSocketResponse:
    ws = await gateway(discord, http)
    session = (await until(ws, "READY"))["d"]["session_id"]
    number = (await until(ws, "GUILD_CREATE"))["s"]
    await ws.close(code=code)
    await discord.server.until(lambda server: not server.gateway.connections)
    await discord.says("missed")
    return await gateway(
        discord, http, {"op": 6, "d": {"token": TOKEN, "session_id": session, "seq": number}}
    )


async def resume(discord: DiscordRig, http: aiohttp.ClientSession) -> None:
    ws = await resumed(discord, http, 4000)
    first = json.loads((await ws.receive(timeout=10)).data)
    assert (first["t"], first["d"].get("content")) == ("MESSAGE_CREATE", "missed")
    await until(ws, "RESUMED")


async def starts(discord: DiscordRig, http: aiohttp.ClientSession) -> None:
    discord.server.rules.between = 60
    await until(await gateway(discord, http), "READY")
    assert (await until(await gateway(discord, http), "op 9"))["d"] is False


async def ending(discord: DiscordRig, http: aiohttp.ClientSession) -> None:
    ws = await resumed(discord, http, 1000)
    assert json.loads((await ws.receive(timeout=10)).data)["op"] == 9


async def heartbeat(discord: DiscordRig, http: aiohttp.ClientSession) -> None:
    ws = await gateway(discord, http)
    await until(ws, "GUILD_CREATE")
    await ws.send_json({"op": 1, "d": None})
    try:
        await until(ws, "op 11")
    except TimeoutError:
        raise AssertionError("no acknowledgement") from None


async def length(discord: DiscordRig, http: aiohttp.ClientSession) -> None:
    for content, code in (("x" * 2001, 50035), ("\U0001f600" * 1001, 50035), (" \u200b", 50006)):
        status, found = await api(
            discord, http, "POST", f"/channels/{ADA}/messages", {"content": content}
        )
        assert (status, found["code"]) == (400, code)


async def components(discord: DiscordRig, http: aiohttp.ClientSession) -> None:
    row = {"type": 1, "components": [BUTTON]}
    for rows in (
        [{"type": 1, "components": [BUTTON, BUTTON]}],
        [row] * 6,
        [{"type": 1, "components": [BUTTON | {"label": "x" * 81}]}],
    ):
        status, _ = await api(
            discord, http, "POST", f"/channels/{ADA}/messages", {"content": "x", "components": rows}
        )
        assert status == 400


async def nonce(discord: DiscordRig, http: aiohttp.ClientSession) -> None:
    body = {"content": "x", "nonce": "k.0", "enforce_nonce": True}
    first = (await api(discord, http, "POST", f"/channels/{ADA}/messages", body))[1]["id"]
    assert (await api(discord, http, "POST", f"/channels/{ADA}/messages", body))[1]["id"] == first
    assert (
        await api(discord, http, "POST", f"/channels/{ADA}/messages", body | {"nonce": "k" * 26})
    )[0] == 400
    discord.server.rules.nonce_window = 0.0
    assert (await api(discord, http, "POST", f"/channels/{ADA}/messages", body))[1]["id"] != first


async def echo(discord: DiscordRig, http: aiohttp.ClientSession) -> None:
    ws = await gateway(discord, http)
    await until(ws, "GUILD_CREATE")
    await api(discord, http, "POST", f"/channels/{ADA}/messages", {"content": "x", "nonce": "k.0"})
    assert (await until(ws, "MESSAGE_CREATE"))["d"]["nonce"] == "k.0"
    (row,) = (await api(discord, http, "GET", f"/channels/{ADA}/messages?limit=1"))[1]
    assert "nonce" not in row


async def own(discord: DiscordRig, http: aiohttp.ClientSession) -> None:
    message = await discord.says("mine")
    assert (
        await api(
            discord, http, "PATCH", f"/channels/{ADA}/messages/{message}", {"content": "yours"}
        )
    )[0] == 403


async def history(discord: DiscordRig, http: aiohttp.ClientSession) -> None:
    numbers = [await discord.says(str(number)) for number in range(6)]
    _, rows = await api(
        discord, http, "GET", f"/channels/{ADA}/messages?after={numbers[0]}&limit=2"
    )
    assert [row["id"] for row in rows] == [numbers[2], numbers[1]]
    assert (await api(discord, http, "GET", f"/channels/{ADA}/messages?limit=101"))[0] == 400


async def interactions(discord: DiscordRig, http: aiohttp.ClientSession) -> None:
    made = discord.server.world.interacts("dm:ada", "ada", type=2, data={"name": "help"}).body
    door, hook = (
        f"/interactions/{made['id']}/{made['token']}/callback",
        f"/webhooks/{APPLICATION}/{made['token']}",
    )
    assert (await api(discord, http, "POST", hook, {"content": "too early"}))[0] == 404
    assert (await api(discord, http, "POST", door, {"type": 5}))[0] == 200
    assert (await api(discord, http, "POST", door, {"type": 5}))[1]["code"] == 40060
    discord.server.rules.to_answer = -1.0
    late = discord.server.world.interacts("dm:ada", "ada", type=2, data={"name": "help"}).body
    assert (
        await api(
            discord,
            http,
            "POST",
            f"/interactions/{late['id']}/{late['token']}/callback",
            {"type": 5},
        )
    )[1]["code"] == 10062


async def commands(discord: DiscordRig, http: aiohttp.ClientSession) -> None:
    for wrong in (
        [{"name": "Not Good", "description": "x"}],
        [{"name": "x", "description": ""}],
        [{"name": "x", "description": "x"}] * 101,
    ):
        assert (await api(discord, http, "PUT", f"/applications/{APPLICATION}/commands", wrong))[
            0
        ] == 400


async def files(discord: DiscordRig, http: aiohttp.ClientSession) -> None:
    form = aiohttp.FormData()
    for index in range(11):
        form.add_field(f"files[{index}]", b"x", filename=f"{index}.txt")
    async with http.post(
        f"{discord.server.url}/channels/{ADA}/messages",
        data=form,
        headers={"Authorization": f"Bot {TOKEN}"},
    ) as response:
        assert response.status == 400


async def signed(discord: DiscordRig, http: aiohttp.ClientSession) -> None:
    world = discord.server.world
    stored = world.store("a.txt", b"x")
    world.stale.add(stored["id"])
    async with http.get(stored["url"]) as response:
        assert response.status == 404
    async with http.get(world.address(stored["id"])) as response:
        assert response.status == 200


async def asleep(discord: DiscordRig, http: aiohttp.ClientSession) -> None:
    thread = discord.server.world.thread("t", GROUP)
    message = (await api(discord, http, "POST", f"/channels/{thread}/messages", {"content": "x"}))[
        1
    ]["id"]
    discord.server.world.channels[thread].asleep = True
    assert (
        await api(
            discord, http, "PATCH", f"/channels/{thread}/messages/{message}", {"content": "y"}
        )
    )[1]["code"] == 50083


async def limits(discord: DiscordRig, http: aiohttp.ClientSession) -> None:
    discord.server.rules.bucket = 1
    await api(discord, http, "POST", f"/channels/{ADA}/messages", {"content": "x"})
    status, found = await api(discord, http, "POST", f"/channels/{ADA}/messages", {"content": "x"})
    assert (status, 0 < found["retry_after"] <= 1) == (429, True)


CHECKS: dict[str, Check] = {
    check.__name__: check
    for check in (
        token,
        identify,
        intents,
        resume,
        starts,
        ending,
        heartbeat,
        length,
        components,
        nonce,
        echo,
        own,
        history,
        interactions,
        commands,
        files,
        signed,
        asleep,
        limits,
    )
}


def test_every_rule_has_a_check() -> None:
    assert set(CHECKS) == {
        name for name in Rules.__slots__ if isinstance(getattr(Rules(), name), bool)
    }


@pytest.mark.parametrize("name", sorted(CHECKS))
async def test_a_rule_is_kept(name: str) -> None:
    async with rig() as discord, aiohttp.ClientSession() as http:
        await CHECKS[name](discord, http)


@pytest.mark.parametrize("name", sorted(CHECKS))
async def test_a_rule_that_is_switched_off_is_missed(name: str) -> None:
    rules = Rules()
    setattr(rules, name, False)
    async with rig(rules) as discord, aiohttp.ClientSession() as http:
        with pytest.raises((AssertionError, TimeoutError, KeyError, TypeError)):
            await CHECKS[name](discord, http)
