"""A person takes back what a turn did to their files: on the real daemon, in a real repository whose
own state stays as it was byte for byte."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from itertools import repeat
from pathlib import Path

import pytest

from tests.journeys.at_keyboard import Keyboard, keyboard
from tests.platforms.model.script import Call, Turn
from tests.platforms.model.server import ModelServer
from tests.programs import run_process

pytestmark = pytest.mark.timeout(240)


def git_state(folder: Path) -> dict[str, str]:
    """Every file of git's own."""
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted((folder / ".git").rglob("*"))
        if path.is_file()
    }


def project(home: Keyboard, folder: Path) -> None:
    run_process("git", "init", "-q", "-b", "trunk", folder, code=0)
    (folder / "a.txt").write_text("one\n")
    (folder / "b.txt").write_text("two\n")
    run_process("git", "add", ".", cwd=folder, code=0)
    person = ("-c", "user.name=me", "-c", "user.email=me@example.org")
    run_process("git", *person, "commit", "-qm", "first", cwd=folder, code=0)
    (folder / "b.txt").write_text("two, changed by hand\n")
    free = {"allow": ["Write", "Edit", "Bash"]}
    home.configure(home.written | {"workspace": str(folder), "permissions": free})


def files(folder: Path) -> dict[str, str]:
    return {path.name: path.read_text() for path in folder.iterdir() if path.is_file()}


async def test_a_turn_is_shown_taken_back_and_brought_again_and_the_model_knows(
    tmp_path: Path,
) -> None:
    server = ModelServer()
    async with keyboard(tmp_path, server, running=False) as home:
        folder = tmp_path / "shop"
        project(home, folder)
        await home.daemon.start()
        before, state = files(folder), git_state(folder)
        a = {"command": "printf 'uno\\n' > a.txt; printf 'dos\\n' > b.txt; printf 'x\\n' > new.txt"}
        server.next(Turn(calls=(Call("Bash", a),)), Turn(text="done"))
        said = await home.ohmo("-p", "translate", "--output", "json")
        thread = json.loads(said.out)["thread"]
        after = files(folder)
        assert after == {"a.txt": "uno\n", "b.txt": "dos\n", "new.txt": "x\n"}

        async def say(words: str) -> str:
            return (await home.ohmo("-p", words, "--resume", thread)).out

        shown = await say("/diff")
        assert "-one\n+uno" in shown
        assert "-two, changed by hand\n+dos" in shown
        assert "new.txt" in shown

        undone = await say("/undo")
        assert "As before" in undone
        assert "Removed, because it was new" in undone
        assert files(folder) == before
        await say("and now?")
        told = json.dumps(server.asked[-1].body["messages"])
        assert "has taken back" in told
        assert "new.txt" in told
        replayed = await home.ohmo("sessions", "replay", thread)
        assert replayed.code == 0, replayed.out

        assert "As before" in await say("/rollback")
        assert files(folder) == after
        await say("/rollback")
        assert files(folder) == before
        assert git_state(folder) == state


async def test_what_the_person_s_editor_changed_since_is_not_overwritten(tmp_path: Path) -> None:
    server = ModelServer()
    async with keyboard(tmp_path, server, running=False) as home:
        folder = tmp_path / "shop"
        project(home, folder)
        await home.daemon.start()
        edit = {"file_path": str(folder / "a.txt"), "content": "uno\n"}
        server.next(Turn(calls=(Call("Write", edit),)), Turn(text="done"))
        said = await home.ohmo("-p", "translate", "--output", "json")
        thread = json.loads(said.out)["thread"]
        (folder / "a.txt").write_text("mine\n")
        refused = (await home.ohmo("-p", "/undo", "--resume", thread)).out
        assert "Not undone" in refused
        assert "a.txt" in refused
        assert "--force" in refused
        assert (folder / "a.txt").read_text() == "mine\n"
        await home.ohmo("-p", "/undo --force", "--resume", thread)
        assert (folder / "a.txt").read_text() == "one\n"
        await home.ohmo("-p", "/rollback", "--resume", thread)
        assert (folder / "a.txt").read_text() == "mine\n"


def projects_below(home: Keyboard, folder: Path) -> Path:
    """A repository in a workspace that is none."""
    repo = folder / "repo"
    project(home, repo)
    (repo / "Makefile").write_text("test:\n\techo made > made.txt\n")
    (folder / "run.sh").write_text("cd repo && echo tested > tested.txt\n")
    free = {"mode": "full_auto"}
    home.configure(home.written | {"workspace": str(folder), "permissions": free})
    return repo


async def test_undo_is_the_last_turn_of_the_session_also_when_it_had_no_checkpoint(
    tmp_path: Path,
) -> None:
    server = ModelServer()
    async with keyboard(tmp_path, server, running=False) as home:
        repo = projects_below(home, tmp_path / "work")
        await home.daemon.start()
        good = {"file_path": str(repo / "keep2.txt"), "content": "good\n"}
        server.next(Turn(calls=(Call("Write", good),)), Turn(text="done"))
        thread = json.loads((await home.ohmo("-p", "go", "--output", "json")).out)["thread"]

        async def say(words: str) -> str:
            said = await home.ohmo("-p", words, "--resume", thread, "--output", "stream-json")
            return said.out

        await say("/new")
        assert "no turn of this conversation" in await say("/undo")
        assert "in another conversation here" in await say("/diff")
        run = Call("Bash", {"command": "sh run.sh"})
        server.next(Turn(calls=(run,)), Turn(calls=(run,)), Turn(text="done"))
        assert (await say("test it")).count("No checkpoint") == 1
        before = files(repo)
        assert set(before) > {"keep2.txt", "tested.txt"}
        undone = await say("/undo")
        assert "worked without a checkpoint" in undone
        assert "`/rollback 2`" in undone
        shown = await say("/diff")
        assert "worked without a checkpoint" in shown
        assert "keep2" not in shown
        assert files(repo) == before
        assert "without a checkpoint stays" in await say("/rollback 2")
        assert files(repo) == {name: before[name] for name in before if name != "keep2.txt"}


async def test_a_repository_below_the_workspace_has_checkpoints(tmp_path: Path) -> None:
    server = ModelServer()
    async with keyboard(tmp_path, server, running=False) as home:
        repo = projects_below(home, tmp_path / "work")
        await home.daemon.start()
        before = files(repo)
        calls = [
            Call("Bash", {"command": "cd repo && sh -c 'echo uno > a.txt'"}),
            Call("ProjectTests", {"path": "repo"}),
        ]
        server.next(*(Turn(calls=(call,)) for call in calls), Turn(text="done"))
        said = await home.ohmo("-p", "go", "--output", "stream-json")
        assert "No checkpoint" not in said.out
        thread = json.loads(said.out.splitlines()[-1])["thread"]
        assert (files(repo)["a.txt"], files(repo)["made.txt"]) == ("uno\n", "made\n")
        shown = (await home.ohmo("-p", "/diff", "--resume", thread)).out
        assert f"# in {repo}\n" in shown
        assert "+uno" in shown
        await home.ohmo("-p", "/undo", "--resume", thread)
        assert files(repo) == before
        undone = (await home.ohmo("-p", "/undo", "--resume", thread)).out
        assert "what turns of this conversation changed is taken back" in undone
        assert "`/rollback 1`" in undone


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Path]:
    """A file system of a MiB where checkpoints are kept."""
    folder = tmp_path / "home" / "cache" / "checkpoints"
    folder.mkdir(parents=True)
    options = "size=1m,mode=0700"
    subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", folder], check=True)
    yield folder
    subprocess.run(["umount", "-l", folder], check=True)


@pytest.mark.needs("mounts")
@pytest.mark.parametrize("room", [0, 400 << 10])
async def test_on_a_full_disk_the_turn_says_so_before_it_changes_anything(
    small: Path, tmp_path: Path, room: int
) -> None:
    """``room``: bytes that are left: for nothing, or for all but what is new."""
    server = ModelServer()
    (tmp_path / "home").chmod(0o700)
    async with keyboard(tmp_path, server, running=False) as home:
        folder = tmp_path / "shop"
        project(home, folder)
        (folder / "new.bin").write_bytes(os.urandom(700 << 10))
        state = git_state(folder)
        ballast = small / "ballast"
        with ballast.open("wb", buffering=0) as file, suppress(OSError):
            file.writelines(repeat(bytes(4096), ((1 << 20) - room) // 4096))
        await home.daemon.start()
        look = {"command": "echo uno > a.txt"}
        server.next(Turn(calls=(Call("Bash", look),)), Turn(text="done"))
        said = await home.ohmo("-p", "translate", "--output", "stream-json")
        events = [json.loads(line) for line in said.out.splitlines()]
        thread = events[-1]["thread"]
        kinds = [event.get("event") for event in events]
        texts = [event.get("text", "") for event in events]
        [line] = [text for text in texts if "No checkpoint" in text]
        assert f"{folder}: the disk is full. What this changes there cannot be undone" in line
        assert texts.index(line) < kinds.index("tool_done")
        assert (folder / "a.txt").read_text() == "uno\n"
        assert git_state(folder) == state
        undone = (await home.ohmo("-p", "/undo", "--resume", thread)).out
        assert (folder / "a.txt").read_text() == "uno\n", undone

        ballast.unlink()
        subprocess.run(["mount", "-o", "remount,size=8m", small], check=True)
        server.next(Turn(calls=(Call("Bash", {"command": "echo dos > a.txt"}),)), Turn(text="ok"))
        await home.ohmo("-p", "again", "--resume", thread)
        assert "As before" in (await home.ohmo("-p", "/undo", "--resume", thread)).out
        assert (folder / "a.txt").read_text() == "uno\n"
