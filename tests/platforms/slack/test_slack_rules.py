"""The loopback server keeps Slack's rules: each rule has a check that passes with it and fails once
the rule is switched off."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from channels.contract import Options
from channels.slack import Settings
from channels.slack.adapter import Slack
from ohmo_testing.channels import FakeContext
from tests.platforms.slack.rig import SlackRig, rig
from tests.platforms.slack.workspace import APP_TOKEN, BOT, BOT_TOKEN, Rules
from tests.programs import server

Check = Callable[[SlackRig, aiohttp.ClientSession], Awaitable[None]]


async def api(
    slack: SlackRig,
    http: aiohttp.ClientSession,
    method: str,
    *,
    token: str = BOT_TOKEN,
    **body: Any,
) -> dict[str, Any]:
    headers = {"Authorization": f"Bearer {token}"}
    async with http.post(slack.server.url + method, headers=headers, json=body) as response:
        return dict(
            await response.json(), status=response.status, retry=response.headers.get("Retry-After")
        )


async def form(
    slack: SlackRig, http: aiohttp.ClientSession, method: str, **arguments: str
) -> dict[str, Any]:
    async with http.post(
        slack.server.url + method, headers={"Authorization": f"Bearer {BOT_TOKEN}"}, data=arguments
    ) as response:
        return await response.json()


async def link(slack: SlackRig, http: aiohttp.ClientSession) -> aiohttp.ClientWebSocketResponse:
    url = (await api(slack, http, "apps.connections.open", token=APP_TOKEN))["url"]
    ws = await http.ws_connect(url)
    assert (await ws.receive_json(timeout=5))["type"] == "hello"
    return ws


async def connects(http: aiohttp.ClientSession, url: str) -> bool:
    try:
        async with http.ws_connect(url):
            return True
    except aiohttp.WSServerHandshakeError:
        return False


async def tickets_serve_once(slack: SlackRig, http: aiohttp.ClientSession) -> None:
    url = (await api(slack, http, "apps.connections.open", token=APP_TOKEN))["url"]
    assert await connects(http, url)
    assert not await connects(http, url)
    assert slack.server.refused_handshakes == 1


async def tickets_expire(slack: SlackRig, http: aiohttp.ClientSession) -> None:
    assert not await connects(
        http, (await api(slack, http, "apps.connections.open", token=APP_TOKEN))["url"]
    )


async def unacknowledged_comes_again(slack: SlackRig, http: aiohttp.ClientSession) -> None:
    ws = await link(slack, http)
    await slack.says("hello")
    first, second = await ws.receive_json(timeout=5), await _soon(ws)
    assert (first["retry_attempt"], second["retry_attempt"], second["retry_reason"]) == (
        0,
        1,
        "timeout",
    )
    assert first["envelope_id"] == second["envelope_id"]
    await ws.send_json({"envelope_id": first["envelope_id"]})
    await slack.server.until(lambda server: bool(server.acked), within=5)


async def _soon(ws: aiohttp.ClientWebSocketResponse) -> dict[str, Any]:
    try:
        return await ws.receive_json(timeout=1.5)
    except TimeoutError:
        raise AssertionError("nothing came") from None


async def a_call_has_a_twin(slack: SlackRig, http: aiohttp.ClientSession) -> None:
    ws = await link(slack, http)
    await slack.says("hello", chat="group")
    payloads = [(await ws.receive_json(timeout=5))["payload"], (await _soon(ws))["payload"]]
    assert {payload["event"]["type"] for payload in payloads} == {"app_mention", "message"}
    assert len({payload["event"]["ts"] for payload in payloads}) == 1
    assert len({payload["event_id"] for payload in payloads}) == 2


async def own_posts_come_back(slack: SlackRig, http: aiohttp.ClientSession) -> None:
    ws = await link(slack, http)
    await api(slack, http, "chat.postMessage", channel="C0GROUP", text="mine")
    assert (await _soon(ws))["payload"]["event"]["user"] == BOT


async def files_want_the_token(slack: SlackRig, http: aiohttp.ClientSession) -> None:
    file = slack.server.host_file("a.txt", b"a")
    async with http.get(file["url_private"], allow_redirects=False) as response:
        assert response.status == 302
    async with http.get(
        file["url_private"], headers={"Authorization": f"Bearer {BOT_TOKEN}"}
    ) as response:
        assert await response.read() == b"a"


async def metadata_is_shown_on_request(slack: SlackRig, http: aiohttp.ClientSession) -> None:
    metadata = {"event_type": "ohmo", "event_payload": {"key": "k"}}
    await api(slack, http, "chat.postMessage", channel="C0GROUP", text="x", metadata=metadata)
    (row,) = (
        await form(
            slack, http, "conversations.history", channel="C0GROUP", include_all_metadata="1"
        )
    )["messages"]
    assert row["metadata"] == metadata
    (row,) = (await form(slack, http, "conversations.history", channel="C0GROUP"))["messages"]
    assert "metadata" not in row
    ends = {"channel": "C0GROUP", "oldest": row["ts"], "latest": row["ts"]}
    assert (await form(slack, http, "conversations.history", **ends))["messages"] == []
    assert (await form(slack, http, "conversations.history", **ends, inclusive="1"))[
        "messages"
    ] == [row]


async def history_hides_replies(slack: SlackRig, http: aiohttp.ClientSession) -> None:
    root = await slack.says("root", chat="group")
    await slack.says("reply", chat="group", topic=root)
    rows = (await form(slack, http, "conversations.history", channel="C0GROUP"))["messages"]
    assert [row["ts"] for row in rows] == [root]
    assert rows[0]["reply_count"] == 1
    rows = (
        await form(slack, http, "conversations.replies", channel="C0GROUP", ts=root, oldest=root)
    )["messages"]
    assert len(rows) == 2


async def long_texts_are_refused(slack: SlackRig, http: aiohttp.ClientSession) -> None:
    ts = (await api(slack, http, "chat.postMessage", channel="C0GROUP", text="x" * 4001))["ts"]
    assert (await api(slack, http, "chat.update", channel="C0GROUP", ts=ts, text="x" * 4001)).get(
        "error"
    ) == "msg_too_long"
    assert (await api(slack, http, "chat.update", channel="C0GROUP", ts=ts, text="字" * 1334)).get(
        "error"
    ) == "msg_too_long"
    assert (await api(slack, http, "chat.postMessage", channel="C0GROUP", text="x" * 40_001)).get(
        "error"
    ) == "msg_too_long"


async def blocks_are_checked(slack: SlackRig, http: aiohttp.ClientSession) -> None:
    section = {"type": "section", "text": {"type": "mrkdwn", "text": "x" * 3001}}
    assert (
        await api(slack, http, "chat.postMessage", channel="C0GROUP", text="x", blocks=[section])
    ).get("error") == "invalid_blocks"


async def readers_take_no_json(slack: SlackRig, http: aiohttp.ClientSession) -> None:
    assert (await api(slack, http, "conversations.history", channel="C0GROUP")).get(
        "error"
    ) == "channel_not_found"


async def pages_are_limited(slack: SlackRig, http: aiohttp.ClientSession) -> None:
    for number in range(20):
        await slack.says(f"m{number}")
    page = await form(slack, http, "conversations.history", channel="D0ADA", limit="200")
    assert (len(page["messages"]), page["has_more"]) == (15, True)
    cursor = page["response_metadata"]["next_cursor"]
    rest = await form(
        slack, http, "conversations.history", channel="D0ADA", limit="200", cursor=cursor
    )
    assert [row["text"] for row in page["messages"] + rest["messages"]] == [
        f"m{number}" for number in reversed(range(20))
    ]


async def posts_are_paced(slack: SlackRig, http: aiohttp.ClientSession) -> None:
    answers = [
        await api(slack, http, "chat.postMessage", channel="C0GROUP", text=str(number))
        for number in range(4)
    ]
    assert [answer["ok"] for answer in answers] == [True, True, True, False]
    assert (answers[-1]["status"], answers[-1]["retry"]) == (429, "1")
    assert (await api(slack, http, "chat.postMessage", channel="D0ADA", text="elsewhere"))["ok"]


QUICK = Rules(ack_seconds=0.1, retry_after=(0.0, 60.0, 300.0), ticket_seconds=30.0)
CHECKS: dict[str, tuple[Check, Rules, dict[str, Any]]] = {
    "tickets_once": (tickets_serve_once, QUICK, {"tickets_once": False}),
    "ticket_seconds": (
        tickets_expire,
        replace(QUICK, ticket_seconds=0.0),
        {"ticket_seconds": 30.0},
    ),
    "retries": (unacknowledged_comes_again, QUICK, {"retries": False}),
    "ack_seconds": (unacknowledged_comes_again, QUICK, {"ack_seconds": 30.0}),
    "retry_after": (unacknowledged_comes_again, QUICK, {"retry_after": ()}),
    "twins": (a_call_has_a_twin, replace(QUICK, retries=False), {"twins": False}),
    "echo": (own_posts_come_back, QUICK, {"echo": False}),
    "authorised_files": (files_want_the_token, QUICK, {"authorised_files": False}),
    "metadata_on_request": (metadata_is_shown_on_request, QUICK, {"metadata_on_request": False}),
    "replies_apart": (history_hides_replies, QUICK, {"replies_apart": False}),
    "long_texts": (long_texts_are_refused, QUICK, {"long_texts": False}),
    "blocks": (blocks_are_checked, QUICK, {"blocks": False}),
    "json_for_writers": (readers_take_no_json, QUICK, {"json_for_writers": False}),
    "page": (pages_are_limited, replace(QUICK, page=15), {"page": 999}),
    "per_channel": (posts_are_paced, replace(QUICK, burst=3), {"per_channel": 1e9}),
    "burst": (posts_are_paced, replace(QUICK, burst=3), {"burst": 10}),
}


def test_every_rule_of_the_server_has_a_check() -> None:
    assert set(CHECKS) == set(Rules.__dataclass_fields__)


@pytest.mark.parametrize("name", sorted(CHECKS))
async def test_a_rule_holds_and_its_check_notices_when_it_does_not(name: str) -> None:
    check, rules, mutation = CHECKS[name]
    async with rig(replace(rules)) as slack, aiohttp.ClientSession() as http:
        await check(slack, http)
    async with rig(replace(rules, **mutation)) as slack, aiohttp.ClientSession() as http:
        with pytest.raises(AssertionError):
            await check(slack, http)


@pytest.mark.parametrize(
    ("method", "token", "error"),
    [
        ("auth.test", "", "not_authed"),
        ("auth.test", "xoxb-other", "invalid_auth"),
        ("auth.test", APP_TOKEN, "not_allowed_token_type"),
        ("apps.connections.open", BOT_TOKEN, "not_allowed_token_type"),
        ("no.such", BOT_TOKEN, "unknown_method"),
    ],
)
async def test_tokens_are_told_apart(method: str, token: str, error: str) -> None:
    async with rig() as slack, aiohttp.ClientSession() as http:
        assert (await api(slack, http, method, token=token))["error"] == error


async def test_only_own_messages_can_be_changed() -> None:
    async with rig() as slack, aiohttp.ClientSession() as http:
        ts = await slack.says("Ada's")
        assert (await api(slack, http, "chat.update", channel="D0ADA", ts=ts, text="x"))[
            "error"
        ] == "cant_update_message"
        assert (await api(slack, http, "chat.delete", channel="D0ADA", ts=ts))[
            "error"
        ] == "cant_delete_message"
        assert (await api(slack, http, "chat.delete", channel="D0ADA", ts="1.0"))[
            "error"
        ] == "message_not_found"


async def test_the_server_runs_as_a_process_and_obeys_its_control_doors(tmp_path: Path) -> None:
    async with server("tests.platforms.slack", "--port", "0") as line:
        hello = json.loads(line)
        url = f"http://127.0.0.1:{hello['port']}/control"
        context, far = FakeContext(tmp_path), Slack(Settings(**hello["settings"]), Options())
        async with aiohttp.ClientSession() as http:
            async with far.connect():
                hearing = asyncio.create_task(far.receive(context))
                async with http.post(
                    f"{url}/says",
                    json={"text": "hello from outside", "chat": "dm:bob", "person": "bob"},
                ) as response:
                    (ts,) = (await response.json())["messages"]
                assert await context.texts(1) == ["hello from outside"]
                hearing.cancel()
            async with http.get(f"{url}/visible", params={"chat": "dm:bob"}) as response:
                (row,) = await response.json()
            assert row["id"] == ts
            async with http.get(f"{url}/log") as response:
                assert "auth.test" in (await response.json())["calls"]
