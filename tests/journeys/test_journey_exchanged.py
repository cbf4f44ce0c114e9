"""Through the whole house: a path leads elsewhere once it was judged, and the model gets nothing of
what is there."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from ohmo_testing.house import World, house
from ohmo_testing.scripted import Says
from tests.journeys.conftest import MakeWorld

CANARY = "CANARY needle"
FILE = {"file_path": "notes/a.txt"}


def told(life: World) -> str:
    """What the model was told by the tools of its first answer."""
    return repr(life.model.requests[1].steps)


def exchanging(life: World, aside: str) -> Callable[[str], None]:
    """Between the judgement and the tool: the folder ``notes`` becomes a link."""
    work = life.work

    def swap(name: str) -> None:
        if name == "tool.running" and not (work / "notes").is_symlink():
            (work / "notes").rename(work / "moved")
            (work / "notes").symlink_to(life.folder.parent / aside)

    return swap


@pytest.mark.parametrize(
    ("tool", "given"),
    [
        ("Read", FILE),
        ("Write", {**FILE, "content": "written"}),
        ("Edit", {**FILE, "old_string": "needle", "new_string": "written"}),
        ("MultiEdit", {**FILE, "edits": [{"old_string": "needle", "new_string": "written"}]}),
        ("Grep", {"pattern": "need.*", "output_mode": "content", "path": "notes"}),
        ("Glob", {"pattern": "**", "path": "notes"}),
        ("Brief", {"attachments": ["notes/a.txt"]}),
    ],
)
async def test_a_folder_that_becomes_a_link_after_the_judgement_leads_nowhere(
    world: MakeWorld, tool: str, given: dict[str, Any]
) -> None:
    life = world(
        Says("", calls=((tool, given),)),
        "Done.",
        config="permissions: {allow: ['Edit(./**)', Brief]}\n",
    )
    life = replace(life, failpoint=exchanging(life, "elsewhere"))
    for name, text in (("work/notes", "plain needle"), ("elsewhere", CANARY)):
        (life.folder.parent / name).mkdir(parents=True)
        (life.folder.parent / name / "a.txt").write_text(text)
    elsewhere = life.folder.parent / "elsewhere"
    (elsewhere / "CANARY.txt").touch()
    async with house(life):
        await life.platform.says("have a look")
        await life.hears("Done.")
    assert (life.work / "notes").is_symlink()
    assert "CANARY" not in told(life)
    assert "exchanged after the call was judged" in told(life)
    assert (elsewhere / "a.txt").read_text() == CANARY
    assert sorted(path.name for path in elsewhere.iterdir()) == ["CANARY.txt", "a.txt"]


@pytest.mark.parametrize("pattern", ["needle", "need.*"])
async def test_a_search_leaves_out_what_is_denied_and_asks_nobody(
    world: MakeWorld, pattern: str
) -> None:
    calls = (
        ("Grep", {"pattern": pattern, "output_mode": "content"}),
        ("Glob", {"pattern": "*.txt"}),
    )
    life = world(
        Says("", calls=calls),
        "Done.",
        config="permissions: {deny: ['Read(./private/**)', 'Read(*.log)']}\n",
    )
    for name, text in (
        ("private/diary.txt", CANARY),
        ("x.log", CANARY),
        ("plain.txt", "plain needle"),
    ):
        (life.work / name).parent.mkdir(parents=True, exist_ok=True)
        (life.work / name).write_text(text)
    async with house(life):
        await life.platform.says("search")
        await life.hears("Done.")
    assert "plain.txt:1:plain needle" in told(life)
    assert not [word for word in ("CANARY", "diary.txt", "x.log") if word in told(life)]


async def test_no_second_name_no_pipe_and_no_descriptor_is_opened(world: MakeWorld) -> None:
    names = """
        twin.txt pipe /dev/fd/3 /proc/self/fd/3 /dev/stdin /proc/self/task/1/fd/3 /dev/zero
    """.split()
    life = world(
        Says("", calls=tuple(("Read", {"file_path": name}) for name in names)),
        "Done.",
        config="permissions: {read_outside: allow}\n",
    )
    work = life.work
    work.mkdir(parents=True)
    (life.folder.parent / ".netrc").write_text(CANARY)
    (work / "twin.txt").hardlink_to(life.folder.parent / ".netrc")
    os.mkfifo(work / "pipe")
    async with house(life):
        await life.platform.says("read them")
        await life.hears("Done.")
    steps = told(life)
    assert "CANARY" not in steps
    assert steps.count("error=True") == len(names)
    assert steps.count("is an open descriptor of this process") == 4
    assert "twin.txt holds credentials" in steps
    assert steps.count("device, pipe or socket") == 2


@pytest.mark.parametrize("moved", [False, True])
async def test_an_approval_counts_for_the_file_that_stood_on_the_card(
    world: MakeWorld, *, moved: bool
) -> None:
    life = world(
        Says("", calls=(("Write", {"file_path": "link.txt", "content": "written"}),)), "Done."
    )
    work = life.work
    work.mkdir(parents=True)
    (work / "one.txt").write_text("one")
    (work / "two.txt").write_text("two")
    (work / "link.txt").symlink_to("one.txt")
    async with house(life):
        await life.platform.says("write")
        await life.hears(f"leads to: `{work}/one.txt`")
        if moved:
            (work / "link.txt").unlink()
            (work / "link.txt").symlink_to("two.txt")
        await life.platform.says("/approve")
        await life.hears("Done.")
    assert (work / "one.txt").read_text() == ("one" if moved else "written")
    assert (work / "two.txt").read_text() == "two"
    assert ("changed while the person was asked" in told(life)) is moved
    assert "restart" not in told(life)


TESTS = ("ProjectTests", {})
COMMIT = ("GitCommit", {"message": "Second"})


@pytest.mark.parametrize("changed", [False, True])
@pytest.mark.parametrize(("call", "shown"), [(TESTS, "make test"), (COMMIT, "git commit")])
async def test_an_approval_counts_for_what_the_card_said_would_run(
    world: MakeWorld, call: tuple[str, dict[str, str]], shown: str, *, changed: bool
) -> None:
    life = world(Says("", calls=(call,)), "Done.")
    work = life.work
    hooks = work / ".git/hooks"
    hooks.mkdir(parents=True)
    (work / "Makefile").write_text("test:\n\ttouch ran\n")
    async with house(life):
        await life.platform.says("go")
        await life.hears(shown)
        if changed:
            for path in (work / ".venv/bin/pytest", hooks / "pre-commit"):
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text("#!/bin/sh\ntouch ran\n")
                path.chmod(0o755)
            (work / "pytest.ini").touch()
        await life.platform.says("/approve")
        await life.hears("Done.")
    assert ("changed while the person was asked" in told(life)) is changed
    assert (work / "ran").exists() is (call is TESTS and not changed)


async def test_plan_mode_runs_no_tests_that_appeared_after_the_judgement(world: MakeWorld) -> None:
    life = world(Says("", calls=(TESTS,)), "Done.", config="permissions: {mode: plan}\n")
    life.work.mkdir(parents=True)

    def appear(name: str) -> None:
        if name == "tool.before":
            (life.work / "Makefile").write_text("test:\n\ttouch ran\n")

    async with house(replace(life, failpoint=appear)):
        await life.platform.says("test it")
        await life.hears("Done.")
    assert "which was not judged" in told(life)
    assert not (life.work / "ran").exists()
