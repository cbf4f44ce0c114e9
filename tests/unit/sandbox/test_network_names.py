"""From inside a real cage: a name that was opened is reached, and nothing beside it."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import sys
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import ExitStack, asynccontextmanager, closing, suppress
from dataclasses import replace
from functools import partial
from ipaddress import ip_address
from pathlib import Path

import pytest

from ohmo.contracts.sandbox import Names as Cages
from ohmo.contracts.tool import Opened
from ohmo.permissions.sensitive_places import ABSOLUTE, ANYWHERE
from ohmo.processes.job import Command, JobEnded, ProcessRunner, child_environment
from ohmo.sandbox import probing, proxy
from ohmo.sandbox.proxy import Ip, Proxy
from ohmo.sandbox.walls import CageSettings, Walls
from ohmo.shell.hosts import written

pytestmark = [pytest.mark.needs("linux"), pytest.mark.timeout(120)]
OPEN = Path("/proc/self/fd")
PUBLIC = ip_address("127.0.0.2")  # stands for the internet, where the servers of these tests are
# Says bytes to the proxy, or to any address, and prints what comes back.
SAY = """
import json, os, socket, sys
def proxy():
    host, _, port = os.environ["https_proxy"].rpartition("//")[2].partition(":")
    return host, int(port)
def said(data, more=b""):
    with socket.create_connection(proxy(), 5) as link:
        link.settimeout(8)
        try:
            link.sendall(data)
            answer = link.recv(65536)
            if more:
                link.sendall(more)
            while part := link.recv(65536):
                answer += part
        except OSError as error:
            answer += str(error).encode()
    return answer.decode("latin-1")
"""


class Names:
    """What the world outside answers; ``asked``: every look-up."""

    def __init__(self, known: dict[str, list[str]]) -> None:
        self.known = known
        self.asked: list[str] = []

    async def __call__(self, host: str, port: int) -> Sequence[str]:
        self.asked.append(f"{host}:{port}")
        if host not in self.known:
            raise OSError("no such name")
        answers = self.known[host]
        return [answers.pop(0)] if len(answers) > 1 else answers


def reachable(ip: Ip) -> bool:
    return ip == PUBLIC


class Inside:
    """``engine``: of containers, "": bubblewrap."""

    def __init__(self, names: Names, top: Path, engine: str) -> None:
        self.top, self.work = top, top / "person" / "work"
        self.work.mkdir(parents=True)
        (self.work / "say.py").write_text(SAY)
        settings = CageSettings(
            backend="docker" if engine else "bubblewrap",
            network="ask",
            memory=1 << 29,
            cpus=1,
            pids=64,
            home=top / "person",
            root=top / "person" / ".ohmo",
            workspace=self.work,
            absolute=ABSOLUTE,
            anywhere=ANYWHERE,
            path="/usr/bin:/bin",
            installed=(Path(sys.prefix), Path(sys.base_prefix)),
            engine=engine,
        )
        self.walls = Walls(settings, Proxy(names, reachable))
        self.refused: list[str] = []

    async def run(self, script: str, names: Sequence[str], barred: Sequence[str] = ()) -> JobEnded:
        opened = Opened(network=True, names=tuple(names), barred=tuple(barred))
        cage = await self.walls.cage(self.work, opened=opened)
        assert cage is not None, await self.walls.standing()
        assert cage.network == "names"
        cage = replace(cage, names=replace(cage.names, refused=self.refused.append))
        environ = child_environment({"PATH": "/usr/bin:/bin", "HOME": str(self.work.parent)})
        argv = ("/bin/bash", "-c", script)
        command = Command(argv, self.work, environ, self.top / "spill", 60, cage=cage)
        return await ProcessRunner(sandbox=self.walls).run(command, lambda _: None)

    async def python(self, code: str, names: Sequence[str], barred: Sequence[str] = ()) -> object:
        """What ``code`` leaves in ``found``."""
        text = f"from say import *\nfound = None\n{code}\nprint(json.dumps(found))\n"
        (self.work / "run.py").write_text(text)
        ended = await self.run("/usr/bin/python3 run.py", names, barred)
        assert ended.code == 0, ended.output.err.head
        return json.loads(ended.output.out.head)


Made = Callable[[Names], Inside]


@pytest.fixture(
    params=[
        pytest.param("bubblewrap", marks=pytest.mark.needs("bwrap")),
        pytest.param(
            "docker", marks=[pytest.mark.needs("dockerd"), pytest.mark.xdist_group("dockerd")]
        ),
    ]
)
def inside(request: pytest.FixtureRequest, tmp_path: Path) -> Made:
    engine = request.getfixturevalue("engine") if request.param == "docker" else ""
    return partial(Inside, top=tmp_path, engine=engine)


@asynccontextmanager
async def web(host: str = str(PUBLIC)) -> AsyncGenerator[tuple[int, list[bytes]]]:
    """A server: its port, and every request that came, whole."""
    came: list[bytes] = []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        came.append(await reader.readuntil(b"\r\n\r\n"))
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: close\r\n\r\nhello")
        writer.close()

    server = await asyncio.start_server(answer, host, 0)
    async with server:
        yield server.sockets[0].getsockname()[1], came


async def test_a_name_that_was_opened_is_reached_by_curl_and_by_connect(inside: Made) -> None:
    names = Names({"files.example.org": [str(PUBLIC)]})
    cage = inside(names)
    async with web() as (port, came):
        ended = await cage.run(
            f"curl -sS http://Files.Example.ORG.:{port}/a?b", [f"files.example.org:{port}"]
        )
        assert (ended.code, ended.output.out.head) == (0, b"hello"), ended.output.err.head
        ended = await cage.run(f"curl -sSp http://files.example.org:{port}/", ["files.example.org"])
        assert (ended.code, ended.output.out.head) == (0, b"hello"), ended.output.err.head
    assert came[0].startswith(b"GET /a?b HTTP/1.1\r\n")
    assert b"connection: close" in came[0].lower()
    assert (len(came), cage.refused) == (2, [])


async def test_nothing_beside_the_name(inside: Made) -> None:
    """A name nobody opened, another port, what only looks like the domain, and a denied one."""
    known = ("a.org", "b.org", "x.a.org", "xa.org", "bad.a.org", "deep.bad.a.org")
    names = Names({name: [str(PUBLIC)] for name in known})
    cage = inside(names)
    async with web() as (port, came):
        code = (
            "found = []\n"
            f"for name in {known!r}:\n"
            f"    found.append(said(f'CONNECT {{name}}:{port} HTTP/1.1\\r\\n\\r\\n'.encode(),"
            " b'GET / HTTP/1.1\\r\\n\\r\\n')[9:12])"
        )
        answers = await cage.python(code, [".a.org"], [".bad.a.org"])
        assert answers == ["200", "403", "200", "403", "403", "403"]
        assert await cage.python(code, [f"a.org:{port + 1}", f"b.org:{port}"]) == [
            *("403", "200", "403", "403", "403", "403")
        ]
    assert len(came) == 3
    assert f"deep.bad.a.org:{port}" in cage.refused
    assert {each.partition(":")[0] for each in names.asked} == {"a.org", "x.a.org", "b.org"}


@pytest.mark.parametrize(
    "address", ["127.0.0.1", "10.0.0.1", "169.254.169.254", "::1", "::ffff:127.0.0.2", "0.0.0.0"]
)
async def test_a_name_that_leads_inward_is_refused(inside: Made, address: str) -> None:
    cage = inside(Names({"rebound.org": [address]}))
    async with web("127.0.0.1") as (port, came):
        code = f"found = said(b'CONNECT rebound.org:{port} HTTP/1.1\\r\\n\\r\\n')"
        answer = await cage.python(code, ["rebound.org", f"rebound.org:{port}"])
    assert "403 rebound.org" in str(answer)
    assert "not on the public internet" in str(answer)
    assert came == []


async def test_a_name_is_looked_up_once_and_no_later_answer_counts(inside: Made) -> None:
    names = Names({"turns.org": [str(PUBLIC), "127.0.0.1"]})
    cage = inside(names)
    async with web("127.0.0.1") as (_, inward), web() as (port, came):
        code = (
            f"ask = b'CONNECT turns.org:{port} HTTP/1.1\\r\\n\\r\\n'\n"
            "found = [said(ask, b'GET / HTTP/1.1\\r\\n\\r\\n')[9:12], said(ask)[9:12]]"
        )
        assert await cage.python(code, ["turns.org"]) == ["200", "403"]
    assert (len(came), len(inward), len(names.asked)) == (1, 0, 2)


async def test_what_is_named_literally_is_reached_at_that_port_but_never_this_process(
    inside: Made, tmp_path: Path
) -> None:
    cage = inside(Names({"localhost": ["127.0.0.1"], "127.0.0.1": ["127.0.0.1"]}))
    server = await asyncio.create_subprocess_exec(
        sys.executable, "-u", "-m", "http.server", "-b", "127.0.0.1", "-d", str(tmp_path), "0",
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL,
    )  # fmt: skip
    assert server.stdout is not None
    try:
        port = int((await server.stdout.readline()).split()[5])
        for host in ("127.0.0.1", "localhost"):
            ended = await cage.run(f"curl -sSf http://{host}:{port}/", [f"{host}:{port}"])
            assert b"person" in ended.output.out.head, ended.output.err.head
            ended = await cage.run(f"curl -sSf http://{host}:{port}/", [host, "127.0.0.1:1"])
            assert ended.code != 0
    finally:
        server.kill()
        await server.wait()
    async with web("127.0.0.1") as (own, came):  # as ohmo's own API
        ended = await cage.run(f"curl -sS http://127.0.0.1:{own}/", [f"127.0.0.1:{own}"])
        assert b"ohmo itself" in ended.output.out.head
    assert came == []


async def test_names_are_nothing_where_they_cannot_be_told_apart(
    inside: Made, tmp_path: Path
) -> None:
    walls = inside(Names({})).walls  # nobody has looked which backend holds
    assert not walls.tells_names
    names = Opened(network=True, names=("a.org",))
    assert walls.planned(tmp_path, opened=names).network == "off"
    assert walls.planned(tmp_path, opened=Opened(network=True)).network == "on"
    await walls.standing()
    assert walls.planned(tmp_path, opened=names).network == "names"


async def test_a_service_of_the_cloud_is_reached_by_no_name(inside: Made) -> None:
    """Not by its address, nor where a name that is none of the internet leads to a public one."""
    ways = ("fd00:ec2::254", "192.0.0.192", "100.100.100.200", "169.254.169.254")
    public = ("metadata.packet.net", "nas.lan")
    known = {**{way: [way] for way in ways}, **{name: ["93.184.215.14"] for name in public}}
    cage = inside(Names(known))
    async with web() as (port, came):
        wanted = [written(host, port) for host in known]
        code = f"found = [said(f'CONNECT {{way}} HTTP/1.1\\r\\n\\r\\n'.encode()) for way in {wanted!r}]"
        answers = await cage.python(code, wanted)
    assert [("403" in each, "which is not on" in each) for each in answers] == [(True, True)] * 6
    assert came == []


async def test_a_connection_ends_with_its_command(inside: Made) -> None:
    """Also where the far side takes nothing of what was sent."""
    cage = inside(Names({"a.org": [str(PUBLIC)]}))
    taken = asyncio.Event()

    async def silent(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.transport.pause_reading()  # pyright: ignore[reportAttributeAccessIssue]
        taken.set()
        await asyncio.sleep(60)

    server = await asyncio.start_server(silent, str(PUBLIC), 0)
    port = server.sockets[0].getsockname()[1]
    code = (
        "link = socket.create_connection(proxy())\nfound = []\n"
        f"link.sendall(b'CONNECT a.org:{port} HTTP/1.1\\r\\n\\r\\n')\n"
        "link.recv(100)\nlink.settimeout(1)\n"
        "try:\n    link.sendall(b'x' * (64 << 20))\nexcept OSError:\n    found = ['stalled']"
    )
    assert await cage.python(code, ["a.org"]) == ["stalled"]
    assert taken.is_set()
    await asyncio.sleep(0.1)
    assert towards(port) == 0
    server.close()


def towards(port: int) -> int:
    """Sockets of this process that are connected to a port."""
    count = 0
    for name in os.listdir("/proc/self/fd"):  # noqa: PTH208
        with (
            suppress(OSError),
            socket.fromfd(int(name), socket.AF_INET, socket.SOCK_STREAM) as sock,
        ):
            count += sock.getpeername()[1:2] == (port,)
    return count


async def test_who_tries_to_get_out_where_names_are_known_does_not(inside: Made) -> None:
    """Everything of ``ohmo.sandbox.attempts``, beside a proxy that answers."""
    walls = inside(Names({})).walls
    standing = await walls.standing()
    assert (standing.nameless, standing.note, walls.tells_names) == ("", "", True)
    assert walls._sandbox is not None
    problem, tried = await probing.holds(
        walls._sandbox, walls.planned(Path(walls.workspace)), "names"
    )
    assert (problem, tried) == ("", standing.tried)


async def test_two_at_once_have_each_their_own_names(inside: Made) -> None:
    """By its own proxy, by whatever else listens where it is, and by whatever door it finds."""
    names = Names({"a.org": [str(PUBLIC)], "b.org": [str(PUBLIC)]})
    cage = inside(names)
    async with web() as (port, came):
        code = (
            "import time, glob\n"
            "def ports():\n"
            "    lines = open('/proc/net/tcp').read().splitlines()[1:]\n"
            "    return {int(line.split()[1].split(':')[1], 16) for line in lines if line.split()[3] == '0A'}\n"
            "own = socket.create_server(('127.0.0.1', 0))\n"
            "found, end = [], time.monotonic() + 6\n"
            "while time.monotonic() < end:\n"
            "    for door in glob.glob('/run/ohmo/*') + ['/run/ohmo/door']:\n"
            "        try:\n"
            "            with socket.socket(socket.AF_UNIX) as way:\n"
            "                way.connect(door)\n"
            "                socket.send_fds(way, [b'x'], [own.fileno()])\n"
            "                found.append(door)\n"
            "        except OSError:\n            pass\n"
            "    for at in ports() - {own.getsockname()[1]} | {proxy()[1]}:\n"
            "        os.environ['https_proxy'] = f'http://127.0.0.1:{at}'\n"
            "        for name in ('a.org', 'b.org'):\n"
            f"            said(f'CONNECT {{name}}:{port} HTTP/1.1\\r\\n\\r\\n'.encode(),"
            " f'GET /{WHO}-{name} HTTP/1.1\\r\\n\\r\\n'.encode())\n"
            "    time.sleep(0.05)\n"
        )
        for who in ("a", "b"):
            text = f"from say import *\nWHO = {who!r}\n{code}print(found)\n"
            (cage.work / f"{who}.py").write_text(text)
        ran = [cage.run(f"/usr/bin/python3 {who}.py", [f"{who}.org"]) for who in ("a", "b")]
        ended = await asyncio.gather(*ran)
    assert [each.output.out.head for each in ended] == [b"[]\n", b"[]\n"], ended
    paths = {each.split(None, 2)[1] for each in came}
    assert paths == {b"/a-a.org", b"/b-b.org"}


async def test_what_a_command_left_does_not_use_what_the_next_is_opened(inside: Made) -> None:
    """In a container it would be in the same one, at the same loopback."""
    names = Names({"a.org": [str(PUBLIC)], "b.org": [str(PUBLIC)]})
    cage = inside(names)
    left = (
        "import glob, socket, time\n"
        "while True:\n"
        "    lines = open('/proc/net/tcp').read().splitlines()[1:]\n"
        "    for line in lines:\n"
        "        try:\n"
        "            at = ('127.0.0.1', int(line.split()[1].split(':')[1], 16))\n"
        "            with socket.create_connection(at, 1) as link:\n"
        "                link.sendall(b'CONNECT b.org:PORT HTTP/1.1\\r\\n\\r\\n')\n"
        "                link.recv(100)\n"
        "                link.sendall(b'GET /left HTTP/1.1\\r\\n\\r\\n')\n"
        "                link.recv(100)\n"
        "        except OSError:\n            pass\n"
        "    open('alive', 'w').write(str(time.time()))\n"
        "    time.sleep(0.02)\n"
    )
    async with web() as (port, came):
        (cage.work / "left.py").write_text(left.replace("PORT", str(port)))
        start = "setsid /usr/bin/python3 left.py >/dev/null 2>&1 & sleep 1; test -f alive; echo $?"
        ended = await cage.run(start, ["a.org"])
        assert ended.output.out.head == b"0\n"
        (cage.work / "alive").unlink()
        ask = f"curl -sSp http://b.org:{port}/own; sleep 2; find /run/ohmo -type s; test -f alive; echo $?"
        ended = await cage.run(ask, ["b.org"])
        assert ended.output.out.head == b"hello1\n"
    assert [each.split(None, 2)[1] for each in came] == [b"/own"]


async def test_there_is_no_other_way_out(inside: Made) -> None:
    """Raw TCP and UDP, IPv6, DNS, and sockets of other programs."""
    cage = inside(Names({"a.org": [str(PUBLIC)]}))
    async with web("127.0.0.1") as (port, came):
        with closing(socket.socket(socket.AF_UNIX)) as abstract:
            abstract.bind("\0ohmo-test-of-names")
            abstract.listen()
            code = (
                "found = []\n"
                "def attempt(name, family, address, kind=socket.SOCK_STREAM):\n"
                "    try:\n"
                "        with socket.socket(family, kind) as link:\n"
                "            link.settimeout(2)\n"
                "            link.connect(address)\n"
                "            link.send(b'x')\n"
                "            found.append(name)\n"
                "    except OSError:\n        pass\n"
                f"attempt('tcp', socket.AF_INET, ('127.0.0.1', {port}))\n"
                f"attempt('public', socket.AF_INET, ('127.0.0.2', {port}))\n"
                f"attempt('tcp6', socket.AF_INET6, ('::1', {port}))\n"
                "attempt('far', socket.AF_INET, ('192.0.2.1', 443))\n"
                "attempt('far6', socket.AF_INET6, ('2001:db8::1', 443))\n"
                "attempt('dns', socket.AF_INET, ('192.0.2.1', 53), socket.SOCK_DGRAM)\n"
                "attempt('abstract', socket.AF_UNIX, '\\0ohmo-test-of-names')\n"
                "try:\n    found.append(socket.gethostbyname('a.org'))\nexcept OSError:\n    pass\n"
                "found += [n for n in os.listdir('/proc/self/fd') if int(n) > 3]"
            )
            assert await cage.python(code, ["a.org"]) == []
    assert came == []


async def test_heads_that_nobody_can_read_one_way_are_refused(inside: Made) -> None:
    cage = inside(Names({"a.org": [str(PUBLIC)], "b.org": [str(PUBLIC)]}))
    async with web() as (port, came):
        a = f"a.org:{port}"
        heads = [
            f"CONNECT {a}\nX: y\n\n\r\n\r\n",
            f"CONNECT  {a} HTTP/1.1\r\n\r\n",
            f"CONNECT {a}@b.org:{port} HTTP/1.1\r\n\r\n",
            f"CONNECT a.org%00.b.org:{port} HTTP/1.1\r\n\r\n",
            "CONNECT a.org HTTP/1.1\r\n\r\n",
            f"CONNECT a.org:{port + 65536} HTTP/1.1\r\n\r\n",
            f"CONNECT 0x7f000002:{port} HTTP/1.1\r\n\r\n",
            f"CONNECT 2130706434:{port} HTTP/1.1\r\n\r\n",
            "GET / HTTP/1.1\r\nHost: a.org\r\n\r\n",
            f"GET http://a.org@b.org:{port}/ HTTP/1.1\r\n\r\n",
            f"GET http://{a}/ HTTP/1.1\r\n folded: x\r\n\r\n",
            f"GET http://{a}/ HTTP/1.1\r\nX : y\r\n\r\n",
            f"GET http://{a}/ HTTP/1.1\r\nX: a\nHost: b.org\r\n\r\n",
            f"GET ftp://{a}/ HTTP/1.1\r\n\r\n",
            f"GET http://{a}/ HTTP/9.9\r\n\r\n",
            f"GET http://{a}/ HTTP/1.1\r\nX: {'y' * 9000}\r\n\r\n",
            "A" * 20_000,
        ]
        code = f"found = [said(head.encode())[9:12] for head in {heads!r}]"
        answers = await cage.python(code, ["a.org", "127.0.0.2"])
        assert answers == ["400"] * 15 + ["431", "431"]
        assert came == []
        head = f"GET http://{a}/x HTTP/1.1\r\nHost: b.org\r\nConnection: x\r\nProxy-Authorization: s\r\nX: y\r\n\r\n"
        assert "hello" in str(await cage.python(f"found = said({head!r}.encode())", ["a.org"]))
    assert came == [f"GET /x HTTP/1.1\r\nHost: {a}\r\nX: y\r\nConnection: close\r\n\r\n".encode()]


async def test_many_connections_hold_up_nobody_but_their_own_cage(inside: Made) -> None:
    """Those that say nothing wait for each other; what is open in this process stays few."""
    cage = inside(Names({"a.org": [str(PUBLIC)]}))
    most = 0

    async def watch() -> None:
        nonlocal most
        while True:
            most = max(most, len(list(OPEN.iterdir())))
            await asyncio.sleep(0.01)

    await cage.run("true", ["a.org"])  # of a container something stays open
    before = len(list(OPEN.iterdir()))
    flood = (
        "held = []\n"
        "for _ in range(900):\n"
        "    link = socket.socket()\n    link.setblocking(False)\n"
        "    link.connect_ex(proxy())\n    held.append(link)\n"
        "open('full', 'w').close()\n"
        "import time\ntime.sleep(3)\n"
    )
    watching = asyncio.create_task(watch())
    async with web() as (port, _):
        flooding = asyncio.create_task(cage.python(flood, ["a.org"]))
        for _ in range(600):
            if (cage.work / "full").exists():
                break
            await asyncio.sleep(0.05)
        other = await cage.run(f"curl -sS http://a.org:{port}/", ["a.org"])
        assert other.output.out.head == b"hello"
        await flooding
    watching.cancel()
    assert most - before < 200
    for _ in range(100):
        if len(list(OPEN.iterdir())) <= before + 4:
            return
        await asyncio.sleep(0.05)
    pytest.fail("what the cage had open is still open here")


async def test_the_command_is_as_without_a_proxy(inside: Made) -> None:
    """Its code, its signals, its streams; and its own loopback is not sent outside."""
    cage = inside(Names({}))
    assert (await cage.run("exit 7", ["a.org"])).code == 7
    ended = await cage.run("yes | head -n1; echo ${PIPESTATUS[0]}", ["a.org"])
    assert ended.output.out.head == b"y\n141\n"  # SIGPIPE, as everywhere
    serve = "python3 -m http.server -b 127.0.0.1 8099 2>/dev/null & for i in $(seq 50); do curl -sf http://127.0.0.1:8099/ && break; sleep 0.1; done; kill %1"
    ended = await cage.run(serve, ["a.org"])
    assert b"say.py" in ended.output.out.head
    assert cage.refused == []


async def test_at_a_door_in_a_folder_only_the_first_is_heard(tmp_path: Path) -> None:
    """However long its path is; nothing of it is left."""
    folder = tmp_path / ("deep" * 40)
    folder.mkdir()
    async with Proxy(Names({}), reachable).door_in(folder, Cages()):
        (path,) = folder.iterdir()
        at = os.open(folder, os.O_PATH)
        near = f"/proc/self/fd/{at}/{path.name}"
        with socket.socket(socket.AF_UNIX) as one, socket.socket(socket.AF_UNIX) as other:
            with socket.create_server(("127.0.0.1", 0)) as heard:
                one.connect(near)
                other.setblocking(False)
                other.connect(near)  # before anybody has looked
                socket.send_fds(one, [b"x"], [heard.fileno()])
                address = heard.getsockname()
            reader, writer = await asyncio.open_connection(*address)
            writer.write(b"CONNECT a.org:443 HTTP/1.1\r\n\r\n")
            assert b" 403 " in await asyncio.wait_for(reader.readline(), 10)
            writer.close()
            with pytest.raises(BrokenPipeError):
                socket.send_fds(other, [b"x"], [other.fileno()])
            assert list(folder.iterdir()) == []
        os.close(at)
    assert list(folder.iterdir()) == []


@pytest.mark.needs("dockerd")
@pytest.mark.xdist_group("dockerd")
async def test_where_nothing_leads_into_a_container_it_is_said_and_a_name_opens_nothing(
    tmp_path: Path, engine: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As with an engine whose containers find no socket, or an image with a Python too old."""
    monkeypatch.setattr(proxy, "_PYTHON", "/usr/bin/python2")
    walls = Inside(Names({}), tmp_path, engine).walls
    standing = await walls.standing()
    assert (standing.backend, walls.tells_names) == ("docker", False)
    assert "python2: No such file" in standing.nameless
    assert f"names of the network apart ({standing.nameless}): your yes to one" in standing.words
    assert walls.told(wanted=True) == ("docker", standing.note, "")
    one, yes = Opened(network=True, names=("a.org",)), Opened(network=True)
    planned = [walls.planned(tmp_path, opened=each).network for each in (one, yes)]
    assert planned == ["off", "on"]


@pytest.mark.parametrize("what", ["file", "pipe", "unix", "unheard", "bound", "several", "nothing"])
async def test_what_is_handed_out_and_is_no_listener_is_closed_and_never_served(what: str) -> None:
    """Over the door a cage could send anything; nothing of it stays open in the daemon."""
    names = Names({})
    with ExitStack() as held:
        read, write = os.pipe()
        held.callback(os.close, write)
        held.callback(os.close, read)
        plain = held.enter_context(socket.socket())
        bound = held.enter_context(socket.socket())
        bound.bind(("127.0.0.1", 0))
        unix = held.enter_context(socket.socket(socket.AF_UNIX))
        listeners = [held.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in "ab"]
        null = os.open("/dev/null", os.O_RDONLY)
        held.callback(os.close, null)
        sent = {
            "file": [null],
            "pipe": [read],
            "unix": [unix.fileno()],
            "unheard": [plain.fileno()],
            "bound": [bound.fileno()],
            "several": [each.fileno() for each in listeners],
            "nothing": [],
        }[what]
        before = len(list(OPEN.iterdir()))
        async with Proxy(names, reachable).door(Cages()) as door:
            way = socket.socket(fileno=os.dup(door))
            socket.send_fds(way, [b"x"], sent)
            way.close()
            (serving,) = [one for one in asyncio.all_tasks() if one.get_name() == "sandbox-proxy"]
            await asyncio.wait_for(asyncio.wait([serving]), 10)
            assert serving.exception() is None
            assert len(list(OPEN.iterdir())) == before + 2  # the two ends of the door
        assert len(list(OPEN.iterdir())) == before
    assert names.asked == []
