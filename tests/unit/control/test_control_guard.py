"""No foreign page, no foreign name and nobody without a key comes in over TCP."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import re
import socket
import stat
from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import pytest

from channels.web.client import place
from ohmo.contracts.agent import TurnStarted
from ohmo.contracts.errors import ConfigError
from ohmo.control.authentication import COOKIE_LIFE, LINK_LIFE, Keys, load_token
from ohmo.control.server import Doors, Listen, bind_tcp, find_socket, parse_listen, unix_socket
from tests.unit.control.small_house import SmallHouse


@pytest.fixture
def token(tmp_path: Path, doors: Doors) -> str:
    return (tmp_path / "run" / "token").read_text().strip()


@pytest.fixture
async def stranger(doors: Doors) -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession(
        doors.url, cookie_jar=aiohttp.CookieJar(unsafe=True)
    ) as session:
        yield session


async def status_of(
    session: aiohttp.ClientSession,
    path: str = "/api/v1/status",
    method: str = "GET",
    **headers: str,
) -> int:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    async with session.request(method, path, headers=named, allow_redirects=False) as response:
        return response.status


async def logged_in(session: aiohttp.ClientSession, doors: Doors) -> aiohttp.ClientSession:
    link = doors.login_link()
    assert link is not None
    async with session.get(link, allow_redirects=False) as response:
        assert (response.status, response.headers["Location"]) == (303, "/")
        cookie = response.headers["Set-Cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=Strict" in cookie
    return session


@pytest.mark.parametrize(
    "path", ["/api/v1/status", "/api/v1/events", "/metrics", "/api/v1/web/chats", "/api/v1/nothing"]
)
async def test_nobody_gets_nothing(stranger: aiohttp.ClientSession, path: str) -> None:
    assert await status_of(stranger, path) == 401


async def test_probes_and_the_empty_page_are_open(stranger: aiohttp.ClientSession) -> None:
    for path in ("/healthz", "/readyz", "/", "/favicon.svg"):
        assert await status_of(stranger, path) == 200


async def test_the_token_opens_and_a_wrong_one_does_not(
    stranger: aiohttp.ClientSession, token: str
) -> None:
    assert await status_of(stranger, Authorization=f"Bearer {token}") == 200
    assert await status_of(stranger, Authorization=f"Bearer {token}x") == 401
    assert await status_of(stranger, Authorization="Bearer é") == 401


async def test_a_login_link_opens_once(stranger: aiohttp.ClientSession, doors: Doors) -> None:
    link = doors.login_link()
    assert link is not None
    async with stranger.get(link, allow_redirects=False) as response:
        assert response.status == 303
    assert await status_of(stranger) == 200
    async with (
        aiohttp.ClientSession(cookie_jar=aiohttp.CookieJar(unsafe=True)) as another,
        another.get(link, allow_redirects=False) as response,
    ):
        assert response.headers["Location"] == "/#login-failed"
        assert "Set-Cookie" not in response.headers


@pytest.mark.parametrize(
    "host",
    """
        evil.example evil.example:7717 127.0.0.1.evil.example localhost.evil.example:80 [evil] [
        [::1]evil localhost:1@evil
    """.split(),
)
async def test_a_name_that_was_rebound_to_us_is_refused(
    stranger: aiohttp.ClientSession, doors: Doors, token: str, host: str
) -> None:
    assert await status_of(stranger, Host=host, Authorization=f"Bearer {token}") == 421
    assert await status_of(stranger, "/", Host=host) == 421


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:9000", "127.0.0.1:8000", "[::1]:7717"])
async def test_our_own_names_are_welcome_through_any_tunnel(
    stranger: aiohttp.ClientSession, token: str, host: str
) -> None:
    assert await status_of(stranger, Host=host, Authorization=f"Bearer {token}") == 200


@pytest.mark.parametrize(
    "origin", ["http://evil.example", "null", "http://127.0.0.1:1", "https://localhost", ""]
)
async def test_a_page_of_another_origin_is_refused_even_with_our_cookie(
    stranger: aiohttp.ClientSession, doors: Doors, origin: str
) -> None:
    await logged_in(stranger, doors)
    assert await status_of(stranger, Origin=origin) == 403
    assert await status_of(stranger, "/api/v1/events", Origin=origin) == 403
    assert await status_of(stranger, "/api/v1/outbox/dead/drop", "POST", Origin=origin) == 403
    websocket = {
        "Upgrade": "websocket",
        "Connection": "Upgrade",
        "Sec-WebSocket-Key": "AAAAAAAAAAAAAAAAAAAAAA==",
        "Sec-WebSocket-Version": "13",
    }
    async with stranger.get("/api/v1/events", headers={**websocket, "Origin": origin}) as response:
        assert response.status == 403


async def test_our_own_page_may_change_things(
    stranger: aiohttp.ClientSession, doors: Doors
) -> None:
    await logged_in(stranger, doors)
    assert doors.url is not None
    assert await status_of(stranger, "/api/v1/outbox/dead/drop", "POST", Origin=doors.url) == 200


@pytest.mark.parametrize(
    ("host", "origin", "status"),
    [
        ("ohmo.example", "https://ohmo.example", 200),
        ("ohmo.example:8443", "https://ohmo.example:8443", 200),
        ("ohmo.example", "http://ohmo.example", 200),
        ("ohmo.example", "https://ohmo.example:8443", 403),
        ("ohmo.example", "https://other.example", 403),
        ("localhost", "https://localhost", 403),
    ],
)
async def test_our_page_behind_a_proxy_that_ends_tls_may_change_things(
    tmp_path: Path, host: str, origin: str, status: int
) -> None:
    async with (
        SmallHouse().open(tmp_path / "run", names=frozenset({"ohmo.example"})) as doors,
        aiohttp.ClientSession(doors.url) as proxy,
    ):
        key = f"Bearer {(tmp_path / 'run' / 'token').read_text().strip()}"
        assert (
            await status_of(
                proxy,
                "/api/v1/outbox/dead/drop",
                "POST",
                Host=host,
                Origin=origin,
                Authorization=key,
            )
            == status
        )


async def test_who_logs_out_leaves_no_copy_of_the_cookie_that_opens(tmp_path: Path) -> None:
    run = tmp_path / "run"
    async with (
        SmallHouse().open(run) as doors,
        aiohttp.ClientSession(doors.url, cookie_jar=aiohttp.CookieJar(unsafe=True)) as session,
    ):
        await logged_in(session, doors)
        copy = "; ".join(f"{cookie.key}={cookie.value}" for cookie in session.cookie_jar)
        assert doors.url is not None
        assert await status_of(session, "/api/v1/logout", "POST", Origin=doors.url) == 200
        async with aiohttp.ClientSession(doors.url, cookie_jar=aiohttp.DummyCookieJar()) as thief:
            assert await status_of(thief, Cookie=copy) == 401
        other = await logged_in(session, doors)
        assert await status_of(other) == 200, "another login goes on"
    value = copy.partition("=")[2].strip('"')
    token = (run / "token").read_text().strip()
    assert not Keys(token, ended=run / "logged-out").is_cookie(value), "also after a restart"
    assert stat.S_IMODE((run / "logged-out").stat().st_mode) == 0o600
    (run / "logged-out").write_bytes(b"\xff 1\n9\n")
    assert Keys(token, ended=run / "logged-out").is_cookie(value), "a damaged list holds nobody up"


@pytest.mark.parametrize("path", ["/api/v1/events", "/api/v1/logs/events"])
async def test_who_logs_out_ends_the_streams_that_the_login_had_opened(
    tmp_path: Path, path: str
) -> None:
    house = SmallHouse()
    house.log = tmp_path / "ohmo.log"
    house.log.write_text("")
    async with (
        house.open(tmp_path / "run") as doors,
        aiohttp.ClientSession(doors.url, cookie_jar=aiohttp.CookieJar(unsafe=True)) as session,
    ):
        await logged_in(session, doors)
        async with session.get(path) as stream:
            while b"event: ready" not in await stream.content.readuntil(b"\n\n"):
                pass
            assert doors.url is not None
            assert await status_of(session, "/api/v1/logout", "POST", Origin=doors.url) == 200
            house.emit(house.thread_at(place("c")), TurnStarted("turn", "owner"))
            house.log.write_text('{"event": "something", "level": "info"}\n')
            async with asyncio.timeout(40):
                assert await stream.content.read() == b"", "not even what was said at once"


async def test_a_logout_that_cannot_be_written_down_is_said_and_can_be_tried_again(
    tmp_path: Path,
) -> None:
    run = tmp_path / "run"
    async with (
        SmallHouse().open(run) as doors,
        aiohttp.ClientSession(doors.url, cookie_jar=aiohttp.CookieJar(unsafe=True)) as session,
    ):
        await logged_in(session, doors)
        assert doors.url is not None
        (run / "logged-out").mkdir()
        assert await status_of(session, "/api/v1/logout", "POST", Origin=doors.url) == 503
        assert await status_of(session) == 200
        (run / "logged-out").rmdir()
        copy = {
            "Cookie": "; ".join(f"{cookie.key}={cookie.value}" for cookie in session.cookie_jar)
        }
        assert await status_of(session, "/api/v1/logout", "POST", Origin=doors.url) == 200
        async with aiohttp.ClientSession(doors.url, cookie_jar=aiohttp.DummyCookieJar()) as thief:
            assert await status_of(thief, **copy) == 401


async def test_a_change_by_cookie_without_an_origin_is_refused(
    stranger: aiohttp.ClientSession, doors: Doors
) -> None:
    await logged_in(stranger, doors)
    assert await status_of(stranger, "/api/v1/outbox/dead/drop", "POST") == 403


async def test_what_another_site_embeds_is_refused_and_what_it_links_to_opens(
    stranger: aiohttp.ClientSession, doors: Doors
) -> None:
    await logged_in(stranger, doors)
    for site in ("cross-site", "same-site"):
        assert await status_of(stranger, Sec_Fetch_Site=site) == 403
        assert await status_of(stranger, "/", Sec_Fetch_Site=site, Sec_Fetch_Mode="no-cors") == 403
        assert await status_of(stranger, "/", Sec_Fetch_Site=site, Sec_Fetch_Mode="navigate") == 200


async def test_a_form_cannot_post(stranger: aiohttp.ClientSession, token: str) -> None:
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "text/plain"}
    async with stranger.post("/api/v1/messages", data='{"text":"x"}', headers=headers) as response:
        assert response.status == 415


async def test_an_oversize_body_is_refused_with_one_line(
    stranger: aiohttp.ClientSession, token: str
) -> None:
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
    async with stranger.post(
        "/api/v1/messages", data=b"x" * (9 * 1024 * 1024), headers=headers
    ) as response:
        assert response.status == 413
        assert (await response.json())["error"].startswith(
            "that is larger than the 8 MiB a request may have; put it into a file"
        )


async def test_every_answer_carries_the_headers(stranger: aiohttp.ClientSession) -> None:
    for path in ("/", "/healthz", "/api/v1/status", "/nothing"):
        async with stranger.get(path) as response:
            policy = response.headers["Content-Security-Policy"]
            assert "script-src 'self'" in policy
            assert "unsafe" not in policy
            assert "frame-ancestors 'none'" in policy
            assert response.headers["X-Content-Type-Options"] == "nosniff"


async def test_the_page_is_cached_by_its_bytes(stranger: aiohttp.ClientSession) -> None:
    async with stranger.get("/") as response:
        tag, page, policy = (
            response.headers["ETag"],
            await response.text(),
            response.headers["Content-Security-Policy"],
        )
    assert await status_of(stranger, "/", If_None_Match=tag) == 304
    [script] = re.findall(r'<script type="module" src="([^"]+)"', page)
    async with stranger.get(script) as response:
        assert response.headers["Cache-Control"].endswith("immutable")
        assert response.content_type == "text/javascript"
    assert await status_of(stranger, "/static/old/app.js") == 200
    assert await status_of(stranger, "/static/old/..%2f..%2fkeys.py") == 404
    assert "<script>" not in page
    sheets = re.findall("<style>(.*?)</style>", page, re.DOTALL)
    assert len(sheets) == policy.count("'sha256-") == 2
    assert all(
        base64.b64encode(hashlib.sha256(one.encode()).digest()).decode() in policy for one in sheets
    )
    assert " style=" not in page
    assert "http://" not in page.replace("http://www.w3.org/2000/svg", "")


def test_a_link_grows_old_and_a_cookie_too() -> None:
    now, monotonic = [1_000_000.0], [5.0]
    keys = Keys("t" * 40, now=lambda: now[0], monotonic=lambda: monotonic[0])
    late = keys.new_link()
    monotonic[0] += LINK_LIFE + 1
    assert keys.redeem(late) is None
    cookie = keys.redeem(keys.new_link())
    assert cookie is not None
    assert keys.is_cookie(cookie)
    assert Keys("t" * 40, now=lambda: now[0]).is_cookie(cookie), (
        "a restart keeps the page logged in"
    )
    assert not Keys("u" * 40, now=lambda: now[0]).is_cookie(cookie)
    until, rest = cookie.split(".", 1)
    assert not keys.is_cookie(f"{int(until) + 1}.{rest}")
    now[0] += COOKIE_LIFE + 1
    assert not keys.is_cookie(cookie)
    assert not keys.is_cookie("")
    assert not keys.is_cookie("é.é.é")


def test_the_token_stays_and_is_private(tmp_path: Path) -> None:
    path = tmp_path / "token"
    token = load_token(path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    path.chmod(0o644)
    assert load_token(path) == token
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    path.write_text("short")
    assert load_token(path) != token
    assert [p.name for p in tmp_path.iterdir()] == ["token"]


def test_a_taken_port_is_one_clear_line() -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        with pytest.raises(
            ConfigError,
            match=(
                rf"^control.listen: 127.0.0.1:{port} is taken by another program; .*such as"
                rf" 127.0.0.1:{port + 1}$"
            ),
        ):
            bind_tcp(Listen("127.0.0.1", port))


@pytest.mark.parametrize(
    "text", ["7717", ":7717", "127.0.0.1", "127.0.0.1:http", "127.0.0.1:70000"]
)
def test_a_wrong_address_names_the_key(text: str) -> None:
    with pytest.raises(ConfigError, match=r"^control\.listen: "):
        parse_listen(text)


def test_addresses_are_read() -> None:
    assert parse_listen("127.0.0.1:7717") == Listen("127.0.0.1", 7717)
    assert parse_listen("[::1]:0") == Listen("::1", 0)


def test_the_socket_file_is_the_owners_and_a_dead_one_is_replaced(tmp_path: Path) -> None:
    with unix_socket(tmp_path) as first:
        path = Path(first.getsockname())
        assert (path, stat.S_IMODE(path.stat().st_mode)) == (tmp_path / "ohmo.sock", 0o600)
        with unix_socket(tmp_path) as second:
            assert second.getsockname() == str(path)
    assert not path.exists()


def test_a_long_home_gets_its_socket_elsewhere_and_says_where(tmp_path: Path) -> None:
    home = tmp_path / ("x" * 90)
    home.mkdir()
    with unix_socket(home) as bound:
        found = find_socket(home)
        assert str(found) == bound.getsockname()
        assert found.is_socket()
        (home / "ohmo.sock.path").write_text(f"{found}\n")
        with unix_socket(home) as again:  # a life that was killed left its folder behind
            assert not found.exists()
            assert find_socket(home) == Path(again.getsockname())
    assert not (home / "ohmo.sock.path").exists()


def test_a_socket_whose_folder_went_with_a_restart_of_the_machine_holds_up_no_start(
    tmp_path: Path,
) -> None:
    home = tmp_path / ("x" * 90)
    home.mkdir()
    (home / "ohmo.sock.path").write_text(f"{tmp_path / 'gone' / 'ohmo-1' / 'ohmo.sock'}\n")
    with unix_socket(home) as bound:
        assert find_socket(home) == Path(bound.getsockname())


@pytest.mark.parametrize(
    "path", ["sessions?limit=", "usage?days=", "logs?limit=", "cron/x/history?limit="]
)
@pytest.mark.parametrize(
    "number", ["0" * 18 + "9" * 30, "9" * 5_000, "-1", "1e9", "\u0663", "", "18446744073709551616"]
)
async def test_a_number_that_is_none_is_refused_with_a_line(
    stranger: aiohttp.ClientSession, token: str, path: str, number: str
) -> None:
    """Zeros in front once hid a number larger than any store knows."""
    headers = {"Authorization": f"Bearer {token}"}
    async with stranger.get(f"/api/v1/{path}{number}", headers=headers) as response:
        assert response.status in (400, 404)
        assert "error" in await response.json()


@pytest.mark.parametrize(
    "line",
    [
        b"Cookie: ohmo-%d=1.\xff\xfe",
        b"Authorization: Bearer \xff\xed\xa0\x80",
        b"Last-Event-ID: \xff",
    ],
)
async def test_bytes_that_are_no_text_are_a_stranger_like_any_other(
    doors: Doors, line: bytes
) -> None:
    assert doors.url is not None
    port = int(doors.url.rpartition(":")[2])
    for path in (b"/api/v1/status", b"/login?code=%ff%ed%a0%80"):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(
            b"GET "
            + path
            + b" HTTP/1.1\r\nHost: 127.0.0.1\r\n"
            + line.replace(b"%d", str(port).encode())
            + b"\r\n\r\n"
        )
        async with asyncio.timeout(20):
            status = await reader.readline()
        writer.close()
        assert status.split()[1] in (b"401", b"303", b"400"), status


async def test_trying_again_in_a_thread_that_is_not_there_is_a_404(
    stranger: aiohttp.ClientSession, token: str
) -> None:
    assert (
        await status_of(
            stranger,
            "/api/v1/inbox/x/999999999999999999/retry",
            "POST",
            Authorization=f"Bearer {token}",
        )
        == 404
    )
