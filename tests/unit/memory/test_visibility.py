"""Who sees which notes: whatever viewers there are, nobody sees another's, no group what was said in
private, no guest anything; and a project finds its own notes wherever it was moved."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from channels.contract import Address, ChatId, TopicId
from ohmo.memory.scopes import Scope, Viewer, visible
from tests.programs import run_process
from tests.unit.memory.memories import memory, viewer, written

PEOPLE = ("slack:U1", "slack:U2", "telegram:U1", "house:owner")
PLACES = (
    None,
    Address("slack", "T1", ChatId("C1")),
    Address("slack", "T1", ChatId("C1"), TopicId("9")),
    Address("slack", "T2", ChatId("C1")),
    Address("telegram", "T1", ChatId("C1")),
    Address("slack", "T1", ChatId("D1")),
    Address("house", "local", ChatId("api")),
)
FOLDERS = (Path("/a"), Path("/b"))
viewers = st.builds(
    Viewer,
    person=st.sampled_from(PEOPLE),
    role=st.sampled_from(("guest", "user", "admin", "owner")),
    private=st.booleans(),
    place=st.sampled_from(PLACES),
    cwd=st.sampled_from(FOLDERS),
)


def seen(one: Viewer, *, opaque: bool = False) -> dict[str, str]:
    """Folders by label."""
    scopes = visible(one, lambda cwd: Scope("workspace", f"w{cwd.name}"), opaque=opaque)
    assert len({scope.folder for scope in scopes}) == len(scopes)
    return {scope.label: scope.folder for scope in scopes}


@given(viewers, viewers, st.booleans())
@settings(max_examples=2_000)
def test_what_two_see_alike_they_may_both_see(one: Viewer, other: Viewer, opaque: bool) -> None:
    mine, theirs = seen(one, opaque=opaque), seen(other, opaque=opaque)
    if "guest" in (one.role, other.role):
        assert not set(mine.values()) & set(theirs.values())
        return
    shared = set(mine.values()) & set(theirs.values())
    for folder in shared:
        [label] = {label for label, each in mine.items() if each == folder}
        assert theirs[label] == folder  # one kind of notes is never read as another
        match label:
            case "person":
                assert one.private
                assert other.private
                assert one.person == other.person or one.role == other.role == "owner"
            case "chat":
                assert one.place is not None
                assert other.place is not None
                here, there = one.place, other.place
                assert (here.channel, here.account, here.chat) == (
                    there.channel,
                    there.account,
                    there.chat,
                )
            case _:
                assert one.cwd == other.cwd


@given(viewers)
def test_nobody_sees_a_person_s_notes_where_others_read(one: Viewer) -> None:
    labels = seen(one)
    assert ("person" in labels) == (one.private and one.role != "guest")
    assert bool(labels) == (one.role != "guest")
    assert "chat" not in labels or (one.place is not None and one.place.channel != "house")


@pytest.mark.parametrize("opaque", [False, True])
def test_names_of_folders_can_be_left_out(tmp_path: Path, opaque: bool) -> None:
    person, chat, project = memory(tmp_path, opaque=opaque).scopes(viewer(tmp_path / "shop"))
    names = [scope.folder for scope in (person, chat, project)]
    assert all(("-" in name) != opaque for name in names)
    if not opaque:
        assert names[0].startswith("people/slack-U1-")
        assert names[1].startswith("chats/slack-T1-D1-")
        assert names[2].startswith("shop-")


def committed(folder: Path) -> Path:
    folder.mkdir(parents=True)
    run_process("git", "init", "-q", folder, code=0)
    who = ("-c", "user.name=a", "-c", "user.email=a@b.c")
    command = ("commit", "-q", "--allow-empty", "-m", folder.name)
    run_process("git", *who, "-C", folder, *command, code=0)
    return folder


def notes_in(home: Path, folder: Path) -> list[str]:
    """What a process that begins now finds for work in ``folder``."""
    one = memory(home)
    project = one.scopes(viewer(folder))[-1]
    return [found.note.title for found in one.newest([project])]


def remember(home: Path, folder: Path, title: str) -> str:
    one = memory(home)
    project = one.scopes(viewer(folder))[-1]
    written(one, project, title)
    return project.folder


def test_a_project_that_was_moved_finds_its_notes_and_another_one_at_its_place_does_not(
    tmp_path: Path,
) -> None:
    old = committed(tmp_path / "old")
    remember(tmp_path, old, "Deploy")
    assert notes_in(tmp_path, old / "src") == ["Deploy"]  # a folder in it is the project
    new = tmp_path / "elsewhere" / "renamed"
    new.parent.mkdir()
    shutil.move(old, new)
    assert notes_in(tmp_path, new) == ["Deploy"]
    folder = remember(tmp_path, new, "Test")
    assert f'path: "{new}"' in (tmp_path / "memory" / folder / "MEMORY.md").read_text()
    committed(old)
    assert notes_in(tmp_path, old) == []
    other = remember(tmp_path, old, "Other")
    assert other != folder
    assert notes_in(tmp_path, old) == ["Other"]
    assert sorted(notes_in(tmp_path, new)) == ["Deploy", "Test"]


def test_worktrees_share_and_clones_do_not(tmp_path: Path) -> None:
    main = committed(tmp_path / "main")
    remember(tmp_path, main, "Deploy")
    run_process("git", "-C", main, "worktree", "add", "-q", tmp_path / "tree", "-b", "x", code=0)
    run_process("git", "clone", "-q", main, tmp_path / "clone", code=0)
    assert notes_in(tmp_path, tmp_path / "tree") == ["Deploy"]
    assert notes_in(tmp_path, tmp_path / "clone") == []


def test_a_second_project_of_the_same_digest_gets_a_longer_one(tmp_path: Path) -> None:
    shop = tmp_path / "shop"
    shop.mkdir()
    folder = remember(tmp_path, shop, "Deploy")
    index = tmp_path / "memory" / folder / "MEMORY.md"
    index.write_text(index.read_text().replace(f'"{shop}"', '"/somewhere/else"'))
    longer = remember(tmp_path, shop, "Mine")
    assert longer.startswith(folder)
    assert len(longer) == len(folder) + 4
    assert notes_in(tmp_path, shop) == ["Mine"]


def test_an_index_that_names_an_option_of_git_runs_nothing(tmp_path: Path) -> None:
    shop = committed(tmp_path / "shop")
    folder = remember(tmp_path, shop, "Deploy")
    index = tmp_path / "memory" / folder / "MEMORY.md"
    head = index.read_text().splitlines()
    evil = ['commit: "--output=/tmp/evil"' if line.startswith("commit") else line for line in head]
    index.write_text("\n".join(evil))
    assert notes_in(tmp_path, shop) == []
