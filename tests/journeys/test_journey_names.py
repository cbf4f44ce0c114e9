"""The network of a command tells names apart, on the real daemon: asked about by name, remembered by
name, and what was not named is not reached."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import zipfile
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from tests.dockerd import running
from tests.faults.daemon import until
from tests.journeys.at_keyboard import Keyboard, keyboard
from tests.parts import skip_without, there
from tests.platforms.model.script import Asked, Call, Turn
from tests.platforms.model.server import ModelServer
from tests.programs import run_process

pytestmark = [pytest.mark.needs("linux"), pytest.mark.timeout(300)]
REROUTED = Path(__file__).parents[1] / "rerouted.c"
NAME, OTHER = "ip-93-184-215-14.example.net", "ip-93-184-215-15.example.net"


@pytest.fixture(autouse=True)
def _bubblewrap() -> None:
    for part in ("bwrap", "cc"):
        if not there(part):
            skip_without(part)


def bash(command: str, **more: Any) -> Turn:
    return Turn(calls=(Call("Bash", {"command": command, **more}),))


def result(asked: Asked) -> str:
    """The newest tool result, as the model read it."""
    return str(asked.body["messages"][-1]["content"])


@asynccontextmanager
async def with_a_site(
    folder: Path, server: ModelServer, engine: str = "", **permissions: Any
) -> AsyncGenerator[tuple[Keyboard, list[str]]]:
    """``NAME`` leads to a server of this machine, which keeps what it was asked. ``engine``: of
    containers, "": bubblewrap."""
    came: list[str] = []

    async def page(request: web.Request) -> web.Response:
        came.append(f"{request.host}{request.path}")
        return web.Response(text="hello")

    application = web.Application()
    application.router.add_get("/{path:.*}", page)
    library = folder / "rerouted.so"
    run_process("cc", "-shared", "-fPIC", "-o", library, REROUTED, "-ldl", code=0)
    rules = {"mode": "full_auto", **permissions}
    walls = {"backend": "docker" if engine else "bubblewrap"}
    async with (
        TestServer(application) as site,
        keyboard(folder, server, running=False, permissions=rules, sandbox=walls) as home,
    ):
        rerouted = f"93.184.215.14:80={site.make_url('').port}"
        environ = {"LD_PRELOAD": str(library), "OHMO_REROUTED": rerouted, "DOCKER_HOST": engine}
        home.daemon.environ.update(environ)
        await home.daemon.start()
        yield home, came


async def answered(home: Keyboard, server: ModelServer, scope: str, turns: int) -> str:
    """The one open question, when it is there; answers it, and waits for the model's next step."""
    found: list[Any] = []

    async def waits() -> bool:
        found[:] = (await home.daemon.call("GET", "/api/v1/approvals"))[1]["approvals"]
        return bool(found)

    async def over() -> bool:
        return len(server.asked) >= turns

    await until("the question is open", waits)
    path = f"/api/v1/approvals/{found[0]['ask']['id']}"
    status, _ = await home.daemon.call("POST", path, {"verdict": "allowed", "scope": scope})
    assert status < 300
    await until("it went on", over)
    return json.dumps(found)


async def test_a_name_is_asked_about_and_what_was_not_named_is_refused_until_it_is(
    tmp_path: Path,
) -> None:
    script = f"curl -sS http://{NAME}/one && curl -sS http://{OTHER}/two"
    server = ModelServer(
        [bash("sh get.sh", hosts=[NAME]), bash("sh get.sh", hosts=[NAME, OTHER]), Turn(text="done")]
    )
    async with with_a_site(tmp_path, server) as (home, came):
        (home.work / "get.sh").write_text(script)
        _, said = await home.daemon.call("POST", "/api/v1/messages", {"text": "go"})
        card = await answered(home, server, "once", 2)
        assert f"[with the network: {NAME}]" in card
        first = result(server.asked[1])
        assert "hello" in first
        assert f"nobody opened it to this command: {OTHER}:80; call it again" in first
        wider = await answered(home, server, "once", 3)
        assert f"[with the network: {NAME}, {OTHER}]" in wider
        assert OTHER not in result(server.asked[2])
        again = await home.ohmo("-p", f"/why {said['seq']}", "--resume", said["thread"])
        assert f"allowed by approval: once; nobody opened `{OTHER}:80` to it\n" in again.out
        (line,) = [
            json.loads(each)
            for each in home.daemon.log.splitlines()
            if '"cage_name_refused"' in each
        ]
        assert (line["name"], line["thread"]) == (f"{OTHER}:80", said["thread"])
        assert not [each for each in ("turn", "call") if line[each] not in card], line
        assert line["person"]
        assert line["session"]
    assert came == [f"{NAME}/one", f"{NAME}/one"]


@pytest.mark.needs("dockerd")
@pytest.mark.xdist_group("dockerd")
async def test_in_a_container_it_is_the_same(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    server = ModelServer([bash(f"curl -sS http://{NAME}/one; sh get.sh"), Turn(text="done")])
    with running(tmp_path_factory.mktemp("engine")) as engine:
        async with with_a_site(tmp_path, server, engine) as (home, came):
            (home.work / "get.sh").write_text(f"curl -sS http://{OTHER}/two")
            await home.daemon.call("POST", "/api/v1/messages", {"text": "go"})
            card = await answered(home, server, "once", 2)
            assert f"[with the network: {NAME}:80]" in card
            status, examined = await home.ohmo("status"), await home.ohmo("doctor")
    assert "hello" in result(server.asked[1])
    assert f"nobody opened it to this command: {OTHER}:80; call it again" in result(server.asked[1])
    assert came == [f"{NAME}/one"]
    assert "sandbox: docker\n" in status.out
    assert "cannot tell names" not in examined.out


async def test_a_secret_of_a_job_in_a_name_that_was_refused_is_told_nobody(tmp_path: Path) -> None:
    server = ModelServer([bash("sh get.sh", hosts=[NAME]), Turn(text="done")])
    rules = {"allow": ["Bash(sh get.sh)", f"WebFetch(domain:{NAME})"]}
    job = {"name": "ci", "every": "1h", "prompt": "go", "secrets": {"WORD": "env:LENT"}}
    walls = {"permissions": rules, "cron": {"jobs": [job]}}
    async with keyboard(tmp_path, server, running=False, **walls) as home:
        (home.work / "get.sh").write_text("curl -sS http://$WORD.example.org/")
        home.daemon.environ["LENT"] = "Wormwood-Lily"
        await home.daemon.start()
        assert (await home.ohmo("cron", "run", "ci")).code == 0

        async def over() -> bool:
            return len(server.asked) == 2

        await until("the job went on", over)
        assert "to this command: ********.example.org:80" in result(server.asked[1])
        assert "wormwood" not in json.dumps([each.body for each in server.asked]).lower()
        assert '"********.example.org:80"' in home.daemon.log
        assert "wormwood" not in home.daemon.log.lower()
        _, found = await home.daemon.call("GET", "/api/v1/inbox")
        why = await home.ohmo("-p", "/why 1", "--resume", found["inbox"][0]["thread"])
        assert "nobody opened `********.example.org:80` to it" in why.out, why


async def test_always_is_remembered_by_name_and_a_deny_rule_closes_it(tmp_path: Path) -> None:
    get = f"curl -sS http://{NAME}/"
    server = ModelServer(
        [bash(get), bash(f"{get}again"), bash(f"curl -sS http://{OTHER}/"), Turn(text="done")]
    )
    deny = [f"WebFetch(domain:{OTHER})"]
    async with with_a_site(tmp_path, server, deny=deny) as (home, came):
        await home.daemon.call("POST", "/api/v1/messages", {"text": "go"})
        card = await answered(home, server, "always", 4)
        assert f"it wants to reach {NAME}" in card
        assert f"WebFetch(domain:{NAME})" in (await home.ohmo("permissions", "list")).out
    assert [result(asked) for asked in server.asked[1:3]] == ["hello", "hello"]
    assert f"the rule deny WebFetch(domain:{OTHER})" in result(server.asked[3])
    assert came == [f"{NAME}/", f"{NAME}/again"]


async def test_a_rule_about_a_domain_opens_it_and_what_came_from_there_are_words_of_others(
    tmp_path: Path,
) -> None:
    job = {"name": "news", "prompt": "tell me", "schedule": "0 9 * * *", "tz": "UTC"}
    server = ModelServer(
        [bash(f"curl -sS http://{NAME}/a"), Turn(calls=(Call("CronCreate", job),)), Turn(text="no")]
    )
    rules = [f"WebFetch(domain:{NAME})"]
    async with with_a_site(tmp_path, server, allow=rules) as (home, came):
        said = await home.ohmo("-p", "go")
        assert result(server.asked[1]) == "hello"
        assert (said.code, came) == (3, [f"{NAME}/a"])
        assert f"words of web:{NAME} are in this conversation" in said.err


async def test_git_and_pip_go_by_the_proxy(tmp_path: Path) -> None:
    """To servers of this machine, named with their ports in the allowed call."""
    files = tmp_path / "files"
    run_process("git", "init", "-q", "-b", "main", files / "there", code=0)
    (files / "there/a.txt").write_text("from the repository\n")
    for words in (("add", "."), ("commit", "-qm", "First")):
        who = ("-c", "user.name=Ada", "-c", "user.email=ada@example.org")
        run_process("git", "-C", files / "there", *who, *words, code=0)
    run_process("git", "clone", "-q", "--bare", files / "there", files / "it.git", code=0)
    run_process("git", "-C", files / "it.git", "update-server-info", code=0)
    wheel = files / "simple/sample-of-ours/sample_of_ours-1-py3-none-any.whl"
    wheel.parent.mkdir(parents=True)
    with zipfile.ZipFile(wheel, "w") as made:
        made.writestr("sample_of_ours.py", "")
        about = "sample_of_ours-1.dist-info"
        made.writestr(
            f"{about}/METADATA", "Metadata-Version: 2.1\nName: sample-of-ours\nVersion: 1\n"
        )
        made.writestr(
            f"{about}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        made.writestr(f"{about}/RECORD", "")
    words = (sys.executable, "-u", "-m", "http.server", "-b", "127.0.0.1", "-d", str(files), "0")
    pipe, null = asyncio.subprocess.PIPE, subprocess.DEVNULL
    site = await asyncio.create_subprocess_exec(*words, stdout=pipe, stderr=null)
    assert site.stdout is not None
    try:
        port = int((await site.stdout.readline()).split()[5])
        at = f"http://localhost:{port}"
        lines = [
            f"git clone -q {at}/it.git got && cat got/a.txt",
            f"python3 -m pip download -q --no-deps --index-url {at}/simple sample-of-ours && ls",
        ]
        server = ModelServer([*map(bash, lines), Turn(text="done")])
        async with keyboard(tmp_path, server, permissions={"mode": "full_auto"}) as home:
            allow = [word for line in lines for word in ("--allow", f"Bash({line})")]
            said = await home.ohmo("-p", "go", *allow)
            assert said.code == 0, said.err
    finally:
        site.kill()
        await site.wait()
    assert "from the repository" in result(server.asked[1])
    assert "sample_of_ours-1-py3-none-any.whl" in result(server.asked[2])
