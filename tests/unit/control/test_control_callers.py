"""What a stranger at the TCP door cannot do: hold it shut, fill the log, use up a link, or get an
answer nobody wrote."""

from __future__ import annotations

import asyncio
import gzip
import logging
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import pytest
from aiohttp import web

from ohmo.control.guard import MOST, Callers
from ohmo.control.server import Control, Doors, Listen, Place
from tests.unit.control.small_house import SmallHouse

HEAD = b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n"
Line = tuple[asyncio.StreamReader, asyncio.StreamWriter]


@pytest.fixture
def key(tmp_path: Path, doors: Doors) -> dict[str, str]:
    return {"Authorization": f"Bearer {(tmp_path / 'run' / 'token').read_text().strip()}"}


@asynccontextmanager
async def small_door(callers: Callers) -> AsyncGenerator[int]:
    """An application of one page behind ``callers``; who says ``?known`` is one of ours."""

    async def page(request: web.Request) -> web.Response:
        callers.heard(request)
        if "known" in request.query:
            callers.know(request)
        return web.Response(text="here")

    application = web.Application()
    application.router.add_get("/", page)
    runner = web.AppRunner(application)
    await runner.setup()
    server = runner.server
    assert server is not None
    listening = await asyncio.get_running_loop().create_server(
        lambda: callers.meet(server), "127.0.0.1", 0
    )
    try:
        yield listening.sockets[0].getsockname()[1]
    finally:
        listening.close()
        await runner.cleanup()


async def ask(line: Line, path: str = "/") -> bytes:
    line[1].write(f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode())
    async with asyncio.timeout(20):
        return await line[0].readuntil(b"\r\n\r\n") + await line[0].readexactly(4)


async def end_of(line: Line) -> bytes:
    async with asyncio.timeout(20):
        try:
            return await line[0].read()
        except ConnectionResetError:
            return b""


def port_of(doors: Doors) -> int:
    assert doors.url is not None
    return int(doors.url.rpartition(":")[2])


async def test_who_sends_the_head_of_a_request_for_ever_is_seen_off() -> None:
    async with small_door(Callers(patience=1.5)) as port:
        loris, friend = [await asyncio.open_connection("127.0.0.1", port) for _ in range(2)]
        loris[1].write(b"GET / HTTP/1.1\r\nX: ")
        assert (await ask(friend)).endswith(b"here")
        assert await end_of(loris) == b""
        assert (await ask(friend)).endswith(b"here"), "who asked for something may stay"
        for _, writer in (loris, friend):
            writer.close()


async def test_when_the_door_is_full_the_oldest_stranger_makes_room_and_one_of_ours_never_does() -> (
    None
):
    async with small_door(Callers(most=2)) as port:
        ours = await asyncio.open_connection("127.0.0.1", port)
        assert (await ask(ours, "/?known")).endswith(b"here")
        first = await asyncio.open_connection("127.0.0.1", port)
        assert (await ask(first)).endswith(b"here")
        second = await asyncio.open_connection("127.0.0.1", port)
        assert (await ask(second, "/?known")).endswith(b"here")
        assert await end_of(first) == b""
        third = await asyncio.open_connection("127.0.0.1", port)
        assert (await end_of(third)).startswith(b"HTTP/1.1 503 ")
        assert (await ask(ours)).endswith(b"here")
        for _, writer in (ours, first, second, third):
            writer.close()


async def test_a_crowd_of_silent_strangers_shuts_nobody_out(
    doors: Doors, key: dict[str, str]
) -> None:
    crowd = [await asyncio.open_connection("127.0.0.1", port_of(doors)) for _ in range(MOST + 20)]
    for _, writer in crowd:
        writer.write(HEAD)
    async with (
        aiohttp.ClientSession(doors.url, headers=key) as friend,
        friend.get("/api/v1/status") as response,
    ):
        assert response.status == 200
    assert await end_of(crowd[0]) == b""
    for _, writer in crowd:
        writer.close()


@pytest.mark.parametrize(
    "sent",
    [
        b"\x16\x03\x01 no HTTP\r\n\r\n",
        b"GET /x HTTP/1.1\r\nHost : evil\r\n\r\n",
        HEAD + b"Host: two\r\n\r\n",
    ],
)
async def test_what_is_no_http_fills_no_log(
    doors: Doors, sent: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO):
        line = await asyncio.open_connection("127.0.0.1", port_of(doors))
        line[1].write(sent)
        assert b" 400 " in (await end_of(line)).splitlines()[0]
        line[1].close()
    assert caplog.records == []


@pytest.mark.parametrize("path", ["/healthz", "/api/v1/messages", "/hooks/ci"])
async def test_a_packed_body_is_not_opened(doors: Doors, key: dict[str, str], path: str) -> None:
    """Six hundred kilobytes that anybody could send became six hundred megabytes, a piece of fifty
    at a time."""
    for packed in (gzip.compress(bytes(2**24)), b"never packed"):
        headers = {**key, "Content-Type": "application/json", "Content-Encoding": "gzip"}
        async with (
            aiohttp.ClientSession(doors.url) as session,
            session.post(path, data=packed, headers=headers) as response,
        ):
            assert response.status == 415
            assert "Content-Encoding" in (await response.json())["error"]


async def test_who_hangs_up_in_the_middle_of_a_body_fills_no_log(
    doors: Doors, key: dict[str, str], caplog: pytest.LogCaptureFixture
) -> None:
    head = (
        "POST /api/v1/messages HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization:"
        f" {key['Authorization']}\r\nContent-Type: application/json\r\n"
    )
    with caplog.at_level(logging.INFO):
        line = await asyncio.open_connection("127.0.0.1", port_of(doors))
        line[1].write(f"{head}Content-Length: 9\r\nExpect: 100-continue\r\n\r\n".encode())
        async with asyncio.timeout(20):
            assert b" 100 " in await line[0].readline()
        line[1].write(b"{}")
        await line[1].drain()
        line[1].transport.abort()
        async with (
            aiohttp.ClientSession(doors.url, headers=key) as session,
            session.get("/api/v1/status") as response,
        ):
            assert response.status == 200
    assert caplog.records == []


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        ("multipart/form-data", b""),
        ("multipart/form-data; boundary=x", b"--y"),
        ("multipart/form-data; boundary=x", b"--x\r\n" + b"A: b\r\n" * 20_000),
    ],
)
async def test_a_file_that_is_badly_wrapped_is_refused_with_a_line(
    doors: Doors, key: dict[str, str], kind: str, body: bytes
) -> None:
    async with aiohttp.ClientSession(doors.url, headers=key) as session:
        async with session.post(
            "/api/v1/web/files", data=body, headers={"Content-Type": kind}
        ) as response:
            assert response.status == 400
            assert "error" in await response.json()


async def test_who_only_looks_at_a_login_link_does_not_use_it_up(doors: Doors) -> None:
    link = doors.login_link()
    assert link is not None
    async with aiohttp.ClientSession(cookie_jar=aiohttp.DummyCookieJar()) as session:
        async with session.head(link, allow_redirects=False) as response:
            assert response.status == 405
        async with session.get(link, allow_redirects=False) as response:
            assert response.headers["Location"] == "/"
            assert "Secure" not in response.headers["Set-Cookie"]
            assert response.headers["Server"] == "ohmo", (
                "what it is built from is nobody's business"
            )


async def test_behind_tls_the_cookie_never_goes_without_it(doors: Doors) -> None:
    link = doors.login_link()
    assert link is not None
    async with aiohttp.ClientSession(cookie_jar=aiohttp.DummyCookieJar()) as session:
        async with session.get(
            link, allow_redirects=False, headers={"X-Forwarded-Proto": "https"}
        ) as response:
            assert "; Secure" in response.headers["Set-Cookie"]


async def test_whoever_waits_for_the_first_answer_is_told_when_there_is_one(tmp_path: Path) -> None:
    """The doors are open before anybody can answer at them, and a service manager is told only
    then."""
    calm = asyncio.Event()

    async def quiet() -> None:
        await calm.wait()

    control = Control(SmallHouse().ports(), Place(tmp_path / "run", Listen("127.0.0.1", 0)), None)
    async with control.serving(quiet) as doors, aiohttp.ClientSession(doors.url) as session:
        asked = asyncio.create_task(session.get("/healthz"))
        done, _ = await asyncio.wait([asked], timeout=0.2)
        assert (done, doors.answering.is_set()) == (set(), False)
        calm.set()
        async with asyncio.timeout(20):
            await doors.answering.wait()
            assert (await asked).status == 200
