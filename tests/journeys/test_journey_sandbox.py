"""The walls around commands, on the real daemon: what every rule allows and no wall lets through;
what a person widens them by."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.faults.daemon import until
from tests.journeys.at_keyboard import Keyboard, keyboard
from tests.parts import skip_without, there
from tests.platforms.model.script import Asked, Call, Turn
from tests.platforms.model.server import ModelServer

pytestmark = [pytest.mark.needs("linux"), pytest.mark.timeout(300)]
EVERYTHING = {"allow": ["Bash", "Read", "Write", "Edit", "WebFetch"], "mode": "full_auto"}
# Tries all that its order names, and writes down what succeeded.
ATTACK = """
import json, os, socket, subprocess, sys
order, succeeded = json.load(open("order.json")), []
def attempt(name, what):
    try:
        if what():
            succeeded.append(name)
    except Exception:
        pass
def connect(family, address):
    with socket.socket(family) as link:
        link.settimeout(2)
        link.connect(address)
        return True
for path in order["read"]:
    attempt("read " + path, lambda: os.listdir(path) if os.path.isdir(path) else open(path, "rb").read())
    attempt("link " + path, lambda: os.link(path, "linked") or open("linked", "rb").read())
    attempt("copy " + path, lambda: subprocess.run(["cp", "-r", path, "copied"], capture_output=True).returncode == 0)
    attempt("root " + path, lambda: open("/proc/1/root" + path, "rb").read())
    attempt("parent " + path, lambda: open("/proc/%d/root%s" % (os.getppid(), path), "rb").read())
for path in order["write"]:  # a cage has a /tmp of its own: what came out is seen outside
    attempt("", lambda: open(path, "a").write("x") and False)
for port in order["ports"]:
    attempt("tcp %d" % port, lambda: connect(socket.AF_INET, ("127.0.0.1", port)))
    attempt("tcp6 %d" % port, lambda: connect(socket.AF_INET6, ("::1", port)))
for path in order["sockets"]:
    attempt("socket " + path, lambda: connect(socket.AF_UNIX, path))
for words in (["status"], ["approvals", "list"], ["login"]):
    attempt("ohmo " + words[0], lambda: subprocess.run(["ohmo", *words], capture_output=True).returncode == 0)
json.dump(succeeded, open("succeeded.json", "w"))
"""


def bash(command: str, **more: Any) -> Turn:
    return Turn(calls=(Call("Bash", {"command": command, **more}),))


def result(asked: Asked) -> str:
    """The newest tool result, as the model read it."""
    return str(asked.body["messages"][-1]["content"])


@asynccontextmanager
async def listening() -> AsyncGenerator[tuple[int, list[str]]]:
    """A service of this machine: its port, and who came."""
    came: list[str] = []

    async def greet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        came.append((await reader.readline()).decode())
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\nconnection: close\r\n\r\nhello")
        writer.close()

    server = await asyncio.start_server(greet, "127.0.0.1", 0)
    async with server:
        yield server.sockets[0].getsockname()[1], came


async def port_of(home: Keyboard) -> int:
    _, found = await home.daemon.call("POST", "/api/v1/login")
    return int(found["url"].partition("/login")[0].rpartition(":")[2])


@pytest.fixture(params=["bubblewrap", "landlock"])
def backend(request: pytest.FixtureRequest) -> str:
    if request.param == "bubblewrap" and not there("bwrap"):
        skip_without("bwrap")
    if request.param == "landlock" and not there("landlock"):
        skip_without("landlock")
    return str(request.param)


async def test_with_every_rule_set_to_allow_nothing_gets_out(tmp_path: Path, backend: str) -> None:
    server = ModelServer([bash("python3 attack.py"), Turn(text="done")])
    walls = {"backend": backend}
    async with (
        listening() as (port, came),
        keyboard(tmp_path, server, permissions=EVERYTHING, sandbox=walls) as home,
    ):
        for name in (".ssh/id_ed25519", ".aws/credentials", ".netrc", "notes.txt"):
            (tmp_path / name).parent.mkdir(exist_ok=True)
            (tmp_path / name).write_text("secret")
        read = [*(".ssh/id_ed25519", ".aws/credentials", ".netrc", "notes.txt")]
        read += ["home/config.yaml", "home/ohmo.db", "home/run/token"]
        write = ["made.txt", "notes.txt", ".bashrc", "home/made.txt", "home/config.yaml"]
        before = (home.home / "config.yaml").read_text()
        order = {
            "read": [*(str(tmp_path / name) for name in read), "/etc/shadow"],
            "write": [*(str(tmp_path / name) for name in write), "/usr/made", "/etc/made"],
            "ports": [port, await port_of(home)],
            "sockets": [str(home.home / "run/ohmo.sock")],
        }
        (home.work / "order.json").write_text(json.dumps(order))
        (home.work / "attack.py").write_text(ATTACK)
        said = await home.ohmo("-p", "go")
        assert said.code == 0, said.err
        status = await home.ohmo("status")
        examined = await home.ohmo("doctor")
    assert json.loads((home.work / "succeeded.json").read_text()) == [], result(server.asked[1])
    assert came == []
    made = [*(tmp_path / name for name in ("made.txt", ".bashrc", "home/made.txt"))]
    assert not any(map(Path.exists, [*made, Path("/usr/made"), Path("/etc/made")]))
    assert (home.home / "config.yaml").read_text() == before
    assert (tmp_path / "notes.txt").read_text() == "secret"
    together = (
        "; it cannot tell names of the network apart (Landlock knows ports and no addresses):"
        " your yes to one is a yes to all of it"
    )
    assert f"sandbox: {backend}{together if backend == 'landlock' else ''}\n" in status.out
    assert (together in examined.out) == (backend == "landlock"), examined.out


async def test_what_a_rule_names_is_there_and_what_only_a_blanket_rule_covers_is_not(
    tmp_path: Path, backend: str
) -> None:
    out, named = tmp_path / "out", tmp_path / "named"
    lines = [
        f"cp a.txt {out}/b.txt",  # by Bash alone
        f"cp a.txt {named}/b.txt && cat {named}/there.txt",  # by Write(NAMED/**)
        f"cat {tmp_path}/.ssh/key",  # a sensitive place, whatever rule there is
        f"python3 deep.py {named}",  # a folder whole
    ]
    server = ModelServer([*map(bash, lines), Turn(text="done")])
    rules = ["Bash", f"Write({named}/**)", f"Read({tmp_path}/.ssh/**)"]
    rules = {"allow": rules, "mode": "full_auto"}
    async with keyboard(tmp_path, server, permissions=rules, sandbox={"backend": backend}) as home:
        for folder in (out, named, tmp_path / ".ssh"):
            folder.mkdir()
        (out / "there.txt").write_text("out there")
        (named / "there.txt").write_text("named there")
        (tmp_path / ".ssh/key").write_text("hunter2")
        (home.work / "a.txt").write_text("a")
        deep = "import os, sys; os.mkdir(sys.argv[1] + '/sub'); print('made')"
        (home.work / "deep.py").write_text(deep)
        assert (await home.ohmo("-p", "go")).code == 0
        assert "made" in result(server.asked[4])
    assert not (out / "b.txt").exists()
    assert "sandbox" in result(server.asked[1])
    assert ((named / "b.txt").read_text(), "named there" in result(server.asked[2])) == ("a", True)
    assert "hunter2" not in result(server.asked[3])


async def test_the_network_is_there_when_a_person_allowed_it_and_the_house_is_not(
    tmp_path: Path, backend: str
) -> None:
    """Not even then: whoever decides here is never asked by a command."""
    asks = (
        "import sys, urllib.request, urllib.error\n"
        "for url in sys.argv[1:]:\n"
        "    try:\n        print(urllib.request.urlopen(url, b'{}', 5).read())\n"
        "    except urllib.error.HTTPError as error:\n        print(error.code)\n"
        "    except Exception as error:\n        print('unreachable', error)\n"
    )
    async with listening() as (port, came):
        server = ModelServer()
        async with keyboard(
            tmp_path, server, permissions=EVERYTHING, sandbox={"backend": backend}
        ) as home:
            (home.work / "ask.py").write_text(asks)
            urls = [f"http://127.0.0.1:{port}/", f"http://127.0.0.1:{await port_of(home)}"]
            command = f"python3 ask.py {urls[0]} {urls[1]}/api/v1/login {urls[1]}/api/v1/cron"
            turns = [bash(command), bash(command, network=True), Turn(text="done")]
            server.script.extend(turns)
            sent = await home.daemon.call("POST", "/api/v1/messages", {"text": "go"})
            assert sent[0] == 202

            async def waits() -> bool:
                return bool((await home.daemon.call("GET", "/api/v1/approvals"))[1]["approvals"])

            await until("the question is open", waits)
            assert (result(server.asked[1]).count("unreachable"), came) == (3, [])
            [asked] = (await home.daemon.call("GET", "/api/v1/approvals"))[1]["approvals"]
            assert "network" in json.dumps(asked)
            path = f"/api/v1/approvals/{asked['ask']['id']}"
            await home.daemon.call("POST", path, {"verdict": "allowed"})

            async def over() -> bool:
                return len(server.asked) > 2

            await until("it was run", over)
    answers = result(server.asked[2])
    assert "hello" in answers
    assert answers.count("403") + answers.count("401") == 2, answers
    assert len(came) == 1


async def test_a_rule_of_the_keyboard_for_all_commands_opens_nothing(
    tmp_path: Path, backend: str
) -> None:
    (tmp_path / "out").mkdir()
    steps: list[Turn] = []
    async with listening() as (port, came):
        ask = f"curl -sS http://127.0.0.1:{port}/"
        lay = f"cp note.txt {tmp_path}/out/note.txt"
        for command in (ask, lay, ask, lay):
            steps += [bash(command), Turn(text="done")]
        server = ModelServer(steps)
        async with keyboard(tmp_path, server, sandbox={"backend": backend}) as home:
            (home.work / "note.txt").write_text("a note")
            for rule in ("Bash", "Bash", f"Bash({ask})", f"Bash({lay})"):
                said = await home.ohmo("-p", "do it", "--allow", rule)
                assert said.code == 0, said.err
                if rule == "Bash":
                    assert came == []
                    assert not (tmp_path / "out/note.txt").exists()
        assert "names nothing that does" in result(server.asked[1])
        assert "hello" in result(server.asked[5])
        assert came != []
        assert (tmp_path / "out/note.txt").read_text() == "a note"


async def test_nor_where_the_configuration_allows_all_commands(tmp_path: Path) -> None:
    async with listening() as (port, came):
        server = ModelServer([bash(f"curl -sS http://127.0.0.1:{port}/"), Turn(text="done")])
        async with keyboard(tmp_path, server, permissions={"allow": ["Bash"]}) as home:
            assert (await home.ohmo("-p", "do it", "--allow", "Bash")).code == 0
        assert "names nothing that does" in result(server.asked[1])
        assert came == []


async def test_the_rules_of_a_job_lend_it_the_house_but_no_decisions(
    tmp_path: Path, backend: str
) -> None:
    """As the morning brief reads it."""
    lines = ["ohmo status", "ohmo approvals list", "ohmo cron list"]
    server = ModelServer([*map(bash, lines), Turn(text="brief")])
    async with keyboard(tmp_path, server, sandbox={"backend": backend}) as home:
        rules = [word for line in lines for word in ("--rule", f"Bash({line})")]
        when = ("0 9 * * *", "--tz", "UTC", "--yes")
        added = await home.ohmo(
            "cron", "add", "--name", "brief", *when, *rules, "--prompt", "brief"
        )
        assert added.code == 0, added.err
        assert (await home.ohmo("cron", "run", "brief")).code == 0

        async def over() -> bool:
            return len(server.asked) > 3

        await until("the job ran", over)
    read = [result(asked) for asked in server.asked[1:4]]
    assert "ready, started" in read[0]
    assert not any(text.startswith("Error") for text in read), read


async def test_before_there_is_a_workspace_the_sandbox_is_not_judged_by_it(tmp_path: Path) -> None:
    if not there("bwrap"):
        skip_without("bwrap")
    work = tmp_path / "not yet"
    async with keyboard(tmp_path, ModelServer(), running=False, workspace=str(work)) as home:
        audited = await home.ohmo("security", "audit")
        assert audited.out.startswith("sandbox: bubblewrap, "), audited
        assert "sandbox.holds" not in (await home.ohmo("doctor")).out
        assert not work.exists()
        await home.daemon.start()
        assert (await home.ohmo("status")).out.count("sandbox: bubblewrap") == 1


async def test_where_no_backend_holds_what_may_change_something_is_asked(tmp_path: Path) -> None:
    """There is no bwrap on this PATH, and another backend is not wanted."""
    programs = tmp_path / "programs"
    programs.mkdir()
    for name in ("cat", "touch", "git"):
        (programs / name).symlink_to(f"/usr/bin/{name}")
    server = ModelServer([bash("cat a.txt"), bash("touch b.txt"), Turn(text="done")])
    walls = {"backend": "bubblewrap"}
    async with keyboard(
        tmp_path, server, running=False, permissions=EVERYTHING, sandbox=walls
    ) as home:
        home.daemon.environ["PATH"] = str(programs)
        (home.work / "a.txt").write_text("read it")
        await home.daemon.start()

        async def told() -> bool:
            return "no sandbox holds here" in (await home.ohmo("status")).out

        await until("the status warns", told)
        said = await home.ohmo("-p", "go")
        examined = await home.ohmo("doctor", PATH=str(programs))
        audited = await home.ohmo("security", "audit", PATH=str(programs))
    assert said.code == 3  # nobody was there to be asked
    assert "read it" in result(server.asked[1])
    assert not (home.work / "b.txt").exists()
    assert "install the package bubblewrap" in examined.out
    assert "no_sandbox" in audited.out


async def test_people_s_tools_work_inside(tmp_path: Path, backend: str) -> None:
    """git with the person's name, Python with pip, node and rg, each with temporary files."""
    lines = [
        "git init -q . && git add a.txt && git commit -qm First && git log --format=%an",
        "python3 -c 'import tempfile; tempfile.TemporaryFile(); print(1)' && python3 -m pip --version",
        "rg -c a a.txt; grep -c a a.txt",
    ]
    server = ModelServer([*map(bash, lines), Turn(text="done")])
    async with keyboard(
        tmp_path, server, permissions=EVERYTHING, sandbox={"backend": backend}
    ) as home:
        (tmp_path / ".gitconfig").write_text("[user]\nname = Ada\nemail = ada@example.org\n")
        (home.work / "a.txt").write_text("a\n")
        assert (await home.ohmo("-p", "go")).code == 0
    read = [result(asked) for asked in server.asked[1:4]]
    assert read[0].strip() == "Ada"
    assert read[1].startswith("1\npip ")
    assert "1\n1" in read[2]
