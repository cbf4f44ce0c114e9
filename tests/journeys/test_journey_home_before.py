"""A home and a backup of the version before under today's daemon: they open, migrate and answer.
What they hold: home_before/README.md."""

from __future__ import annotations

import asyncio
import fcntl
import json
import os
import shutil
import sys
import tarfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from tests import warm
from tests.faults.daemon import Daemon, until
from tests.platforms.model.script import Turn
from tests.platforms.model.server import ModelServer, serving
from tests.programs import run_process

BEFORE = Path(__file__).parent / "home_before"
WORK = Path("/tmp/ohmo-before-k/work")  # stands in the stored calls
pytestmark = pytest.mark.timeout(240)


async def _locked() -> int:
    """A descriptor of the locked folder; whoever had it before may have removed it."""
    while True:
        WORK.parent.mkdir(exist_ok=True)
        try:
            folder = os.open(WORK.parent, os.O_RDONLY | os.O_DIRECTORY)
        except FileNotFoundError:
            continue
        await asyncio.to_thread(fcntl.flock, folder, fcntl.LOCK_EX)
        with suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(folder), WORK.parent.stat()):
                return folder
        os.close(folder)


@asynccontextmanager
async def _workspace() -> AsyncIterator[None]:
    """One test at a time has the folder, whichever process it runs in; none leaves it behind."""
    folder = await _locked()
    try:
        shutil.rmtree(WORK, ignore_errors=True)
        WORK.mkdir()
        yield
    finally:
        shutil.rmtree(WORK.parent, ignore_errors=True)
        os.close(folder)


@asynccontextmanager
async def _taken_over(home: Path, *script: Turn) -> AsyncIterator[tuple[Daemon, ModelServer]]:
    """Today's daemon on that home, with a model that answers by ``script``."""
    server = ModelServer(script)
    daemon = Daemon(home, ["web"], start=warm.start)
    async with serving(server), _workspace():
        config = json.loads((home / "config.yaml").read_text())
        config["profiles"]["default"]["base_url"] = f"{server.url}/v1"
        config["control"] = {"listen": None}
        (home / "config.yaml").write_text(json.dumps(config))
        await daemon.start()
        try:
            yield daemon, server
        finally:
            await daemon.kill()


async def _get(daemon: Daemon, path: str) -> Any:
    status, found = await daemon.call("GET", f"/api/v1/{path}")
    assert status == 200, found
    return found


async def _sessions(daemon: Daemon) -> dict[str, dict[str, Any]]:
    """Every conversation by its title, once each has one: those of an older store are looked up
    after the start."""
    found: dict[str, dict[str, Any]] = {}

    async def titled() -> bool:
        sessions = (await _get(daemon, "sessions?limit=100"))["sessions"]
        found.clear()
        found.update({session["title"]: session for session in sessions})
        return all(one["title"] for one in sessions)

    await until("every conversation has a title", titled)
    return found


async def _threads(daemon: Daemon) -> dict[str, str]:
    """Of every conversation its thread, by its title."""
    return {title: one["thread"] for title, one in (await _sessions(daemon)).items()}


async def _answer(daemon: Daemon, thread: str, **answer: str) -> None:
    (asked,) = (await _get(daemon, f"approvals?thread={thread}"))["approvals"]
    status, found = await daemon.call("POST", f"/api/v1/approvals/{asked['ask']['id']}", answer)
    assert status == 200, found


async def _ended(daemon: Daemon, thread: str) -> dict[str, Any]:
    """How the newest arrival of a thread ended."""
    last: dict[str, Any] = {}

    async def done() -> bool:
        found = (await _get(daemon, "inbox?limit=100"))["inbox"]
        last.update(next(one for one in found if one["thread"] == thread))
        return last["state"] == "ended"

    await until(f"{thread} ended", done)
    return last


def _unpacked(home: Path) -> None:
    with tarfile.open(BEFORE / "home.tar.gz") as packed:
        packed.extractall(home, filter="data")
    (home / "config.yaml").chmod(0o600)


async def _what_waited_is_answered(daemon: Daemon) -> None:
    """Both open questions: the parked call runs once, the agent's question has its words."""
    threads = await _threads(daemon)
    parked = threads["Something that waits over the upgrade"]
    await _answer(daemon, parked, verdict="allowed", scope="once")
    assert (await _ended(daemon, parked))["ending"] == "answered"
    assert (WORK / "parked.txt").read_text() == "parked\n"
    asks = threads["Something that asks"]
    await _answer(daemon, asks, verdict="allowed", word="main")
    assert (await _ended(daemon, asks))["ending"] == "answered"
    assert (await _get(daemon, "approvals"))["approvals"] == []
    assert (await _get(daemon, "inbox/audit"))["problems"] == []


async def test_a_home_of_the_version_before_opens_migrates_and_answers(home: Path) -> None:
    _unpacked(home)
    async with _taken_over(home) as (daemon, model):
        threads = await _threads(daemon)
        told = {line.split(" | ")[0][2:] for line in (BEFORE / "README.md").open() if " | " in line}
        expected = {name for name in told if name.startswith(("First", "Something"))}
        assert expected <= set(threads)
        cut = threads["Something that is cut off in the middle"]
        assert (await _ended(daemon, cut))["ending"] == "answered"
        await _what_waited_is_answered(daemon)
        dead = await _ended(daemon, threads["Something that fails for good"])
        assert dead["ending"] == "dead"
        assert "gpt-5 refuses this request" in dead["reason"]
        rules = (await _get(daemon, "permissions"))["permissions"]
        assert [one["rule"] for one in rules] == ["Bash(touch allowed.txt)"]
        runs = (await _get(daemon, "cron/morning/history"))["occurrences"]
        # beside it a slot that has come since, once the day of the schedule is over
        (run,) = (run for run in runs if run["reason"] == "run by hand")
        assert (run["state"], run["preview"]) == ("done", "Good morning, no news.")
        first = threads["First words of a conversation"]
        body = {"text": "and after", "thread": first}
        status, _ = await daemon.call("POST", "/api/v1/messages", body)
        assert status == 202
        assert (await _ended(daemon, first))["ending"] == "answered"
        assert "and after" in [asked.said for asked in model.asked]


async def test_every_conversation_of_the_version_before_is_shown_and_only_tools_and_skills_are_new(
    home: Path,
) -> None:
    _unpacked(home)
    async with _taken_over(home) as (daemon, _):
        threads = await _threads(daemon)
        refused = {
            "Something that nobody answers": "nobody allowed it in time",
            "Something that is denied": "the person said no",
            "Something that is forbidden": "not allowed (sensitive",
        }
        for title, why in refused.items():
            session = await _get(daemon, f"sessions/{threads[title]}")
            results = [
                one["step"]["result"]
                for one in session["history"]
                if one.get("step", {}).get("type") == "call_result"
            ]
            assert [result["error"] for result in results] == [True], title
            assert why in results[0]["text"].lower()
            replayed = await _get(daemon, f"sessions/{threads[title]}/replay")
            # whatever differs is named here: the model and what was said do not
            assert replayed["difference"] == (
                "model call 1: the tools (another version of ohmo, or other tools connected),"
                " the system prompt (SOUL.md, USER.md, AGENTS.md, skills or the workspace changed)"
                " would be sent otherwise today"
            )


async def test_old_and_new_conversations_are_called_as_they_begin_until_they_are_deleted(
    home: Path,
) -> None:
    _unpacked(home)
    chat = "web/chats/new"
    async with _taken_over(home) as (daemon, _):
        before = await _sessions(daemon)
        assert {one["who"] for one in before.values()} == {""}  # begun by the API and a job
        body = {"text": "New words\nof a conversation", "key": "0123456789abcde1"}
        status, _ = await daemon.call("POST", f"/api/v1/{chat}/messages", body)
        assert status == 202
        after = await _sessions(daemon)
        assert set(after) == {*before, "New words of a conversation"}
        assert after["New words of a conversation"]["who"]
        await _ended(daemon, after["New words of a conversation"]["thread"])
        await until("everything is said", daemon.sent)
        await daemon.kill()
        await daemon.start()
        again = await _sessions(daemon)
        called = {title: (one["thread"], one["who"]) for title, one in after.items()}
        assert {title: (one["thread"], one["who"]) for title, one in again.items()} == called
        shown = (await _get(daemon, "web/chats"))["chats"]
        assert [one["title"] for one in shown if one["chat"] == "new"] == [
            "New words of a conversation"
        ]
        status, _ = await daemon.call("POST", f"/api/v1/{chat}/delete", {})
        assert status == 200
        body = {"text": "Begun anew", "key": "0123456789abcde2"}
        status, _ = await daemon.call("POST", f"/api/v1/{chat}/messages", body)
        assert status == 202
        assert set(await _sessions(daemon)) == {*before, "Begun anew"}


async def test_a_backup_of_the_version_before_is_restored_and_goes_on(
    home: Path, tmp_path: Path
) -> None:
    backup = tmp_path / "ohmo-20261123T181202Z.tar.gz"
    shutil.copy(BEFORE / "backup.tar.gz", backup)
    environ = {**os.environ, "OHMO_HOME": str(home), "HOME": str(tmp_path)}
    command = [sys.executable, "-m", "ohmo", "restore", str(backup)]
    run_process(*command, env=environ, code=0)
    async with _taken_over(home) as (daemon, model):
        threads = await _threads(daemon)
        first = threads["First words of a conversation"]
        opened = await _ended(daemon, threads["Something that waits over the upgrade"])
        assert opened["reason"].startswith("it was open in the backup")
        body = {"text": "and after", "thread": first}
        status, _ = await daemon.call("POST", "/api/v1/messages", body)
        assert status == 202
        assert (await _ended(daemon, first))["ending"] == "answered"
        assert (await _get(daemon, "inbox/audit"))["problems"] == []
        assert "Hello Ada" in str(model.asked[-1].body)
