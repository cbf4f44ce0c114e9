"""A request says each thing once, and who guesses at keys is slowed, not the one who has it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from urllib.parse import urlsplit

import aiohttp
import pytest

from ohmo.control.responses import AT_ONCE, DoubledKey, Misses, refuse_doubled_keys
from ohmo.control.server import Doors
from ohmo.control.webhooks import Webhook
from tests.unit.control.small_house import SmallHouse
from tests.unit.control.test_control_webhooks import House, signed

HOOK = Webhook("ci", "s3cret", prompt="{{repo}}")


@pytest.fixture
async def hooked() -> House:
    return House()


@pytest.fixture
async def doors(tmp_path: Path, hooked: House) -> AsyncIterator[Doors]:
    small = SmallHouse()
    small.hooks = hooked.hooks(HOOK)
    async with small.open(tmp_path / "run") as doors:
        yield doors


@pytest.fixture
def token(tmp_path: Path, doors: Doors) -> str:
    del doors
    return (tmp_path / "run" / "token").read_text().strip()


async def sent(doors: Doors, lines: list[str], body: bytes = b"") -> tuple[int, str]:
    """Status and text of a request written byte for byte."""
    at = urlsplit(doors.url or "")
    reader, writer = await asyncio.open_connection(at.hostname, at.port)
    writer.write("\r\n".join([*lines, "Connection: close", "", ""]).encode() + body)
    answer = (await asyncio.wait_for(reader.read(), 10)).decode("utf-8", "replace")
    writer.close()
    return int(answer.split(" ", 2)[1]), answer


def asking(token: str, path: str = "/api/v1/status", *more: str) -> list[str]:
    return [f"GET {path} HTTP/1.1", "Host: localhost", f"Authorization: Bearer {token}", *more]


@pytest.mark.parametrize(
    "more",
    [
        "Host: evil.example",
        "Authorization: Bearer x",
        "Content-Length: 0\r\nContent-Length: 5",
        "Origin: http://a\r\nOrigin: http://localhost",
        "Cookie: a=1\r\nCookie: a=2",
        "Idempotency-Key: a\r\nidempotency-key: b",
        "Content-Type: a/b\r\nContent-Type: application/json",
        "X-Hub-Signature-256: a\r\nX-Hub-Signature-256: b",
        "Sec-Fetch-Site: none\r\nSec-Fetch-Site: cross-site",
        "Last-Event-ID: 1\r\nLast-Event-ID: 2",
    ],
)
async def test_a_header_that_decides_stands_once(doors: Doors, token: str, more: str) -> None:
    assert (await sent(doors, asking(token)))[0] == 200
    assert (await sent(doors, asking(token, "/api/v1/status", *more.split("\r\n"))))[0] == 400


@pytest.mark.parametrize(
    "query", ["limit=1&limit=2", "limit=1&%6cimit=1", "after=x&limit=1&after=y"]
)
async def test_a_parameter_stands_once(doors: Doors, token: str, query: str) -> None:
    status, text = await sent(doors, asking(token, f"/api/v1/sessions?{query}"))
    assert status == 400
    assert "this parameter stands twice" in text
    assert (await sent(doors, asking(token, "/api/v1/sessions?limit=1")))[0] == 200


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/api/v1/messages", '{"text": "hello", "text": "rm -rf /"}'),
        ("/api/v1/messages", '{"text": "hello", "te\\u0078t": "other"}'),
        ("/api/v1/messages", '{"text": "hello", "mode": "plan", "mode": "full_auto"}'),
        ("/api/v1/approvals/x", '{"verdict": "denied", "verdict": "allowed"}'),
        ("/api/v1/pairing", '{"code": "a", "code": "b"}'),
        (
            "/api/v1/web/chats/c/messages",
            '{"text": "a", "key": "k", "attachments": [{"ref": "1", "ref": "2"}]}',
        ),
    ],
)
async def test_a_key_of_a_body_stands_once(doors: Doors, token: str, path: str, body: str) -> None:
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
    async with (
        aiohttp.ClientSession(doors.url) as session,
        session.post(path, data=body, headers=headers) as response,
    ):
        assert response.status == 400
        error = (await response.json())["error"]
    assert "stands twice" in error
    assert "\n" not in error


async def test_a_signed_hook_with_a_doubled_key_is_refused_and_an_unsigned_one_is_not_read(
    doors: Doors, hooked: House
) -> None:
    body = b'{"repo": "a/b", "repo": "evil"}'
    async with aiohttp.ClientSession(doors.url) as session:
        async with session.post("/hooks/ci", data=body, headers=signed(HOOK, body)) as response:
            assert (response.status, "stands twice" in await response.text()) == (400, True)
        async with session.post("/hooks/ci", data=body) as response:
            assert response.status == 401
    assert hooked.wakes == {}


async def test_who_guesses_is_slowed_and_who_has_the_key_is_not(doors: Doors, token: str) -> None:
    """Over the real door: the twenty-first wrong key waits and is told how long; a right one passes
    at once meanwhile."""
    async with aiohttp.ClientSession(doors.url) as session:

        async def status(path: str, **headers: str) -> tuple[int, str]:
            async with session.get(path, headers=headers, allow_redirects=False) as response:
                return response.status, response.headers.get("Retry-After", "")

        for _ in range(AT_ONCE // 2):
            assert await status("/api/v1/status", Authorization="Bearer wrong") == (401, "")
            assert (await status("/login?code=wrong"))[0] == 303
        began = asyncio.get_running_loop().time()
        guesses = [
            asyncio.create_task(status("/api/v1/status", Authorization="Bearer wrong")),
            asyncio.create_task(status("/login?code=wrong")),
            asyncio.create_task(
                status("/api/v1/status", Cookie=f"ohmo-{urlsplit(doors.url or '').port}=1.2.3")
            ),
        ]
        await asyncio.sleep(0)
        assert (await status("/api/v1/status", Authorization=f"Bearer {token}"))[0] == 200
        assert (await status((doors.login_link() or "").removeprefix(doors.url or "")))[0] == 303
        assert asyncio.get_running_loop().time() - began < 1.5
        assert (await status("/api/v1/status"))[0] == 401  # shows nothing: no guess, no pause
        found = await asyncio.gather(*guesses)
        assert asyncio.get_running_loop().time() - began > 1.5
    assert [status for status, _ in found] == [429] * 3
    assert all(after.isdigit() and int(after) >= 1 for _, after in found)


async def test_guessed_signatures_are_slowed_and_a_right_one_comes_in(
    doors: Doors, hooked: House
) -> None:
    async with aiohttp.ClientSession(doors.url) as session:

        async def posted(headers: dict[str, str]) -> int:
            async with session.post("/hooks/ci", data=b"{}", headers=headers) as response:
                return response.status

        wrong = {
            **signed(HOOK, b"{}"),
            "X-Ohmo-Signature": signed(HOOK, b"other")["X-Ohmo-Signature"],
        }
        found = [await posted(wrong) for _ in range(AT_ONCE)]
        assert found == [401] * AT_ONCE
        assert await posted(wrong) == 429
        assert await posted(signed(HOOK, b"{}")) == 202
    assert len(hooked.wakes) == 1


async def test_misses_come_back_with_time_and_those_who_wait_are_bounded() -> None:
    now, gate, asleep = [0.0], asyncio.Event(), [0]

    async def sleep(_: float) -> None:
        asleep[0] += 1
        await gate.wait()

    misses = Misses(lambda: now[0], sleep)
    assert [await misses.count() for _ in range(AT_ONCE)] == [None] * AT_ONCE
    waiting = [asyncio.create_task(misses.count()) for _ in range(200)]
    done, _ = await asyncio.wait(waiting, timeout=0.5)
    assert (asleep[0], len(done)) == (64, 136)  # the rest is told at once
    gate.set()
    refusals = await asyncio.gather(*waiting)
    assert {(one.status, one.after) for one in refusals if one is not None} == {(429, 3)}
    now[0] += 2.0
    assert await misses.count() is None
    assert await misses.count() is not None
    now[0] += 1_000_000
    assert [await misses.count() for _ in range(AT_ONCE + 1)].count(None) == AT_ONCE


def test_a_line_of_a_refusal_is_short_whatever_the_key() -> None:
    long = json.dumps("k" * 10_000)
    with pytest.raises(DoubledKey) as found:
        refuse_doubled_keys(f"{{{long}: 1, {long}: 2}}".encode())
    assert len(str(found.value)) < 150
    refuse_doubled_keys(b"[" * 100_000)  # for another to refuse
    refuse_doubled_keys(b"\xff\xfe")
    refuse_doubled_keys(b'{"a": {"a": 1}, "b": [{"a": 1}, {"a": 2}]}')
