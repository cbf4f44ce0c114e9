"""What a checkpoint holds, what it leaves alone, and that everything comes back: over real git."""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path

import pytest

from ohmo.checkpoints.folders import Limits
from ohmo.checkpoints.snapshots import PLAIN
from ohmo.contracts.tool import Footprint
from ohmo.shell.parsing import Shell
from ohmo.shell.reading import touched
from tests.programs import run_process
from tests.unit.checkpoints.rig import Rig, Rows, files_of, git, repository, state_of, write

ODD = [
    "a b",
    "é",
    "文件",
    "-n",
    "--",
    "'q\"",
    "tab\tin",
    "line\nend",
    "back\\slash",
    ":(top)x",
    "*",
    "git~1",
    ".x",
]


@pytest.fixture
def rig(tmp_path: Path) -> Rig:
    return Rig(tmp_path / "home")


@contextmanager
def somebody(folder: Path) -> Iterator[None]:
    """As a person who may not read everything, also where the tests run as root."""
    if os.geteuid() != 0:
        yield
        return
    for path in (folder, *folder.rglob("*")):
        os.chown(path, 65534, 65534, follow_symlinks=False)
    above = [each for each in folder.parents if each.stat().st_uid == 0 and each != Path("/tmp")]
    modes = {each: each.stat().st_mode for each in above}
    for each, mode in modes.items():
        each.chmod(mode | 0o111)
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)
        for each, mode in modes.items():
            each.chmod(mode)


def some_edits(folder: Path, rng: random.Random, count: int) -> None:
    """Writes, deletes, renames, links, permissions, files that become folders and back."""
    for number in range(count):
        found = [
            p
            for p in folder.rglob("*")
            if ".git" not in p.relative_to(folder).parts
            and not {"ignored", ".gitignore"} & set(p.parts)
        ]
        files = [p for p in found if p.is_file() or p.is_symlink()]
        one = rng.choice(files) if files else folder / "first"
        where = rng.choice([folder, *(p for p in found if p.is_dir() and not p.is_symlink())])
        new = where / f"{rng.choice(ODD)}{rng.randrange(40)}"
        match rng.randrange(9):
            case 0 | 1 if not one.is_symlink():
                write(one, rng.randbytes(rng.randrange(2000)))
            case 2 if not os.path.lexists(new):
                write(new, rng.randbytes(50), rng.choice([0o644, 0o755, 0o600, 0o640, 0o444]))
            case 3:
                one.unlink(missing_ok=True)
            case 4 if not os.path.lexists(new) and os.path.lexists(one):
                one.rename(new)
            case 5 if not os.path.lexists(new):
                new.symlink_to(rng.choice(["a", "/etc/passwd", "..", "nowhere"]))
            case 6 if one.is_file() and not one.is_symlink():
                one.chmod(rng.choice([0o644, 0o755, 0o600, 0o700]))
            case 7 if os.path.lexists(one):
                one.unlink()
                write(one / f"inside{number}", b"x")
            case 8 if where != folder:
                shutil.rmtree(where)
            case _:
                pass


@pytest.mark.parametrize("seed", range(4))
async def test_a_thousand_random_edits_are_taken_back_exactly(
    rig: Rig, tmp_path: Path, seed: int
) -> None:
    rng = random.Random(seed)
    names = {f"d{n % 12}/e{n % 3}/{rng.choice(ODD)}{n}": f"{n}\r\n" * (n % 9) for n in range(160)}
    folder = repository(tmp_path / "r", {**names, ".gitignore": "ignored/\n*.log\n"})
    if seed % 2:  # line ends that git would change on their way
        write(folder / ".gitattributes", "* text=auto eol=crlf\n*.x filter=lfs ident\n")
    write(folder / "untracked", "mine\n", 0o600)
    write(folder / "ignored" / "kept", "before\n")
    some_edits(folder, rng, 30)  # not committed, some staged
    git(folder, "add", "d1")
    before, state = files_of(folder), state_of(folder)
    await rig.begins("t1", folder)
    some_edits(folder, rng, 250)
    write(folder / "ignored" / "kept", "after\n")
    write(folder / "new.log", "after\n")
    after = files_of(folder)
    await rig.turns.after("t1")

    taken = await rig.undo()
    assert taken.told, taken.text
    assert "Could not" not in taken.text
    unignored = {"ignored/kept": (0o644, b"after\n"), "new.log": (0o644, b"after\n")}
    assert files_of(folder) == {**before, **unignored}
    await rig.rollback()
    assert files_of(folder) == after
    await rig.rollback()
    assert files_of(folder) == {**before, **unignored}
    assert state_of(folder) == state


async def test_said_twice_undo_takes_back_two_turns_and_rollback_comes_back(
    rig: Rig, tmp_path: Path
) -> None:
    folder = repository(tmp_path / "r", {"a": "0"})
    for number in "123":
        await rig.begins(number, folder)
        write(folder / "a", number)
        write(folder / f"new{number}", number)
        await rig.turns.after(number)
    await rig.undo()
    await rig.undo()
    assert {name: content for name, (_, content) in files_of(folder).items()} == {
        "a": b"1",
        "new1": b"1",
    }
    await rig.rollback()
    assert (folder / "a").read_text() == "2"
    await rig.rollback(6)
    assert files_of(folder) == {"a": (0o644, b"0")}
    assert "nothing to undo" in (await rig.undo()).text
    assert "Only 7 changes" in (await rig.rollback(9)).text


async def test_what_is_tracked_although_it_is_ignored_comes_back(rig: Rig, tmp_path: Path) -> None:
    folder = repository(tmp_path / "r", {".gitignore": "*.bin\n", "a": "1"})
    write(folder / "forced.bin", "tracked")
    write(folder / "free.bin", "ignored")
    git(folder, "add", "-f", "forced.bin")
    (folder / ".git" / "info" / "exclude").write_text("secret\n")
    write(folder / "secret", "ignored")
    for turn in "12":
        await rig.begins(turn, folder)
        for name in ("forced.bin", "free.bin", "secret"):
            write(folder / name, f"changed {turn}")
        await rig.turns.after(turn)
    await rig.undo()
    assert (folder / "forced.bin").read_text() == "changed 1"
    await rig.undo()
    assert (folder / "forced.bin").read_text() == "tracked"
    assert (folder / "free.bin").read_text() == (folder / "secret").read_text() == "changed 2"
    # what is ignored from now on is let go of
    (folder / ".gitignore").write_text("*.bin\nlate\n")
    write(folder / "late", "mine")
    await rig.begins("3", folder)
    (folder / "late").unlink()
    write(folder / "a", "2")
    await rig.turns.after("3")
    await rig.undo()
    assert not (folder / "late").exists()


async def test_what_was_ignored_before_the_turn_is_not_removed_with_it(
    rig: Rig, tmp_path: Path
) -> None:
    folder = repository(tmp_path / "r", {".gitignore": "node_modules/\n.env\n", "a": "1"})
    (folder / ".git" / "info" / "exclude").write_text("mine\n")
    for name in ("node_modules/x/y", ".env", "mine"):
        write(folder / name, "1")
    await rig.begins("t", folder)
    (folder / ".gitignore").unlink()
    (folder / ".git" / "info" / "exclude").unlink()
    write(folder / ".env", "changed")
    write(folder / "new", "1")
    await rig.turns.after("t")
    taken = await rig.undo()
    assert "new" in taken.text
    assert "node_modules" not in taken.text
    assert {name: text for name, (_, text) in files_of(folder).items()} == {
        ".gitignore": b"node_modules/\n.env\n",
        "a": b"1",
        "node_modules/x/y": b"1",
        ".env": b"changed",
        "mine": b"1",
    }


@pytest.mark.parametrize(
    "how",
    [
        "no commits",
        "sha256",
        "worktree",
        "split index",
        "assume unchanged",
        "sparse",
        "conflict",
        "detached",
        "intent",
    ],
)
async def test_repositories_of_every_kind(rig: Rig, tmp_path: Path, how: str) -> None:
    main = tmp_path / "main"
    if how == "sha256":
        main.mkdir()
        git(main, "init", "-q", "--object-format=sha256")
    folder = repository(main, {"a": "1\n", "d/b": "2\n", "e/c": "3\n"}, commit=how != "no commits")
    match how:
        case "worktree":
            git(folder, "worktree", "add", "-q", "-b", "topic", str(tmp_path / "tree"))
            folder = tmp_path / "tree"
        case "split index":
            git(folder, "update-index", "--split-index")
        case "assume unchanged":
            git(folder, "update-index", "--assume-unchanged", "a")
        case "sparse":
            git(folder, "sparse-checkout", "set", "--sparse-index", "d")
        case "conflict":
            git(folder, "checkout", "-qb", "other")
            write(folder / "a", "other\n")
            git(folder, "commit", "-qam", "other")
            git(folder, "checkout", "-q", "trunk")
            write(folder / "a", "trunk\n")
            git(folder, "commit", "-qam", "trunk")
            person = ("-c", "user.name=me", "-c", "user.email=me@example.org")
            run_process("git", *person, "merge", "-q", "other", cwd=folder)
        case "detached":
            git(folder, "checkout", "-q", "--detach")
        case "intent":
            write(folder / "n", "new\n")
            git(folder, "add", "-N", "n")
        case _:
            pass
    write(folder / "a", "edited\n")
    before, state = files_of(folder), state_of(main) if how != "worktree" else {}
    assert await rig.begins("t", folder) == ()
    write(folder / "a", "by the turn\n")
    (folder / "d" / "b").unlink()
    write(folder / "new", "x")
    await rig.turns.after("t")
    await rig.undo()
    assert files_of(folder) == before
    if state:
        assert state_of(main) == state


async def test_submodules_and_repositories_inside_stay_as_they_are(
    rig: Rig, tmp_path: Path
) -> None:
    inner = repository(tmp_path / "inner", {"x": "1"})
    folder = repository(tmp_path / "r", {"a": "1"})
    git(folder, "-c", "protocol.file.allow=always", "submodule", "-q", "add", str(inner), "sub")
    git(folder, "commit", "-qm", "sub")
    repository(folder / "own", {"y": "1"})
    await rig.begins("t", folder)
    write(folder / "sub" / "x", "2")
    git(folder / "sub", "commit", "-qam", "two")
    write(folder / "own" / "y", "2")
    write(folder / "a", "2")
    await rig.turns.after("t")
    taken = await rig.undo()
    assert "Submodules stay as they are" in taken.text
    assert (folder / "a").read_text() == "1"
    assert (folder / "sub" / "x").read_text() == (folder / "own" / "y").read_text() == "2"


async def test_outside_of_a_repository_declared_files_come_back(rig: Rig, tmp_path: Path) -> None:
    folder = tmp_path / "plain"
    write(folder / "a", "1", 0o600)
    new = folder / "deep" / "new"
    for call, name in enumerate(("a", "deep/new")):
        footprint = Footprint(writes=(folder / name,), effect="repeatable")
        assert await rig.begins("t", folder, footprint) == (), call
        write(folder / name, "2")
    await rig.turns.after("t")
    await rig.undo()
    assert files_of(folder) == {"a": (0o600, b"1")}
    assert not new.parent.exists()
    assert [row.repo for row in await rig.store.checkpoints()] == [str(PLAIN)] * 3
    lines = await rig.begins("u", folder)
    assert len(lines) == 1
    assert "in no git repository" in lines[0]
    await rig.turns.after("u")  # a person is asked in between
    assert await rig.begins("u", folder) == ()


@pytest.mark.parametrize(
    "how",
    [
        "empty .git",
        "elsewhere",
        "unreadable",
        "unreadable folder",
        "too big",
        "bare",
        "held",
        "fifo",
    ],
)
async def test_what_cannot_be_kept_is_said_in_one_line(tmp_path: Path, how: str) -> None:
    rig = Rig(tmp_path / "home", limits=Limits(20, 4 << 20, 1.0 if how == "held" else 60.0))
    folder = repository(tmp_path / "r", {"a": "1", "d/b": "2"})
    wanted = ""
    match how:
        case "empty .git":
            shutil.rmtree(folder / ".git")
            (folder / ".git").mkdir()
            wanted = "leads to no repository"
        case "elsewhere":
            shutil.rmtree(folder / ".git")
            (folder / ".git").write_text("gitdir: /dev/null\n")
            wanted = "leads to no repository"
        case "unreadable" | "unreadable folder":
            name = "a" if how == "unreadable" else "d"
            write(folder / "a", "2")
            (folder / name).chmod(0)
            wanted = name
        case "too big":
            write(folder / "data", b"x" * (2 << 20))
            wanted = "more than 1 MiB"
        case "bare":
            git(tmp_path, "clone", "-q", "--bare", str(folder), "bare.git")
            folder = tmp_path / "bare.git"
            wanted = "in no git repository"
        case "held":
            snapshots = rig.snapshots(folder)
            snapshots.folder.mkdir(parents=True)
            (snapshots.folder / "lock").touch()
            holder = f"import fcntl,time; f=open({str(snapshots.folder / 'lock')!r}); fcntl.flock(f,2); print(1,flush=True); time.sleep(60)"
            held = subprocess.Popen([sys.executable, "-c", holder], stdout=subprocess.PIPE)
            assert held.stdout is not None
            held.stdout.readline()
            wanted = "too long"
        case _:
            (folder / "a").unlink()
            os.mkfifo(folder / "a")
            wanted = "is no file"
    began = time.monotonic()
    with somebody(tmp_path) if "unreadable" in how else nullcontext():
        lines = await rig.begins("t", folder)
    if how == "held":
        held.kill()  # pyright: ignore[reportPossiblyUnbound]
        held.wait()  # pyright: ignore[reportPossiblyUnbound]
    (folder / "d").chmod(0o755) if (folder / "d").exists() else None
    assert len(lines) == 1
    assert lines[0].startswith("No checkpoint")
    assert wanted in lines[0]
    assert time.monotonic() - began < 10
    assert await rig.begins("t", folder) == ()
    await rig.turns.after("t")
    assert [row.tree for row in await rig.store.checkpoints()] == [""]
    assert "worked without a checkpoint" in (await rig.undo()).text


async def test_what_changed_in_the_second_of_the_index_is_seen(rig: Rig, tmp_path: Path) -> None:
    """An index says nothing of files that are as young as itself, also when it is copied later."""
    folder = repository(tmp_path / "r", {"a": "1"})
    for _ in range(20):
        write(folder / "a", "1")
        git(folder, "add", "a")
        write(folder / "a", "2")
        times = ((folder / "a").stat().st_ctime, (folder / ".git" / "index").stat().st_mtime)
        if int(times[0]) == int(times[1]):
            break
    time.sleep(1.1)
    assert await rig.begins("t", folder) == ()
    write(folder / "a", "3")
    await rig.turns.after("t")
    await rig.undo()
    assert (folder / "a").read_text() == "2"


@pytest.mark.parametrize("broken", ["index", "sharedindex.*"])
async def test_an_index_of_ours_that_is_damaged_is_made_again(
    rig: Rig, tmp_path: Path, broken: str
) -> None:
    folder = repository(tmp_path / "r", {f"d/{number}": "1" for number in range(20)})
    write(folder / "new", "1")
    await rig.begins("t1", folder)
    await rig.turns.after("t1")
    own = rig.snapshots(folder).folder
    left = own / "sharedindex_a1b2c3"  # of a process that was killed
    left.touch()
    found = list(own.glob(broken))
    assert found
    for each in found:
        each.write_bytes(b"x")
    assert await rig.begins("t2", folder) == ()
    write(folder / "new", "2")
    write(folder / "d/7", "2")
    await rig.turns.after("t2")
    await rig.undo()
    assert (folder / "new").read_text() == (folder / "d/7").read_text() == "1"
    assert not left.exists()


@pytest.mark.parametrize("first", [True, False])
async def test_what_only_has_another_time_is_not_new(tmp_path: Path, first: bool) -> None:
    """As in a copy of a repository: more than may be new in one checkpoint, and nothing of it is."""
    rig = Rig(tmp_path / "home", limits=Limits(20, 4 << 20, 60.0))
    folder = repository(tmp_path / "r", {"a": "x" * (2 << 20), "b": "1"})
    if not first:
        assert await rig.begins("s", folder) == ()
        await rig.turns.after("s")
    os.utime(folder / "a", (1, 1))
    write(folder / "b", "2")
    assert await rig.begins("t", folder) == ()
    write(folder / "b", "3")
    await rig.turns.after("t")
    assert "As before" in (await rig.undo()).text
    assert (folder / "b").read_text() == "2"


async def test_another_conversation_in_the_same_folder_wants_a_word(
    rig: Rig, tmp_path: Path
) -> None:
    folder = repository(tmp_path / "r", {"a": "1"})
    await rig.begins("t1", folder)
    await rig.begins("t2", folder, thread="two")
    write(folder / "a", "2")
    await rig.turns.after("t2")
    await rig.turns.after("t1")
    assert "Not undone" in (await rig.undo()).text
    assert (folder / "a").read_text() == "2"
    await rig.undo(force=True)
    assert (folder / "a").read_text() == "1"


async def test_old_changes_go_and_what_nothing_names_goes_with_them(tmp_path: Path) -> None:
    rig = Rig(tmp_path / "home", limits=Limits(3, 1 << 30, 60.0))
    folder = repository(tmp_path / "r", {"a": "1"})
    for number in range(6):
        await rig.begins(f"t{number}", folder)
        write(folder / "big", os.urandom(200_000))
        await rig.turns.after(f"t{number}")
    rows = await rig.store.checkpoints()
    assert [row.turn for row in rows] == ["t3", "t4", "t5"]
    snapshots = rig.snapshots(folder)
    full = snapshots.size()
    await rig.folders.tidy()
    assert snapshots.size() < full - 300_000
    await rig.rollback(3)
    assert len((folder / "big").read_bytes()) == 200_000
    small = Rig(tmp_path / "home", limits=Limits(20, 600_000, 60.0), store=rig.store)
    await small.folders.tidy()
    assert 0 < len(await rig.store.checkpoints()) < 4
    await rig.store.drop_checkpoints([row.id for row in await rig.store.checkpoints()])
    await rig.folders.tidy()
    assert list(rig.folders.store.iterdir()) == []


async def test_a_turn_without_a_checkpoint_is_the_last_one_all_the_same(
    rig: Rig, tmp_path: Path
) -> None:
    folder = repository(tmp_path / "r", {"a": "1"})
    await rig.begins("kept", folder)
    write(folder / "a", "2")
    await rig.turns.after("kept")
    await rig.begins("blind", tmp_path)
    write(folder / "b", "2")
    await rig.turns.after("blind")
    for take_back in (rig.undo, rig.rollback):
        refused = await take_back()
        assert "worked without a checkpoint" in refused.text
        assert "`/rollback 2`: before the turn" in refused.text
        assert refused.told == ""
    assert files_of(folder) == {"a": (0o644, b"2"), "b": (0o644, b"2")}
    shown, patch = await rig.back.diff("one", 1)
    assert "worked without a checkpoint" in shown
    assert patch == ""
    gone = await rig.rollback(2)
    assert "without a checkpoint stays" in gone.text
    assert files_of(folder) == {"a": (0o644, b"1"), "b": (0o644, b"2")}
    assert "nothing to undo here any more" in (await rig.undo()).text


async def test_undo_stays_in_the_present_session(tmp_path: Path) -> None:
    rows = Rows()
    rig = Rig(tmp_path / "home", store=rows)
    folder = repository(tmp_path / "r", {"a": "1"})
    await rig.begins("before", folder)
    write(folder / "a", "2")
    await rig.turns.after("before")
    rows.earlier = {"before"}
    assert "no turn of this conversation" in (await rig.undo()).text
    assert (folder / "a").read_text() == "2"
    assert "in another conversation here" in (await rig.back.diff("one", 1))[0]
    await rig.rollback()
    assert (folder / "a").read_text() == "1"


@pytest.mark.parametrize(
    ("command", "kept"),
    [
        ("cd r && python3 -m pytest -q", ["r"]),
        ("git -C r commit -m x; cd r; make", ["r"]),
        ("sed -i s/1/2/ r/a", ["r"]),
        ("bash -c 'cd r && make'", ["r"]),
        ("cd r && python3 ../other/tool.py", ["r"]),
        ("cp r/a other/a && make", ["other", "r"]),
        ("make && for d in *; do cd $d; make; done", [""]),
        ("python3 tool.py", [""]),
    ],
)
async def test_repositories_below_the_folder_are_found_by_what_a_command_names(
    rig: Rig, tmp_path: Path, command: str, kept: list[str]
) -> None:
    for name in ("r", "other"):
        repository(tmp_path / "w" / name, {"a": "1"})
    script = Shell(tmp_path).parse(command, tmp_path / "w")
    footprint = Footprint(
        writes=script.writes,
        command=command,
        touches=touched(script),
        places=(script.folders, script.named),
    )
    lines = await rig.begins("t", tmp_path / "w", footprint)
    rows = await rig.store.checkpoints()
    assert sorted(Path(row.repo).name for row in rows) == kept
    assert len(lines) == (kept == [""])


async def test_blind_turns_take_no_room_of_what_is_kept(tmp_path: Path) -> None:
    rig = Rig(tmp_path / "home", limits=Limits(2, 1 << 30, 60.0))
    folder = repository(tmp_path / "r", {"a": "1"})
    await rig.begins("kept", folder)
    await rig.turns.after("kept")
    for number in range(4):
        await rig.begins(f"t{number}", tmp_path)
        await rig.turns.after(f"t{number}")
    assert [row.turn for row in await rig.store.checkpoints()] == ["kept", "t2", "t3"]


async def test_the_home_in_a_repository_is_in_no_checkpoint_of_it(tmp_path: Path) -> None:
    folder = repository(tmp_path / "r", {"a": "1"})
    rig = Rig(folder / "home [x]")
    await rig.begins("t", folder)
    write(folder / "a", "2")
    await rig.turns.after("t")
    text, shown = await rig.back.diff("one", 1)
    assert "changed" in text
    assert shown.count("diff --git") == 1
