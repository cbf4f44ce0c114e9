"""Repositories made so that git reads what nobody judged: none of them is looked at unasked."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.unit.permissions.attack_scenes import SCENES, Scene, git, repository, write


def _return_in_a_comment(scene: Scene) -> None:
    """git ends a comment at the line feed, text files may also end at the carriage return."""
    with (scene.work / ".git/config").open("ab") as config:
        config.write(f'[diff "x"]\n# \r[branch "x"]\n\ttextconv = {scene.evil}\n'.encode())
    write(scene.work / ".gitattributes", "*.py diff=x\n")


def _passed_over(scene: Scene) -> None:
    """git takes no empty folder, and goes on to the repository further above."""
    git(scene.work, "config", "diff.external", str(scene.evil))
    (scene.work / "src/.git").mkdir()


def _bad_head(scene: Scene) -> None:
    git(scene.work, "config", "diff.external", str(scene.evil))
    git(scene.work / "src", "init", "-q")
    write(scene.work / "src/.git/HEAD", "nothing\n")


def _steps_of_a_rebase(scene: Scene) -> None:
    write(scene.work / ".git/rebase-merge/git-rebase-todo", "\n")
    write(scene.work / ".git/rebase-merge/interactive", "")
    (scene.work / ".git/rebase-merge/done").symlink_to(scene.home / ".netrc")


def _packed(scene: Scene) -> None:
    (scene.work / ".git/packed-refs").symlink_to(scene.home / ".netrc")


def _hard(scene: Scene) -> None:
    (scene.work / ".git/packed-refs").hardlink_to(scene.home / ".netrc")


def _kept_elsewhere(scene: Scene) -> None:
    shutil.move(scene.work / ".git", scene.home / "private.git")
    write(scene.work / ".git", f"gitdir: {scene.home}/private.git\n")


def _named_otherwise(text: bytes, link: str = "") -> Callable[[Scene], None]:
    """A file ``.git`` or ``commondir`` whose text leads git to another repository than its letters
    say."""

    def prepare(scene: Scene) -> None:
        evil = os.fsdecode(os.fsencode(scene.work) + b"/other/r\xff")
        shutil.copytree(scene.work / ".git", scene.work / "other/r")
        git(
            scene.work,
            f"--git-dir={scene.work}/other/r",
            "config",
            "diff.external",
            str(scene.evil),
        )
        shutil.copytree(scene.work / "other/r", evil)
        shutil.copytree(scene.work / ".git", scene.work / "r")
        shutil.copytree(scene.work / ".git", scene.work / "other/r\ufffd")
        (scene.work / "d").symlink_to("other/x")
        (scene.work / "other/x").mkdir()
        if link:
            (scene.work / link).write_bytes(text)
        else:
            shutil.rmtree(scene.work / ".git")
            (scene.work / ".git").write_bytes(b"gitdir: " + text)

    return prepare


def _objects_of_another(scene: Scene) -> None:
    shutil.rmtree(scene.work / ".git/objects/pack")
    (scene.work / ".git/objects/pack").symlink_to(scene.home)


def _known_file_became_a_secret(scene: Scene) -> None:
    (scene.work / "a.py").unlink()
    (scene.work / "a.py").hardlink_to(scene.home / ".netrc")


def _folder_became_a_link(scene: Scene) -> None:
    write(scene.work / "d/credentials", "x\n")
    git(scene.work, "add", "d")
    git(scene.work, "commit", "-qm", "d")
    shutil.rmtree(scene.work / "d")
    (scene.work / "d").symlink_to(scene.home / ".aws")


def _folders_beside(scene: Scene) -> None:
    write(scene.work / "r/a.py", "x = 1\n")
    repository(scene.work / "r")
    write(scene.work / "A/.npmrc", "x\n")
    (scene.work / "B").mkdir()


HOUSES: tuple[tuple[Callable[[Scene], None], str], ...] = (
    (_return_in_a_comment, "git diff"),
    (_return_in_a_comment, "git log -p"),
    (_passed_over, "cd src && git diff .."),
    (_passed_over, "git -C src log -p"),
    (_bad_head, "git -C src diff"),
    (_steps_of_a_rebase, "git status"),
    (_packed, "git branch"),
    (_packed, "git log"),
    (_hard, "git log"),
    (_kept_elsewhere, "git show HEAD:a.py"),
    (_folder_became_a_link, "git grep secret"),
    (_folders_beside, "git -C r diff ../A ../B"),
    (_folders_beside, "cd r && git diff ../A ../B"),
    (_named_otherwise(b"d/../r\n"), "git diff"),
    (_named_otherwise(b"other/r\xff\n"), "git diff"),
    (_named_otherwise(b"other/r\0/../../r\n"), "git diff"),
    (_named_otherwise(b"../d/../r\n", ".git/commondir"), "git diff"),
    (_named_otherwise(b"../.git/" * 512 + b"../other/r\n", ".git/commondir"), "git diff"),
    (_objects_of_another, "git show HEAD:a.py"),
    (_known_file_became_a_secret, "git diff"),
    (_known_file_became_a_secret, "git -C src diff HEAD"),
)


@pytest.mark.parametrize(
    ("prepare", "command"), HOUSES, ids=lambda value: getattr(value, "__name__", value)
)
def test_a_hostile_repository_asks_also_where_a_rule_is_for_the_verb(
    prepare: Callable[[Scene], None], command: str, tmp_path: Path
) -> None:
    scene = SCENES["plain"](tmp_path)
    for trap in ("link", "up"):  # which every search over the workspace asks about
        (scene.work / trap).unlink()
    prepare(scene)
    rules = [
        f"Bash(git {verb}:*)" for verb in ("diff", "log", "status", "branch", "show", "grep", "-C")
    ]
    for mode in ("default", "plan"):
        assert scene.house.bash(command, mode).verdict != "allow"
        assert scene.house.bash(command, mode, allow=rules).verdict != "allow"


@pytest.mark.parametrize(
    "command", ["git diff", "git diff HEAD", "git status", "git config user.name; git status"]
)
def test_git_that_reads_leaves_the_index_alone(command: str, tmp_path: Path) -> None:
    scene = SCENES["plain"](tmp_path)
    os.utime(scene.work / "a.py", (1, 1))
    (scene.work / "hard.txt").unlink()  # which git diff would ask about
    env = scene.env(command)
    assert scene.house.bash(command).verdict == "allow"
    assert env["GIT_OPTIONAL_LOCKS"] == "0"
    assert "diff.autoRefreshIndex=false" in env["GIT_CONFIG_PARAMETERS"]
    assert "diff.ignoreSubmodules=all" in env["GIT_CONFIG_PARAMETERS"]


@pytest.mark.parametrize("name", ["objects", "refs"])
def test_a_repository_whose_folders_git_may_not_enter_is_passed_over(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scene = SCENES["plain"](tmp_path)
    enters = os.access

    def access(path: str, mode: int) -> bool:  # root may enter every folder
        return f".git/{name}" not in path and enters(path, mode)

    assert scene.house.bash("git log").verdict == "allow"
    monkeypatch.setattr(os, "access", access)
    assert scene.house.bash("git log").verdict == "ask"


def test_a_clone_on_the_same_disk_is_read(tmp_path: Path) -> None:
    """git makes its objects, and what lies beside them, hard links."""
    scene = SCENES["plain"](tmp_path)
    git(scene.work, "gc", "-q")
    git(scene.work, "clone", "-q", "--local", str(scene.work), str(scene.work / "clone"))
    packs = (scene.work / "clone/.git/objects/pack").iterdir()
    assert any(path.stat().st_nlink > 1 for path in packs)
    assert scene.house.bash("git -C clone log").verdict == "allow"


HARMED = (
    "cat src /etc/passwd",
    "cat /dev/zero /etc/passwd",
    "cat hard.txt",
    "rg -g '.n*' x .",
    "head -n 1 src /etc/passwd",
)


@pytest.mark.parametrize("command", HARMED)
def test_a_rule_with_a_wildcard_for_a_program_that_reads_opens_nothing_that_is_closed(
    command: str, tmp_path: Path
) -> None:
    scene = SCENES["plain"](tmp_path)
    write(scene.work / ".npmrc", "x\n")
    assert (
        scene.house.bash(command, allow=["Bash(cat:*)", "Bash(rg:*)", "Bash(head *)"]).verdict
        != "allow"
    )


def test_git_beside_git_that_changes_needs_its_own_rule(tmp_path: Path) -> None:
    house = SCENES["hostile-module"](tmp_path).house
    assert house.bash("git status; git add a.py", allow=["Bash(git add:*)"]).verdict == "ask"
    assert (
        house.bash(
            "git status; git add a.py", allow=["Bash(git add:*)", "Bash(git status:*)"]
        ).verdict
        == "allow"
    )
