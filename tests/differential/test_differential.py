"""What may run unasked, or by a rule, does in real bash exactly what was judged: 5 000 random
lines.

``OHMO_LINES`` and ``OHMO_SEED``: how many, and which ones."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.differential.box import Box, Job
from tests.differential.compare import beyond
from tests.differential.hunt import house_with_stubs, hunt
from tests.differential.judged import Judged
from tests.differential.splitting import split_otherwise
from tests.unit.permissions.attack_scenes import Scene

pytestmark = pytest.mark.needs("bwrap", "strace", "rg", "jq")
SEED = int(os.environ.get("OHMO_SEED", "20260101"))
STRINGS = int(os.environ.get("OHMO_LINES", "5000"))
LEAST_ALLOWED = STRINGS // 17


@pytest.mark.timeout(400 + STRINGS // 20)  # 25 s on two free cores
def test_what_runs_unasked_does_only_what_was_judged(tmp_path: Path) -> None:
    *_, report = hunt(tmp_path / "box", STRINGS, SEED)
    print(report)
    assert report.findings == []
    assert report.plain >= report.free >= LEAST_ALLOWED
    assert report.ruled >= STRINGS // 125


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return house_with_stubs(tmp_path / "box")


@pytest.mark.parametrize(
    ("line", "words", "finding"),
    [
        ("ls; touch x", ("ls",), "touch"),
        ("sh -c 'ls'", ("sh", "-c", "ls"), "started /usr/bin/ls"),
        ("./evil", ("./evil",), "from the workspace"),
        ("echo a > x", ("echo", "a"), "opened for writing"),
        ("cat b.py", ("cat", "a.py"), "started /usr/bin/cat"),
        ("cat a.py < b.py", ("cat", "a.py"), "opened"),
        ("rm notes.txt", ("rm", "notes.txt"), "did unlink"),
        ("sort -o x a.py", ("sort", "-o", "x", "a.py"), "opened for writing"),
        ("grep -r . up", ("grep", "-r", ".", "up"), "printed a secret"),
        ("cat innocent.txt", ("cat", "innocent.txt"), ".netrc"),
        ("cat /etc/shadow", ("cat", "/etc/shadow"), "/etc/shadow"),
        ("cat < /dev/tcp/127.0.0.1/9", ("cat",), "connect"),
        (
            "git -c core.fsmonitor=./evil status",
            ("git", "-c", "core.fsmonitor=./evil", "status"),
            "evil",
        ),
        ("rg --pre ./evil x a.py", ("rg", "--pre", "./evil", "x", "a.py"), "evil"),
        ("sort -S1 --compress-program=./evil evil.awk /usr/bin/git", ("sort",), "started"),
    ],
)
def test_the_harness_sees_what_goes_beyond(
    scene: Scene, line: str, words: tuple[str, ...], finding: str
) -> None:
    judged = Judged((words,), frozenset(str(scene.work / word) for word in words), str(scene.work))
    with Box(scene.root) as box:
        ran = box.run([Job(line, scene.work, scene.env(line))])[0]
    assert finding in "\n".join(beyond(ran, judged, scene))


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("ls -l", ("ls",)),
        ("ls $'a'", ("ls", "$a")),
        ("ls a#b", ("ls", "a")),
        ("ls a\\\nb", ("ls", "a", "b")),
        ("ls *.py", ("ls", "*.py")),
        ("echo {a,b}", ("echo", "{a,b}")),
        ("ls # x\nls y", ("ls",)),
        ("[ -f x ]", ("[", "-f", "x")),
        ("ls;&>/dev/null pwd", ("ls",)),  # ;& is one operator
        ("-l\nls", ("ls",)),  # taken for bash's own options
    ],
)
def test_the_harness_sees_other_words(scene: Scene, line: str, words: tuple[str, ...]) -> None:
    judged = Judged((words,), frozenset(), str(scene.work))
    with Box(scene.root) as box:
        assert split_otherwise(box, [(line, judged)], scene) != []


def test_the_harness_finds_nothing_where_nothing_is(scene: Scene) -> None:
    words = (
        ("ls", "-l", "src"),
        ("cat", "a.py"),
        ("wc", "-l"),
        ("rg", "x", "src"),
        ("git", "status"),
        ("[", "-f", "a.py", "]"),
    )
    line = "ls -l src; cat a.py | wc -l && rg x src || git status\n[ -f a.py ]"
    judged = Judged(
        words, frozenset({str(scene.work / "src"), str(scene.work / "a.py")}), str(scene.work)
    )
    with Box(scene.root) as box:
        assert split_otherwise(box, [(line, judged)], scene) == []
        assert beyond(box.run([Job(line, scene.work, scene.env(line))])[0], judged, scene) == []
