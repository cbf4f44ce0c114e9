"""What is opened is what was judged: no link on the way, no pipe, no device, no sensitive file
under another name."""

from __future__ import annotations

import os
import socket
import stat
import sys
import tempfile
import time
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tool_calls import Call, opening

from ohmo.contracts.tool import Judged
from ohmo.permissions.sensitive_paths import SensitivePaths
from ohmo.permissions.sensitive_places import FileAliases
from ohmo.tools.files import Opening, replace_file
from ohmo.tools.results import ToolError
from tests.programs import run_process

DEEP = ("one", "two", "three")


def plant(root: Path) -> tuple[Path, Path]:
    """Two trees with the same names: what was judged, and what somebody would like to have
    opened."""
    for name in ("judged", "elsewhere"):
        folder = root.joinpath(name, *DEEP)
        folder.mkdir(parents=True)
        (folder / "file").write_text(name)
    return root.joinpath("judged", *DEEP, "file"), root.joinpath("elsewhere", *DEEP, "file")


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    level=st.integers(0, 4), target=st.integers(0, 4), relative=st.booleans(), writes=st.booleans()
)
def test_no_link_is_followed_wherever_on_the_way_it_was_put(
    level: int, target: int, *, relative: bool, writes: bool
) -> None:
    """Every part of the path below the root becomes a link to every part of another path, dangling
    ones too."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder).resolve()
        judged, elsewhere = plant(root)
        place = [judged, *judged.parents][level]
        there = [elsewhere, *elsewhere.parents][target]
        place.rename(root / "moved")
        place.symlink_to(os.path.relpath(there, place.parent) if relative else there)
        write = writes and level > 0  # a link in the place of the file itself is replaced
        with pytest.raises((ToolError, OSError)) as refused:
            replace_file(opening(), judged, b"written", None) if write else opening().content(
                judged, 100
            )
        assert "exchanged after the call was judged" in str(refused.value)
        assert elsewhere.read_text() == "elsewhere"
        assert [path.name for path in elsewhere.parent.iterdir()] == ["file"]


@pytest.mark.parametrize("level", range(5))
def test_what_is_plainly_there_is_opened(tmp_path: Path, level: int) -> None:
    judged, _ = plant(tmp_path)
    place = [judged, *judged.parents][level]
    place.rename(tmp_path / "moved")
    (tmp_path / "moved").rename(place)
    assert opening().content(judged, 100)[0] == b"judged"
    assert stat.S_ISREG(opening().status(judged).st_mode)


def test_a_link_in_place_of_a_new_file_is_replaced_and_not_followed(tmp_path: Path) -> None:
    judged, elsewhere = plant(tmp_path)
    judged.unlink()
    judged.symlink_to(elsewhere)
    replace_file(opening(), judged, b"written", None)
    assert (judged.is_symlink(), judged.read_text(), elsewhere.read_text()) == (
        False,
        "written",
        "elsewhere",
    )


def test_a_folder_that_was_moved_away_while_it_was_open_is_told_from_the_judged_one(
    tmp_path: Path,
) -> None:
    judged, _ = plant(tmp_path)
    with opening().folder(judged.parent) as folder:
        judged.parent.rename(tmp_path / "moved")
        with pytest.raises(ToolError, match="exchanged"):
            opening().still(folder, judged.parent)
    os.mkfifo(tmp_path / "pipe")
    with (
        (tmp_path / "moved" / "file").open("rb") as file,
        pytest.raises(ToolError, match="exchanged"),
    ):
        opening().still(file.fileno(), judged)


def test_a_file_that_was_replaced_by_a_newer_one_while_it_was_open_is_the_judged_one(
    tmp_path: Path,
) -> None:
    judged, _ = plant(tmp_path)
    with judged.open("rb") as file:
        (tmp_path / "new").write_text("newer")
        (tmp_path / "new").replace(judged)
        assert opening().still(file.fileno(), judged) == str(judged)


def test_new_folders_are_made_below_the_deepest_that_is_there(tmp_path: Path) -> None:
    replace_file(opening(), tmp_path / "a" / "b" / "c.txt", b"x", None)
    assert (tmp_path / "a" / "b" / "c.txt").read_bytes() == b"x"
    (tmp_path / "out").mkdir()
    (tmp_path / "d").symlink_to(tmp_path / "out")
    with pytest.raises(ToolError, match="exchanged"):
        replace_file(opening(), tmp_path / "d" / "e" / "f.txt", b"x", None)
    assert list((tmp_path / "out").iterdir()) == []


def test_no_descriptor_is_left_open(tmp_path: Path) -> None:
    judged, elsewhere = plant(tmp_path)
    hidden = Opening(lambda path: path == str(elsewhere), FileAliases(()))
    before = os.listdir("/dev/fd")  # noqa: PTH208
    for _ in range(20):
        opening().file(judged).close()
        replace_file(opening(), judged, b"judged", judged.stat())
        for refused in (
            elsewhere,
            tmp_path / "gone",
            tmp_path,
            tmp_path / "judged" / "one",
            judged / "below",
        ):
            with pytest.raises((ToolError, OSError)):
                hidden.file(refused)
    assert len(os.listdir("/dev/fd")) == len(before)  # noqa: PTH208


@pytest.mark.parametrize("tool", ["Read", "Write", "Edit", "MultiEdit", "Grep"])
async def test_pipes_sockets_and_devices_are_refused_at_once(
    call: Call, work: Path, tool: str
) -> None:
    os.mkfifo(work / "pipe")
    given = {
        "Write": {"content": "x"},
        "Edit": {"old_string": "a", "new_string": "b"},
        "Grep": {"pattern": "x"},
        "MultiEdit": {"edits": [{"old_string": "a", "new_string": "b"}]},
    }.get(tool, {})
    with closing(socket.socket(socket.AF_UNIX)) as server:
        server.bind(str(work / "socket"))
        for place in (
            work / "pipe",
            work / "socket",
            Path("/dev/zero"),
            Path("/dev/null"),
            Path("/dev/tty"),
        ):
            began = time.monotonic()
            result = await call(
                tool, **{"path" if tool == "Grep" else "file_path": str(place)}, **given
            )
            assert result.error
            assert "device, pipe or socket" in result.text
            assert time.monotonic() - began < 10
    assert (work / "pipe").is_fifo()


async def test_a_pipe_in_place_of_the_rules_of_git_holds_no_search_up(
    call: Call, work: Path
) -> None:
    (work / ".git").mkdir()
    os.mkfifo(work / ".gitignore")
    (work / "a.txt").write_text("needle")
    assert (await call("Glob", pattern="*.txt")).text == str(work / "a.txt")
    assert (await call("Grep", pattern="needle")).text == str(work / "a.txt")


@pytest.mark.parametrize(
    "secret",
    """
        .netrc .ssh/id_rsa .aws/sso/cache/token.json .ohmo/config.yaml .ohmo/backups/b.tar
    """.split(),
)
async def test_a_hard_link_of_a_sensitive_file_is_that_file(
    call: Call, work: Path, tmp_path: Path, secret: str
) -> None:
    there = tmp_path / "home" / secret
    there.parent.mkdir(parents=True, exist_ok=True)
    there.write_text("CANARY needle\n")
    (work / "notes.txt").hardlink_to(there)
    (work / "plain.txt").write_text("needle\n")
    (work / "second.txt").hardlink_to(work / "plain.txt")
    for tool, arguments in (
        ("Read", {}),
        ("Write", {"content": "x"}),
        ("Edit", {"old_string": "CANARY", "new_string": "b"}),
    ):
        result = await call(tool, file_path="notes.txt", **arguments)
        assert result.error
        assert "no tool may open" in result.text
    found = await call("Grep", pattern="needle", output_mode="content")
    assert [line.split(":")[0] for line in found.text.splitlines()] == [
        str(work / "plain.txt"),
        str(work / "second.txt"),
    ]
    assert (await call("Grep", pattern="needle", path="notes.txt")).error
    assert not (await call("Read", file_path="second.txt")).error
    assert there.read_text() == "CANARY needle\n"


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.sampled_from(
            """
                .netrc .ssh/id_rsa .ssh/deep/er/key .config/gcloud/a/b .ohmo/state/x vault.kdbx
                diary/one a b/c
            """.split()
        ),
        min_size=1,
        unique=True,
    )
)
def test_a_file_is_known_by_its_inode_exactly_when_a_name_of_it_is_sensitive(
    names: list[str],
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder).resolve()
        sensitive = SensitivePaths(home, home / ".ohmo", ["~/diary"])
        (home / "names").mkdir()
        for number, name in enumerate(names):
            (home / name).parent.mkdir(parents=True, exist_ok=True)
            (home / name).write_text(name)
            (home / "names" / str(number)).hardlink_to(home / name)
        aliases = FileAliases(sensitive.existing())
        for number, name in enumerate(names):
            assert aliases.sensitive((home / "names" / str(number)).stat()) == sensitive.hides(
                str(home / name)
            )
        assert not aliases.sensitive((home / "names").stat())


def test_a_look_for_a_second_name_is_bounded_and_begins_at_the_top(tmp_path: Path) -> None:
    deep = tmp_path / ".mozilla" / "firefox" / "p" / "cache"
    deep.mkdir(parents=True)
    for number in range(6000):
        (deep / str(number)).touch()
    (tmp_path / ".mozilla" / "firefox" / "p" / "logins.json").touch()
    twin = tmp_path / "x"
    twin.hardlink_to(tmp_path / ".mozilla" / "firefox" / "p" / "logins.json")
    aliases = FileAliases(SensitivePaths(tmp_path).existing())
    began = time.process_time()
    assert aliases.sensitive(twin.stat())
    assert time.process_time() - began < 2


BOUND = """
import sys
from pathlib import Path
from ohmo.permissions.sensitive_paths import SensitivePaths
from ohmo.tools.results import ToolError
from ohmo.tools.search.inprocess import walk
from ohmo.tools.workbench import Workbench
from tests.makers import call_context
work = Path(sys.argv[2])
bench = Workbench(Path("/nowhere"), SensitivePaths(Path("/nobody"), Path(sys.argv[1])))
opening = bench.opening(call_context(work))
print(*walk(work, opening))
for name in ("whole/config.yaml", "part/token", "config", "whole/spill/page", "plain"):
    try:
        print(opening.content(work / name, 100)[0].decode())
    except ToolError:
        print("refused")
"""


@pytest.mark.needs("linux", "mounts", "root")
def test_what_is_bound_elsewhere_of_the_agents_home_is_neither_listed_nor_opened(
    tmp_path: Path,
) -> None:
    own, work = tmp_path / ".ohmo", tmp_path / "work"
    for folder in (own / "run", own / "spill", work / "whole", work / "part"):
        folder.mkdir(parents=True)
    for name in ("run/token", "config.yaml", "spill/page"):
        (own / name).write_text(name)
    (work / "config").touch()
    (work / "plain").write_text("plain")
    pairs = ((own, "whole"), (own / "run", "part"), (own / "config.yaml", "config"))
    binds = " && ".join(f"mount --bind {there} {work / name}" for there, name in pairs)
    mounted = ["unshare", "-m", "sh", "-c", f'{binds} && exec "$@"', "sh"]
    seen = run_process(*mounted, sys.executable, "-c", BOUND, str(own), str(work))
    assert seen.stdout.splitlines() == [
        "config plain",
        "refused",
        "refused",
        "refused",
        "refused",
        "plain",
    ], seen.stderr


def test_a_file_with_one_name_costs_no_look(tmp_path: Path) -> None:
    def places() -> list[str]:
        raise AssertionError("looked")

    class Places(list[str]):
        def __iter__(self):
            return iter(places())

    (tmp_path / "a").touch()
    assert not FileAliases(Places()).sensitive((tmp_path / "a").stat())
    assert not FileAliases(Places()).sensitive(tmp_path.stat())


def test_what_a_deny_rule_is_about_is_not_opened_though_it_was_judged(tmp_path: Path) -> None:
    """The rules are asked again about the path of what was opened."""
    judged, _ = plant(tmp_path)
    denied = opening(judged=Judged((judged,), (judged,), lambda path: path == str(judged)))
    with pytest.raises(ToolError, match="no tool may open"):
        denied.file(judged)
    with pytest.raises(ToolError, match="no tool may write"):
        replace_file(denied, judged, b"x", None)
    assert judged.read_text() == "judged"


async def test_a_picture_is_kept_as_it_was_when_it_was_read(call: Call, work: Path) -> None:
    (work / "p.gif").write_bytes(b"GIF89a")
    result = await call("Read", file_path="p.gif")
    (work / "p.gif").unlink()
    (work / "p.gif").symlink_to("/etc/hostname")
    assert [image.path.read_bytes() for image in result.images] == [b"GIF89a"]
