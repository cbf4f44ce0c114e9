"""A repository of an attacker: whatever it says, nothing of it runs, and nothing outside of the
folder is read or written."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ohmo.checkpoints.git import ATTRIBUTES, SETTINGS, Git
from tests.programs import run_process
from tests.unit.checkpoints.rig import Rig, files_of, git, repository, write

PROGRAMS = """[core]
\tfsmonitor = {run}
\thooksPath = {hooks}
\teditor = {run}
\tpager = {run}
\tsshCommand = {run}
\talternateRefsCommand = {run}
\tgitProxy = {run}
\taskPass = {run}
[filter "x"]
\tclean = {run}
\tsmudge = {run}
\tprocess = {run}
\trequired = true
[diff]
\texternal = {run}
[diff "x"]
\ttextconv = {run}
\tcommand = {run}
[merge "x"]
\tdriver = {run}
[alias]
\tls-files = "!{run}"
\tupdate-index = "!{run}"
[credential]
\thelper = "!{run}"
[include]
\tpath = {more}
[uploadpack]
\tpackObjectsHook = {run}
[extensions]
\tpartialClone = origin
[remote "origin"]
\turl = ext::{run}
\tpromisor = true
\tuploadpack = {run}
"""


async def there_and_back(rig: Rig, folder: Path) -> None:
    before = files_of(folder)
    await rig.begins("t", folder)
    for name in ("a.x", "new"):
        write(folder / name, "changed\n")
    await rig.turns.after("t")
    await rig.back.diff("one", 1)
    await rig.undo()
    assert files_of(folder) == before
    await rig.folders.tidy()


async def test_nothing_that_a_repository_names_is_run(tmp_path: Path) -> None:
    rig = Rig(tmp_path / "home")
    folder = repository(tmp_path / "r", {"a.x": "1\n", "b": "2\n"})
    canary, run, hooks = tmp_path / "canary", tmp_path / "run", tmp_path / "hooks"
    write(run, f'#!/bin/sh\necho ran "$0" >> {canary}\ncat\n', 0o755)
    names = (
        "post-index-change pre-commit post-checkout reference-transaction fsmonitor-watchman"
        " pre-auto-gc post-rewrite"
    ).split()
    for where in (hooks, folder / ".git" / "hooks"):
        for name in names:
            write(where / name, run.read_bytes(), 0o755)
    write(tmp_path / "more", f"[core]\n\tfsmonitor = {run}\n")
    text = PROGRAMS.format(run=run, hooks=hooks, more=tmp_path / "more")
    with (folder / ".git" / "config").open("a") as file:
        file.write(text)
    attributes = "* filter=x diff=x merge=x text working-tree-encoding=UTF-16 ident\n"
    write(folder / ".gitattributes", attributes)
    write(folder / ".git" / "info" / "attributes", attributes)
    await there_and_back(rig, folder)
    assert not canary.exists()
    # the canary sings where git does open such a repository
    run_process("git", "status", cwd=folder)
    assert canary.exists()


@pytest.mark.parametrize(
    "how", ["worktree setting", "git file", "alternates loop", "pipes", "link out"]
)
async def test_nothing_leads_out_of_the_folder(tmp_path: Path, how: str) -> None:
    rig = Rig(tmp_path / "home")
    folder = repository(tmp_path / "r", {"a.x": "1\n", "d/b": "2\n"})
    other = repository(tmp_path / "other", {"secret": "s\n", "d/b": "3\n"})
    untouched = files_of(other, but="")
    match how:
        case "worktree setting":
            git(folder, "config", "core.worktree", str(other))
        case "git file":
            (folder / ".git").rename(tmp_path / "gone")
            (folder / ".git").write_text(f"gitdir: {other}/.git\n")
        case "alternates loop":
            (folder / ".git" / "objects" / "info" / "alternates").write_text(
                f"{folder}/.git/objects\n{other}/.git/objects\n"
            )
            (other / ".git" / "objects" / "info" / "alternates").write_text(
                f"{folder}/.git/objects\n"
            )
            untouched = files_of(other, but="")
        case "pipes":
            for name in ("info/exclude", "config"):
                (folder / ".git" / name).unlink()
                os.mkfifo(folder / ".git" / name)
        case _:
            pass
    if how != "link out":
        await there_and_back(rig, folder)
    else:
        # what was a folder has become a link: what is restored must not be written through it
        await rig.begins("t", folder)
        (folder / "d" / "b").unlink()
        (folder / "d").rmdir()
        (folder / "d").symlink_to(other / "d")
        await rig.turns.after("t")
        await rig.undo()
        assert (folder / "d" / "b").read_text() == "2\n"
        assert not (folder / "d").is_symlink()
    assert files_of(other, but="") == untouched


def test_git_is_handed_a_fixed_list_and_nothing_of_the_process(tmp_path: Path) -> None:
    os.environ["GIT_EXTERNAL_DIFF"] = "/bin/false"
    try:
        environ = Git(tmp_path / "ours", tmp_path, "/usr/bin", 0.0, tmp_path / 'o"b').environment()
    finally:
        del os.environ["GIT_EXTERNAL_DIFF"]
    ours = {name for name, value in environ.items() if str(tmp_path) in value}
    assert ours == {
        "HOME",
        "XDG_CONFIG_HOME",
        "GIT_DIR",
        "GIT_WORK_TREE",
        "GIT_INDEX_FILE",
        "GIT_ALTERNATE_OBJECT_DIRECTORIES",
    }
    assert set(environ) - ours == {
        "PATH",
        "LC_ALL",
        "GIT_CONFIG_NOSYSTEM",
        "GIT_CONFIG_GLOBAL",
        "GIT_ATTR_NOSYSTEM",
        "GIT_NO_LAZY_FETCH",
        "GIT_ALLOW_PROTOCOL",
        "GIT_TERMINAL_PROMPT",
        "GIT_NO_REPLACE_OBJECTS",
        "GIT_OPTIONAL_LOCKS",
    }
    assert environ["GIT_ALTERNATE_OBJECT_DIRECTORIES"] == f'"{tmp_path}/o\\"b"'
    assert "filter" not in SETTINGS
    assert "-filter" in ATTRIBUTES
