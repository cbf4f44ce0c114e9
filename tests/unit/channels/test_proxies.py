"""Which way calls take when the environment names a proxy, and what they must not take along."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from channels.discord.client import Pace as DiscordPace
from channels.discord.client import Wire as DiscordWire
from channels.matrix.client import MatrixClient
from channels.matrix.client import Pace as MatrixPace
from channels.platform_calls import proxy_for
from channels.telegram.client import Pace as TelegramPace
from channels.telegram.client import Wire as TelegramWire

ANSWERS: dict[str, Any] = {
    "getMe": {"ok": True, "result": {"id": 1, "is_bot": True, "first_name": "o", "username": "o"}},
    "users/@me": {"id": "1", "username": "o", "discriminator": "0", "avatar": None},
    "account/whoami": {"user_id": "@o:x", "device_id": "D"},
    "tenant_access_token/internal": {
        "code": 0,
        "msg": "ok",
        "tenant_access_token": "t-1",
        "expire": 7200,
    },
    "bot/v3/info": {"code": 0, "msg": "ok", "bot": {"open_id": "ou_1", "app_name": "o"}},
}


class Proxy:
    """Answers itself, for every host (RFC 9112, 3.2.2: a proxy is asked in the absolute form)."""

    def __init__(self) -> None:
        self.url = ""
        self.asked: list[str] = []
        self.headers: list[str] = []

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        self.asked.append(head[0])
        self.headers += head[1:]
        body = json.dumps(next(body for path, body in ANSWERS.items() if path in head[0])).encode()
        writer.write(
            b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConnection:"
            b" close\r\nContent-Length: %d\r\n\r\n" % len(body)
        )
        writer.write(body)
        await writer.drain()
        writer.close()


@asynccontextmanager
async def proxy() -> AsyncGenerator[Proxy]:
    found = Proxy()
    server = await asyncio.start_server(found.answer, "127.0.0.1", 0)
    found.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    async with server:
        yield found


async def telegram(url: str) -> object:
    wire = TelegramWire("1:abc", url, TelegramPace())
    async with wire.open():
        return await wire.who()


async def discord(url: str) -> object:
    wire = DiscordWire("token", f"{url}/api/v10", DiscordPace())
    async with wire.open():
        return await wire.user()


async def matrix(url: str) -> object:
    async with MatrixClient.open(url, "token", MatrixPace()) as client:
        return await client.whoami()


@pytest.mark.parametrize("call", [telegram, discord, matrix])
async def test_a_call_goes_through_the_proxy_and_takes_no_password_of_a_netrc_along(
    call: Callable[[str], Awaitable[object]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a ``default`` entry in it the HTTP client would refuse every call that bears a token of
    ours, and send the entry with all others."""
    (tmp_path / "netrc").write_text("default login ada password secret\n")
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    monkeypatch.delenv("NO_PROXY", raising=False)
    monkeypatch.delenv("no_proxy", raising=False)
    async with proxy() as between:
        monkeypatch.setenv("http_proxy", between.url)
        assert await asyncio.wait_for(call("http://platform.invalid"), 20)
    assert between.asked
    assert all(" http://platform.invalid/" in line for line in between.asked)
    told = base64.b64encode(b"ada:secret").decode()
    assert not [line for line in between.headers if told in line]


@pytest.mark.parametrize(
    ("url", "found"),
    [
        ("https://slack.com/api/", "http://proxy:3128"),
        ("wss://gateway.discord.gg/", "http://proxy:3128"),
        ("http://matrix.example.org", "http://plain:3128"),
        ("https://inside.example.org", None),
        ("https://api.telegram.org:443", "http://proxy:3128"),
        ("http://127.0.0.1:8081", None),
        ("http://127.8.8.8:8081", None),
        ("http://[::1]:8081", None),
        ("http://localhost:8081", None),
    ],
)
def test_the_environment_says_which_proxy_and_loopback_has_none(
    url: str, found: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("HTTPS_PROXY", "HTTP_PROXY", "NO_PROXY", "ALL_PROXY", "REQUEST_METHOD"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("https_proxy", "http://proxy:3128")
    monkeypatch.setenv("http_proxy", "http://plain:3128")
    monkeypatch.setenv("no_proxy", "inside.example.org")
    assert proxy_for(url) == found
