"""What the cage of a hook or server has beyond that of a command; and what the walls try again and
clean up."""

from __future__ import annotations

import os
import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ohmo.contracts.sandbox import Cage, Terms
from ohmo.contracts.tool import Opened
from ohmo.permissions.cages import may_be_opened
from ohmo.permissions.sensitive_paths import FsCache, SensitivePaths
from ohmo.sandbox import probing, walls
from ohmo.sandbox.programs import Programs
from ohmo.sandbox.walls import Standing, Walls
from tests.parts import skip_without, there
from tests.unit.sandbox.test_escapes import Ground, ground

__all__ = ["ground"]  # the fixture
pytestmark = pytest.mark.needs("linux")
OWNERS = Terms("the hook x", owners=True, network=True)


class Room:
    """A ground with programs on it; ``told``: of the owner."""

    def __init__(self, ground: Ground) -> None:
        self.ground = ground
        self.told: list[str] = []
        sensitive = SensitivePaths(ground.home, ground.root, ())

        async def tell(_: str, line: str) -> None:
            self.told.append(line)

        def opens(place: str) -> bool:
            return may_be_opened(place, sensitive, FsCache())

        self.programs = Programs(ground.walls, ground.home, ground.root, opens, tell)

    async def cage(self, *argv: str, terms: Terms = OWNERS) -> Cage:
        cage = await self.programs.cage(argv, self.ground.work, terms)
        assert cage is not None
        return cage


@pytest.fixture
def room(tmp_path: Path) -> Room:
    if not there("bwrap"):
        skip_without("bwrap")
    return Room(Ground(tmp_path, "bubblewrap", network="ask"))


def file(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("x")
    return path


async def test_a_program_of_the_owner_finds_its_parts_and_what_its_words_name(room: Room) -> None:
    home, top = room.ground.home, room.ground.top
    script = file(top / "tools/check.py")
    venv = file(top / "env/bin/server")
    data = file(top / "data/x").parent
    ours = file(room.ground.root / "programs/own/guard.sh")
    plain = file(room.ground.root / "guard.py")
    alone = file(home / "alone.sh")
    table = {
        str(script): script.parent,
        f"--script={script}": script.parent,
        str(venv): venv.parent.parent,
        str(data): data,
        "~/alone.sh": alone,
        "$HOME/alone.sh": alone,
        "$OHMO_HOME/programs/own/guard.sh": ours.parent,
        str(plain): plain,
    }
    for word, place in table.items():
        assert place in (await room.cage("python3", word)).read, word
        assert (
            place in (await room.cage("/bin/sh", "-c", f'exec "{word}"; true')).read
            or word[0] in "-~"
        )
    written = (await room.cage("x", str(data), terms=replace(OWNERS, cache="x"))).write
    assert data in written
    assert data not in (await room.cage("x", str(data))).write
    assert (await room.cage("x")).network == "on"
    assert (await room.cage("x", terms=Terms("x"))).network == "off"


async def test_a_script_of_a_package_finds_the_package_and_no_more(room: Room) -> None:
    """Never the home or what holds it, nor out of a folder where commands may take away the mark."""
    home, top, work = room.ground.home, room.ground.top, room.ground.work
    file(top / "w/package.json")
    built = file(top / "w/build/esm/index.js")
    data = file(top / "w/data/shop.db")
    (top / "py/.venv").mkdir(parents=True)
    python = file(top / "py/src/server.py")
    file(home / "package.json")
    alone = file(home / "tools/x.js")
    file(top / "deep/package.json")
    deep = file(top / "deep/1/2/3/4/5/x.js")
    key = file(top / "w/id_rsa")
    table = {
        built: top / "w",
        python: top / "py",
        data: data.parent,
        alone: alone.parent,
        deep: deep.parent,
    }
    for script, place in table.items():
        cage = await room.cage("node", str(script))
        assert cage.named == (place,), script
    assert key in (await room.cage("node", str(built))).hide
    file(top / "package.json")
    inside = file(work / "src/x.js")
    assert (await room.cage("node", str(inside))).named == (inside.parent,)
    others = await room.cage("node", str(built), terms=Terms("x", plugin=str(top / "py/src")))
    assert not {top / "w", top / "py"} & {*others.read, *others.write}


async def test_nobody_opens_what_is_sensitive_and_others_open_nothing(room: Room) -> None:
    """Whatever is written, by whomever: nothing sensitive, of ohmo or above it is in a cage; and of
    what a project or plugin writes only its own folder."""
    home, root, top = room.ground.home, room.ground.root, room.ground.top
    file(root / "config.yaml")
    file(root / "state/own.py")
    file(top / "tools/check.py")
    file(top / "tools/id_rsa")
    plugin = file(root / "cache/plugins/x/run.py").parent
    words = [str(each) for each in (home, top, root, Path("/"), Path("/etc"), Path("/tmp"))]
    words += [
        str(root / each) for each in ("ohmo.db", "config.yaml", "state", "state/own.py", "cache")
    ]
    words += [f"{home}/.ssh", "~/.ssh/id_ed25519", "$OHMO_HOME/ohmo.db", f"{top}/tools", "~"]
    words += [f"{home}/../person/.ssh", "/etc/shadow", "/proc/1", "/run", "/usr/bin/env"]
    (top / "tools/link").symlink_to(home / ".ssh")
    words += [f"{top}/tools/link", f"{top}/tools/link/id_ed25519"]
    closed = [home, *home.parents, root, home / ".ssh", Path("/etc"), Path("/tmp"), Path("/run")]
    bare = await room.cage("x", terms=Terms("x"))
    random.seed(17)
    for _ in range(120):
        argv = tuple(random.sample(words, random.randint(1, 6)))
        cage = await room.cage(*argv, terms=replace(OWNERS, cache=random.choice(["", "x"])))
        opened = {*cage.read, *cage.write} - {*bare.read, *bare.write, root / "cache/servers/x"}
        assert not opened & set(closed), argv
        assert not [each for each in opened if (home / ".ssh") in each.parents], argv
        assert not [each for each in opened if root in each.parents], argv
        if top / "tools" in opened:
            assert top / "tools/id_rsa" in cage.hide
        keys = random.sample(words, 2)
        lent = Terms("x", plugin=str(plugin), read=tuple(keys), write=tuple(keys), off=True)
        theirs = await room.cage(*argv, terms=lent)
        assert {*theirs.read, *theirs.write} - {*bare.read, *bare.write} == {plugin}
        assert plugin in theirs.read
        assert theirs.network == "off"
    for word in (f"{home}/.ssh", str(home), str(root), f"{top}/nowhere"):
        for terms in (replace(OWNERS, read=(word,)), replace(OWNERS, write=(word,))):
            with pytest.raises(OSError, match="name another"):
                await room.cage("x", terms=terms)
            assert "name another" in room.programs.refused(room.ground.work, terms)
    fine = replace(OWNERS, read=(f"{top}/tools/check.py",))
    assert room.programs.refused(room.ground.work, fine) == ""
    assert await room.programs.cage(("x",), room.ground.work, replace(OWNERS, off=True)) is None


async def test_where_no_sandbox_holds_it_is_told_once_of_each(tmp_path: Path) -> None:
    room = Room(Ground(tmp_path, "none"))
    for terms in (OWNERS, Terms("the hook of x"), Terms("the hook of x"), Terms("the server y")):
        assert await room.programs.cage(("x",), room.ground.work, terms) is None
    assert [line.partition(": ")[2].partition(".")[0] for line in room.told] == [
        "the hook of x runs without walls",
        "the server y runs without walls",
    ]


async def test_what_is_read_below_what_is_hidden_is_there_and_nothing_beside_it(
    ground: Ground,
) -> None:
    """Also where ohmo's home lies in the workspace."""
    for root in (ground.root, ground.work / "inner"):
        shown = file(root / "cache/plugins/x/run.sh")
        file(root / "cache/plugins/other")
        file(root / "ohmo.db")
        settings = replace(ground.walls._settings, root=root)
        kept = Walls(settings)
        cage = await kept.cage(ground.work, (shown.parent,))
        script = f"cat {shown}; ls {root} {root}/cache/plugins; cat {root}/ohmo.db {root}/cache/plugins/other; true"
        script += "".join(
            f"; echo y > {each}" for each in (shown, root / "cache/new", root / "new")
        )
        ended = await ground.run(script, cage=cage)
        out = ended.output.out.head.decode()
        assert out.startswith("x"), ended
        assert "ohmo.db" not in out
        assert "other" not in out
        assert shown.read_text() == "x"
        assert not (root / "cache/new").exists()
        assert not (root / "new").exists()


async def test_caches_of_toolchains_are_there_and_credentials_beside_them_are_not(
    ground: Ground,
) -> None:
    there_ = (
        ".cargo/registry/x",
        ".cargo/git/x",
        ".m2/repository/x",
        ".gradle/caches/x",
        ".local/lib/x",
    )
    gone = (
        ".cargo/credentials.toml",
        ".m2/settings.xml",
        ".gradle/gradle.properties",
        ".local/other",
    )
    for name in (*there_, *gone, "env/lib/x", "env/etc", "env/bin/x"):
        file(ground.home / name)
    settings = replace(ground.walls._settings, path=f"/usr/bin:/bin:{ground.home}/env/bin")
    cage = await Walls(settings).cage(ground.work)
    names = " ".join(f"{ground.home}/{name}" for name in (*there_, "env/lib/x", *gone, "env/etc"))
    script = f'for each in {names}; do cat $each >/dev/null 2>&1 && echo "$each"; done; true'
    ended = await ground.run(script, cage=cage)
    found = ended.output.out.head.decode().split()
    assert found == [f"{ground.home}/{name}" for name in (*there_, "env/lib/x")]


async def test_a_trial_that_took_too_long_is_no_last_word(
    room: Room, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried: list[str] = []
    now = [0.0]

    async def slow(sandbox: Any, _: Cage) -> tuple[str, int]:
        tried.append(sandbox.name)
        if len(tried) < 3:
            raise TimeoutError("it did not end within 20 s")
        return "", 80

    monkeypatch.setattr(probing, "holds", slow)
    monkeypatch.setattr(walls.time, "monotonic", lambda: now[0])
    found: Walls = room.ground.walls
    first = await found.standing()
    assert (first.backend, first.late) == ("none", True)
    assert "it did not end within 20 s" in first.words
    now[0] += 59
    assert await found.standing() is first
    now[0] += 2
    assert (await found.standing()).late
    now[0] += 60
    assert len(tried) == 2
    now[0] += 60
    assert (await found.standing()).backend == "bubblewrap"
    now[0] += 1e6
    assert found.known == await found.standing()
    assert len(tried) == 3


async def test_trials_that_always_take_too_long_end(
    room: Room, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried: list[str] = []
    now = [0.0]

    async def never(sandbox: Any, _: Cage) -> tuple[str, int]:
        tried.append(sandbox.name)
        raise TimeoutError

    monkeypatch.setattr(probing, "holds", never)
    monkeypatch.setattr(walls.time, "monotonic", lambda: now[0])
    for _ in range(50):
        assert isinstance(await room.ground.walls.standing(), Standing)
        now[0] += 1e5
    assert len(tried) == 5


async def test_the_daemon_takes_away_what_an_earlier_one_left_whoever_asked_first(
    tmp_path: Path,
) -> None:
    there = Ground(tmp_path, "none", began=2_000.0)
    scratch = there.root / "scratch"
    for name, at in (("old", 1_000), ("own", 3_000)):
        file(scratch / name / "x")
        os.utime(scratch / name, (at, at))
    await there.walls.standing()
    assert len(list(scratch.iterdir())) == 2
    await there.walls.begin()
    assert [each.name for each in scratch.iterdir()] == ["own"]


async def test_a_call_that_names_nothing_is_as_it_was(room: Room) -> None:
    """What is for programs changes no cage of a command."""
    plain = room.ground.walls.planned(room.ground.work)
    lent = await room.cage("x", terms=Terms("x"))
    assert lent == room.ground.walls.planned(room.ground.work, opened=Opened(offline=True)) == plain


async def test_a_link_that_a_command_put_in_place_of_a_named_folder_opens_nothing(
    room: Room,
) -> None:
    """Neither by a word of the owner nor by a key, however many links there are on the way."""
    work, documents = room.ground.work, room.ground.home / "Documents"
    file(documents / "a.txt")
    (work / "notes").symlink_to(documents)
    (work / "twice").symlink_to("notes")
    (work / "down").mkdir()
    (work / "down/here").symlink_to("..")
    outer = room.ground.home / "outer"
    outer.symlink_to(work)
    servers = replace(OWNERS, cache="x")
    for word in ("notes", "twice", "down/here/notes", "notes/a.txt"):
        for named in (work / word, outer / word):
            cage = await room.cage("node", "/x", str(named), terms=servers)
            assert [
                path for path in (*cage.read, *cage.write) if documents in (path, *path.parents)
            ] == []
            with pytest.raises(OSError, match="led out of the workspace"):
                await room.cage("node", terms=replace(OWNERS, write=(str(named),)))
    cage = await room.cage("node", str(documents), terms=servers)
    assert documents in cage.write
    assert work / "down" in (await room.cage("node", str(work / "down"), terms=servers)).write
    (work / "down/other").symlink_to("../plain")
    (work / "plain").mkdir()
    within = await room.programs.cage(("node", str(work / "down/other")), work / "down", servers)
    assert within is not None
    assert work / "plain" in within.write


async def test_a_program_of_the_system_opens_no_part_of_it_anew(room: Room) -> None:
    cage = await room.cage("/usr/bin/python3", "/bin/sh")
    assert cage.named == ()
