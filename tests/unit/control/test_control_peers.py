"""What the daemon runs may look at its status, and nothing else, at either door."""

from __future__ import annotations

import asyncio
import json
import os
import re
import socket
import subprocess
import sys
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from ohmo.ambient import IdSource
from ohmo.control.application import _application
from ohmo.control.authentication import INSIDE, UNCLEAR, Keys
from ohmo.control.event_hub import EventHub
from ohmo.control.guard import Callers
from ohmo.control.ports import Ports
from ohmo.control.server import AppDeps, Doors
from ohmo.cron.desk import CronDesk, DeskParts
from ohmo.processes.peer_process import Ancestry
from ohmo_testing.house import ManualClock
from tests.programs import run_process
from tests.store_model.store import MemoryStore
from tests.unit.control.small_house import SmallHouse
from tests.unit.control.test_control_webhooks import HOOK
from tests.unit.control.test_control_webhooks import House as Signed

HARMLESS = {
    ("GET", "/"),
    ("GET", "/favicon.svg"),
    ("GET", "/healthz"),
    ("GET", "/readyz"),
    ("GET", "/static/{version}/{name}"),
    ("GET", "/api/v1/known"),
    ("GET", "/api/v1/status"),
    ("POST", "/hooks/{name}"),
}
BRIEF = {
    ("GET", "/api/v1/approvals"),
    ("GET", "/api/v1/sessions"),
    ("GET", "/api/v1/sessions/{thread}"),
    ("GET", "/api/v1/inbox"),
    ("GET", "/api/v1/cron"),
    ("GET", "/api/v1/cron/{name}/history"),
}
# Asks everything on its standard input, one connection each, and prints codes and errors.
ASKS = """
import http.client, json, socket, sys
where, asked = json.load(sys.stdin)
for door, method, path in asked:
    if door == "unix":
        link = http.client.HTTPConnection("localhost")
        link.sock = socket.socket(socket.AF_UNIX)
        link.sock.connect(where["unix"])
    else:
        link = http.client.HTTPConnection("127.0.0.1", where["port"])
    headers = {"Content-Type": "application/json", "Authorization": "Bearer " + where["token"]}
    link.request(method, path, body="{}" if method != "GET" else None, headers=headers)
    answer = link.getresponse()
    streams = "json" not in answer.headers.get("Content-Type", "")
    print(json.dumps([answer.status, "" if streams else answer.read().decode()]), flush=True)
    link.close()
"""


CONNECTS = """
import socket, sys
link = socket.socket(socket.AF_UNIX)
link.connect(sys.argv[1])
socket.send_fds(socket.socket(fileno=0), [b"x"], [link.fileno()])
"""


class Whole(SmallHouse):
    """With every route that there is."""

    def ports(self) -> Ports:
        clock, ids = ManualClock(), IdSource()
        store = MemoryStore(clock=clock)
        parts = DeskParts(store, never, never, lambda _: "", (), "UTC", ids, clock, never)
        return replace(super().ports(), cron=CronDesk(parts), hooks=Signed().hooks(HOOK))

    def routes(self) -> set[tuple[str, str]]:
        live, keys = EventHub(self, {}, "life"), Keys("k" * 40)
        more = (None, frozenset[str](), self.new_id, ManualClock(), None)
        router = _application(AppDeps(self.ports(), None, live, keys, "c", *more), Callers()).router
        routes = [(route.method, route.resource) for route in router.routes()]
        found = {(method, resource.canonical) for method, resource in routes if resource}
        assert len(found) > 60
        return {(method, path) for method, path in found if method != "HEAD"}


async def never(_: object) -> Any:
    raise AssertionError("nobody came so far")


@pytest.fixture
async def house() -> Whole:
    return Whole()


@pytest.fixture
async def doors(house: Whole, tmp_path: Path) -> AsyncIterator[Doors]:
    async with house.open(tmp_path / "run", ancestry=Ancestry(os.getpid())) as doors:
        yield doors


async def below(doors: Doors, asked: list[tuple[str, str, str]]) -> list[tuple[int, Any]]:
    """What a program is told that the process which serves has started."""
    where = {
        "unix": str(doors.socket),
        "port": int(str(doors.url).rpartition(":")[2]),
        "token": (doors.socket.parent / "token").read_text().strip(),
    }
    orders = json.dumps([where, asked])
    done = await asyncio.to_thread(run_process, sys.executable, "-c", ASKS, input=orders)
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(answers) == len(asked), done.stderr
    return [(status, body) for status, body in answers]


@pytest.mark.needs("linux")
@pytest.mark.parametrize("door", ["unix", "tcp"])
async def test_every_route_but_a_few_is_shut_to_what_the_daemon_runs(
    house: Whole, doors: Doors, door: str
) -> None:
    known = sorted(house.routes())
    wanted = [(door, method, re.sub(r"\{[^}]*\}+", "1", path)) for method, path in known]
    told = await below(doors, wanted)
    refusal = (403, {"error": INSIDE})
    heard = [(status, json.loads(body or "{}")) for status, body in told]
    let = {route for route, one in zip(known, heard, strict=True) if one != refusal}
    assert let == HARMLESS | BRIEF


@pytest.mark.parametrize("door", ["unix", "tcp"])
async def test_the_same_program_beside_the_daemon_is_answered(
    house: Whole, tmp_path: Path, door: str
) -> None:
    elsewhere = subprocess.Popen(["sleep", "60"])
    try:
        async with house.open(tmp_path / "run", ancestry=Ancestry(elsewhere.pid)) as doors:
            wanted = [
                ("GET", "/api/v1/pairing"),
                ("POST", "/api/v1/login"),
                ("GET", "/api/v1/events"),
            ]
            told = await below(doors, [(door, *one) for one in wanted])
    finally:
        elsewhere.kill()
        elsewhere.wait()
    assert [status for status, _ in told] == [200, 200, 200]


@pytest.mark.needs("linux")
async def test_a_login_link_is_neither_opened_nor_used_up_by_what_the_daemon_runs(
    doors: Doors,
) -> None:
    link = doors.login_link()
    assert link is not None
    assert link.startswith(str(doors.url))
    [(status, body)] = await below(doors, [("tcp", "GET", link.removeprefix(str(doors.url)))])
    assert (status, json.loads(body)) == (403, {"error": INSIDE})
    async with aiohttp.ClientSession() as session:
        async with session.get(link, allow_redirects=False) as response:
            assert response.headers["Location"] == "/"


async def test_who_ended_since_it_connected_is_nobody(doors: Doors) -> None:
    """A number that was somebody's may be somebody else's by now."""
    ours, theirs = socket.socketpair()
    words = (sys.executable, "-c", CONNECTS, str(doors.socket))
    program = await asyncio.create_subprocess_exec(*words, stdin=theirs)
    assert await program.wait() == 0
    _, descriptors, _, _ = socket.recv_fds(ours, 1, 1)
    reader, writer = await asyncio.open_connection(sock=socket.socket(fileno=descriptors[0]))
    writer.write(b"POST /api/v1/login HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
    told = (await reader.read()).decode()
    writer.close()
    for end in (ours, theirs):
        end.close()
    assert told.startswith("HTTP/1.1 403")
    assert UNCLEAR in told


async def test_the_command_that_is_its_own_house_asks_itself(doors: Doors) -> None:
    async with aiohttp.ClientSession(connector=aiohttp.UnixConnector(str(doors.socket))) as session:
        async with session.post("http://localhost/api/v1/login") as response:
            assert response.status == 200


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", "/api/v1/status"),
        ("GET", "/api/v1/status/"),
        ("GET", "//healthz"),
        ("GET", "/api/v1/sessions/x/replay"),
        ("PUT", "/api/v1/sessions"),
        ("GET", "/hooks/x"),
        ("POST", "/hooks/x/../../api/v1/login"),
        ("POST", "/hooks/%2e%2e%2fapi%2fv1%2flogin/x"),
        ("GET", "/static/x/../../api/v1/pairing"),
        ("GET", "/static/..%2fapi/v1/pairing"),
        ("PUT", "/hooks/x"),
        ("DELETE", "/static/x/y"),
        ("GET", "/login"),
        ("OPTIONS", "/healthz"),
    ],
)
async def test_only_the_very_route_is_free(doors: Doors, method: str, path: str) -> None:
    [(status, body)] = await below(doors, [("unix", method, path)])
    assert (status, json.loads(body)) == (403, {"error": INSIDE})
