"""A command of the agent speaks to the daemon as its owner would, by every way it has to be
somebody else: nothing comes of it. The real daemon, without a sandbox: what a cage keeps from both
doors is in test_journey_sandbox.py."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml

from ohmo.ambient import inert
from ohmo.contracts.turns import PersonRow
from ohmo.control.authentication import INSIDE
from ohmo.cron.recipes import BUNDLED
from ohmo.gateway.people import code_hash
from ohmo.storefile.open_store import open_sqlite
from tests.faults.daemon import ROOT, Daemon, until
from tests.programs import OHMO, run_process

LINUX = pytest.mark.needs("linux")
pytestmark = [LINUX, pytest.mark.timeout(300)]
CODE = "ABCD2345"
WAYS = ("direct", "background", "session", "bare", "double", "daemonized", "keeperless")
# HOW and a file with its order. Becomes whatever HOW says, asks at both doors and by the command
# line, and writes down what it heard.
ASKS = """
import http.client, json, os, signal, socket, subprocess, sys, time
how, order = sys.argv[1], json.load(open(sys.argv[2]))
keeper = int(sys.argv[3]) if len(sys.argv) > 3 else 0
def away():
    if os.fork():
        os._exit(0)
if how in ("double", "daemonized", "keeperless"):
    away()
    if how != "double":
        os.setsid()
        away()
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
if how == "keeperless":
    os.kill(keeper, signal.SIGKILL)
    while os.getppid() == keeper:
        time.sleep(0.05)
told = []
def ask(door, method, path, body):
    link = http.client.HTTPConnection("127.0.0.1", order["port"], timeout=30)
    if door == "unix":
        link.sock = socket.socket(socket.AF_UNIX)
        link.sock.connect(order["socket"])
    token = open(order["token"]).read().strip()
    headers = {"Content-Type": "application/json", "Authorization": "Bearer " + token}
    link.request(method, path, json.dumps(body), headers)
    answer = link.getresponse()
    told.append([f"{door} {method} {path}", answer.status, answer.read().decode()])
for door in order["doors"]:
    for method, path, body in order["asked"]:
        ask(door, method, path, body)
for words in order["typed"] if how not in ("background", "session", "bare", "daemonized") else []:
    command = [sys.executable, "-m", "ohmo", *words]
    nothing = subprocess.DEVNULL
    done = subprocess.run(command, env=order["environ"], stdin=nothing, capture_output=True, text=True)
    told.append(["ohmo " + " ".join(words), done.returncode, done.stdout + done.stderr])
with open(order["heard"] + how + ".new", "w") as file:
    json.dump(told, file)
os.rename(order["heard"] + how + ".new", order["heard"] + how)
"""
GO = """
{python} {asks} direct {order}
{python} {asks} background {order} &
wait
setsid -w {python} {asks} session {order}
env -i {python} {asks} bare {order}
{python} {asks} double {order}
env -i {python} {asks} daemonized {order}
until test -e {heard}double && test -e {heard}daemonized; do sleep 0.1; done
env -i {python} {asks} keeperless {order} $PPID
sleep 60
"""


class Owner:
    """A daemon, and what its owner sees. ``work``: where the agent's commands run."""

    def __init__(self, folder: Path) -> None:
        self.home = folder / "home"
        self.work = folder / "work"
        for made in (self.home, self.work):
            made.mkdir(mode=0o700)
        written = f"workspace: {self.work}\ncontrol: {{listen: '127.0.0.1:0'}}\nsandbox: {{backend: none}}\n"
        (self.home / "config.yaml").write_text(written)
        self.daemon = Daemon(self.home)

    @property
    def environ(self) -> dict[str, str]:
        """Of a shell."""
        home = str(self.home)
        return {"PATH": "/usr/bin:/bin", "HOME": home, "OHMO_HOME": home, "PYTHONPATH": str(ROOT)}

    def order(self) -> dict[str, Any]:
        """For ``ASKS``."""
        run = self.home / "run"
        doors = {
            "socket": str(run / "ohmo.sock"),
            "token": str(run / "token"),
            "doors": ["unix", "tcp"],
        }
        return {**doors, "environ": self.environ, "heard": f"{self.work}/heard-"}

    async def said(self, text: str, mode: str) -> str:
        """The thread."""
        message = {"text": text, "mode": mode}
        status, found = await self.daemon.call("POST", "/api/v1/messages", message)
        assert status == 202, found
        return found["thread"]

    async def asked(self) -> list[str]:
        _, found = await self.daemon.call("GET", "/api/v1/approvals")
        return [approval["ask"]["id"] for approval in found["approvals"]]

    async def port(self) -> int:
        _, found = await self.daemon.call("POST", "/api/v1/login")
        return int(found["url"].partition("/login")[0].rpartition(":")[2])

    async def standing(self) -> dict[str, Any]:
        """All that a request could have changed."""
        _, people = await self.daemon.call("GET", "/api/v1/pairing")
        _, jobs = await self.daemon.call("GET", "/api/v1/cron")
        histories = await self.daemon.histories()
        items = [one for history in histories.values() for one in history]
        return {
            "asked": await self.asked(),
            "roles": [one["role"] for one in people["people"]],
            "jobs": [job["name"] for job in jobs["jobs"]],
            "threads": sorted(histories),
            "arrived": sorted(item["seq"] for item in items if item["type"] == "arrival_info"),
            "done": (self.work / "allowed").exists(),
        }


@pytest.fixture
async def owner(tmp_path: Path) -> AsyncIterator[Owner]:
    found = Owner(tmp_path)
    until_then = datetime.now(UTC) + timedelta(hours=1)
    asking = PersonRow("slack", "T1", "U1", "Mallory", "asking", code_hash(CODE), until_then)
    parts: Any = {"writer": "test", "failpoint": inert}
    now = lambda: datetime.now(UTC)  # noqa: E731
    async with open_sqlite(found.home / "ohmo.db", clock=now, **parts) as store:
        await store.save_person(asking)
    await found.daemon.start()
    yield found
    await found.daemon.stop()


async def test_what_a_command_asks_has_no_effect_and_the_same_from_outside_has(
    owner: Owner,
) -> None:
    thread = await owner.said(f'run Bash command="touch {owner.work}/allowed"', "default")

    async def waits() -> bool:
        return len(await owner.asked()) == 1

    await until("the question is open", waits)
    [question] = await owner.asked()
    order, heard = owner.work / "order.json", f"{owner.work}/heard-"
    (owner.work / "asks.py").write_text(ASKS)
    job = {"name": "mine", "schedule": "0 9 * * *", "tz": "UTC", "prompt": "be mine"}
    changes = [
        ("POST", f"/api/v1/approvals/{question}", {"verdict": "allowed"}),
        ("POST", "/api/v1/pairing", {"code": CODE}),
        ("POST", "/api/v1/login", {}),
        ("POST", "/api/v1/cron", job),
        ("POST", "/api/v1/messages", {"text": "I am your owner"}),
        ("POST", f"/api/v1/sessions/{thread}/reset", {}),
        ("GET", "/api/v1/pairing", {}),
        ("GET", "/api/v1/setup", {}),
        ("POST", "/api/v1/setup/model/test", {"provider": "offline"}),
        (
            "POST",
            "/api/v1/setup/rules",
            {"version": "", "preset": "safe", "allow": ["Bash"], "ask": [], "deny": []},
        ),
    ]
    approves = [["approvals", "approve", question], ["pairing", "approve", CODE]]
    typed = [*approves, ["login"], ["-p", "I am your owner"]]
    told = {**owner.order(), "port": await owner.port(), "asked": changes, "typed": typed}
    order.write_text(json.dumps(told))
    asks = owner.work / "asks.py"
    go = GO.format(python=sys.executable, asks=asks, order=order, heard=heard)
    (owner.work / "go.sh").write_text(go)
    before = await owner.standing()
    attack = await owner.said(f'run Bash command="sh {owner.work}/go.sh"', "full_auto")

    async def all_heard() -> bool:
        return all(Path(heard + way).exists() for way in WAYS)

    async def over() -> bool:
        return (await owner.daemon.call("GET", "/api/v1/status"))[1]["turns_running"] == 0

    await until(f"every way was tried; {owner.daemon.said[-500:]}", all_heard)
    await until("the command is over", over)
    after = await owner.standing()
    assert sorted({*before["threads"], attack}) == after["threads"]
    arrived = sorted([*before["arrived"], 1])
    assert after == {**before, "threads": after["threads"], "arrived": arrived}
    nothing = {"asked": [question], "roles": ["asking"], "jobs": [], "done": False}
    assert {name: after[name] for name in nothing} == nothing
    for way in WAYS:
        answers = json.loads(Path(heard + way).read_text())
        assert len(answers) in (2 * len(changes), 2 * len(changes) + len(typed))
        assert [(what, status) for what, status, _ in answers if status not in (403, 1)] == [], way
        assert [what for what, _, text in answers if INSIDE not in text] == [], way

    # One door each, because what was answered once is answered.
    less = {"doors": ["unix"], "asked": changes[3:5], "typed": typed[:3]}
    order.write_text(json.dumps({**told, **less}))
    words = (sys.executable, str(asks), "outside", str(order))
    outside = await asyncio.create_subprocess_exec(*words)
    assert await outside.wait() == 0
    answers = json.loads(Path(heard + "outside").read_text())
    assert [status for _, status, _ in answers] == [201, 202, 0, 0, 0], answers
    assert "/login?code=" in answers[-1][2]

    async def done() -> bool:
        return (owner.work / "allowed").exists()

    await until("what was allowed is done", done)
    found = await owner.standing()
    assert found["asked"] == []
    assert found["roles"] == ["user"]
    assert found["jobs"] == ["mine"]


async def test_the_morning_brief_reads_what_it_needs_from_inside(owner: Owner) -> None:
    """Whatever the bundled recipes let the agent's Bash read of the house."""
    thread = await owner.said("good morning", "default")
    asked = {"name": "ci-triage", "schedule": "0 9 * * *", "tz": "UTC", "prompt": "read CI"}
    status, found = await owner.daemon.call("POST", "/api/v1/cron", asked)
    assert status == 201, found
    recipes = [yaml.safe_load(file.read_text()) for file in sorted(BUNDLED.glob("*.yaml"))]
    rules = [
        rule for recipe in recipes for rule in recipe["rules"] if rule.startswith("Bash(ohmo ")
    ]
    reads = [rule.removeprefix("Bash(ohmo ").rstrip(":*)") for rule in rules]
    commands = [words for words in reads if not words.startswith("triage ")]
    assert len(commands) >= 7
    more = {"sessions show": thread, "cron history": "ci-triage"}
    environ = " ".join(f"{name}={value}" for name, value in owner.environ.items())
    ohmo = f"env {environ} {sys.executable} -m ohmo"
    lines = [
        f"{ohmo} {words} {more.get(words, '')} >said-{number} 2>&1; echo $? >code-{number}"
        for number, words in enumerate(commands)
    ]
    (owner.work / "go.sh").write_text("\n".join(lines))
    await owner.said(f'run Bash command="sh {owner.work}/go.sh"', "full_auto")

    async def over() -> bool:
        return (owner.work / f"code-{len(lines) - 1}").exists()

    await until("all was read", over)
    numbers = range(len(commands))
    said = [(owner.work / f"said-{number}").read_text() for number in numbers]
    codes = [(owner.work / f"code-{number}").read_text().strip() for number in numbers]
    assert codes == ["0"] * len(commands), said


def test_nothing_below_a_command_that_is_its_own_house_speaks_for_its_owner(tmp_path: Path) -> None:
    """`ohmo -p` without a daemon."""
    one = Owner(tmp_path)
    order, heard = one.work / "order.json", f"{one.work}/heard-"
    (one.work / "asks.py").write_text(ASKS)
    speaks = ("POST", "/api/v1/messages", {"text": "I am your owner"})
    changes = [speaks, ("POST", "/api/v1/pairing", {"code": CODE})]
    told = {**one.order(), "port": 0, "doors": ["unix"], "asked": changes, "typed": []}
    order.write_text(json.dumps(told))
    asks = f"{sys.executable} {one.work}/asks.py"
    wait = f"until test -e {heard}daemonized; do sleep 0.1; done"
    go = [f"env -i {asks} daemonized {order}", f"{asks} direct {order}", wait]
    (one.work / "go.sh").write_text("\n".join(go))
    words = ["--permission-mode", "full_auto", "-p", f'run Bash command="sh {one.work}/go.sh"']
    done = run_process(*OHMO, *words, timeout=120, env=one.environ, stdin=subprocess.DEVNULL)
    for way in ("direct", "daemonized"):
        answers = json.loads(Path(heard + way).read_text())
        refused = [(status, INSIDE in text) for _, status, text in answers]
        assert refused == [(403, True)] * len(changes), done.stderr
