"""git and a project's own tests as tools of the model, on the real daemon: looking is free, a
commit and a run of the tests are asked about as their commands are."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.journeys.at_keyboard import Keyboard, keyboard
from tests.platforms.model.script import Asked, Call, Turn
from tests.platforms.model.server import ModelServer

pytestmark = pytest.mark.timeout(240)
COMMIT = {"message": "Second, with `words`\n\nand a reason", "paths": ["a.py", "new.py"]}


def result(asked: Asked) -> str:
    """What the model was told of its last call."""
    return str(asked.body["messages"][-1]["content"])


def git(home: Keyboard, *words: str) -> str:
    """The person's own, in the workspace."""
    environ = {"PATH": os.environ["PATH"], "HOME": str(home.work.parent)}
    who = ("-c", "user.name=Ada", "-c", "user.email=ada@example.org")
    done = subprocess.run(
        ["git", *who, *words],
        cwd=home.work,
        env=environ,
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout


def repository(home: Keyboard) -> Path:
    """One commit and a change. A setting of the repository and a hook leave a file when they are
    run; returns where."""
    git(home, "init", "-qb", "main", "--template=")
    ran = home.work / ".git/ran"  # which a cage lets them write to
    ran.mkdir()
    (home.work / "a.py").write_text("one\n")
    git(home, "add", ".")
    git(home, "commit", "-qm", "First")
    (home.work / "a.py").write_text("two\n")
    (home.work / "new.py").write_text("new\n")
    git(home, "config", "user.name", "Ada")
    git(home, "config", "user.email", "ada@example.org")
    git(home, "config", "core.fsmonitor", f"touch {ran}/fsmonitor; false")
    hook = home.work / ".git/hooks/pre-commit"
    hook.parent.mkdir()
    hook.write_text(f"#!/bin/sh\ntouch {ran}/pre-commit\n")
    hook.chmod(0o755)
    return ran


async def test_looking_is_free_and_a_commit_is_asked_about(tmp_path: Path) -> None:
    server = ModelServer(
        [
            Turn(calls=(Call("GitStatus", {}),)),
            Turn(calls=(Call("GitDiff", {}),)),
            Turn(calls=(Call("GitLog", {"full": True}),)),
            Turn(text="looked"),
            Turn(calls=(Call("GitCommit", COMMIT),)),
            Turn(text="not now"),
            Turn(calls=(Call("GitCommit", COMMIT),)),
            Turn(text="done"),
            Turn(calls=(Call("GitCommit", COMMIT),)),
            Turn(text="planned"),
        ]
    )
    async with keyboard(tmp_path, server) as home:
        ran = repository(home)
        looked = await home.ohmo("-p", "what changed?")
        assert looked.code == 0, looked.err
        assert result(server.asked[1]) == "## main\n M a.py\n?? new.py"
        assert "-one\n+two" in result(server.asked[2])
        assert "    First" in result(server.asked[3])
        assert list(ran.iterdir()) == []
        refused = await home.ohmo("-p", "commit it")
        assert refused.code == 3
        assert "GitCommit" in refused.err
        assert git(home, "log", "--format=%s") == "First\n"
        allowed = await home.ohmo("-p", "commit it", "--allow", "GitCommit")
        assert allowed.code == 0, allowed.err
        assert "2 files changed" in result(server.asked[7])
        told = git(home, "log", "--format=%B", "--name-only", "-1")
        assert told.split("\n") == [
            "Second, with `words`",
            "",
            "and a reason",
            "",
            "",
            "a.py",
            "new.py",
            "",
        ]
        assert (ran / "pre-commit").exists()
        planned = await home.ohmo("-p", "commit it", "--permission-mode", "plan")
        assert planned.code == 0, planned.err
        assert "plan mode" in result(server.asked[9])


async def test_rules_for_bash_hold_for_what_the_tools_run(tmp_path: Path) -> None:
    runs = Turn(calls=(Call("ProjectTests", {}),))
    server = ModelServer(
        [
            Turn(calls=(Call("GitCommit", {"message": "Second", "paths": ["a.py"]}),)),
            runs,
            Turn(text="done"),
            Turn(calls=(Call("ProjectTests", {"tests": ["-p", "evil"]}),)),
            Turn(text="no"),
        ]
    )
    allow = ["Bash(git add:*)", "Bash(git commit:*)", "Bash(.venv/bin/pytest)"]
    async with keyboard(tmp_path, server, permissions={"allow": allow}) as home:
        repository(home)
        runner = home.work / ".venv/bin/pytest"
        runner.parent.mkdir(parents=True)
        runner.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m pytest "$@"\n')
        runner.chmod(0o755)
        (home.work / "pytest.ini").write_text("[pytest]\naddopts = -p no:cacheprovider\n")
        (home.work / "test_it.py").write_text("def test_it():\n    assert 1 == 2\n")
        said = await home.ohmo("-p", "commit and test")
        assert said.code == 0, said.err
        assert git(home, "log", "--format=%s") == "Second\nFirst\n"
        text = result(server.asked[2])
        assert text.startswith("{"), text
        told = json.loads(text)
        assert told == {
            "command": ".venv/bin/pytest",
            "exit_code": 1,
            "passed": 0,
            "failed": 1,
            "skipped": 0,
            "failures": [
                {"name": "test_it.py::test_it", "at": "test_it.py:2", "message": "assert 1 == 2"}
            ],
        }
        await home.ohmo("-p", "test only some")
        assert "is an option" in result(server.asked[4])


@pytest.mark.parametrize("before", ["", "."], ids=["empty", "dot"])
async def test_no_git_of_the_repository_is_run_wherever_path_leads(
    tmp_path: Path, before: str
) -> None:
    """Neither to look, nor for a checkpoint before a change, nor for the branch that is told."""
    server = ModelServer(
        [
            Turn(calls=(Call("GitStatus", {}),)),
            Turn(calls=(Call("Bash", {"command": "git status"}),)),
            Turn(calls=(Call("Write", {"file_path": "b.py", "content": "b"}),)),
            Turn(text="looked"),
        ]
    )
    async with keyboard(tmp_path, server, running=False) as home:
        ran = repository(home)
        git(home, "config", "--unset", "core.fsmonitor")
        for folder in (home.work, home.home):
            own = folder / "git"
            own.write_text(f"#!/bin/sh\ntouch {ran}/git\n")
            own.chmod(0o755)
        home.daemon.environ["PATH"] = f"{before}:{os.environ['PATH']}"
        await home.daemon.start()
        looked = await home.ohmo("-p", "what changed?", "--allow", "Write")
        assert looked.code == 0, looked.err
        assert " M a.py" in result(server.asked[1])
        assert "modified:   a.py" in result(server.asked[2])
        assert (home.work / "b.py").read_text() == "b"
        assert list(ran.iterdir()) == []
