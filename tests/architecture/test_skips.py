"""What is skipped without which part stands in one list (tests/parts.py), and nothing is skipped
without it."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.parts import CANNOT, PARTS, known
from tests.programs import run_process

ROOT = Path(__file__).parents[2]
OWN = {"tests/parts.py"}
SILENT = {"skip", "skipif", "importorskip", "SkipTest", "xfail", "skipTest"}


def sources() -> Iterator[tuple[str, ast.Module]]:
    for path in sorted((ROOT / "tests").rglob("*.py")):
        yield str(path.relative_to(ROOT)), ast.parse(path.read_text())


def test_nothing_is_skipped_in_words_of_its_own() -> None:
    found = [
        f"{name}:{node.lineno} {node.attr}"
        for name, tree in sources()
        if name not in OWN
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute)
        and node.attr in SILENT
        and re.search(r"\b(pytest|mark|unittest|self)\b", ast.unparse(node.value))
    ]
    assert found == [], (
        "say which part of tests/parts.py is missing: @pytest.mark.needs, skip_without, skip_on"
    )


def test_every_part_and_every_ability_of_the_list_is_used() -> None:
    """One that nobody needs any more is no reason to skip anything."""
    text = "\n".join(
        path.read_text()
        for path in (ROOT / "tests").rglob("*.py")
        if str(path.relative_to(ROOT)) not in OWN
    )
    named = {
        name
        for words in re.findall(r"needs\(([^)]*)\)|skip_without\(([^)]*)\)", text)
        for name in re.findall(r'"([\w-]+)"', "".join(words))
    }
    assert set(PARTS) - named == set()
    assert named - set(PARTS) == set()
    called = set(re.findall(r"can\(rig, rig\.(\w+)", text)) | set(
        re.findall(r'skip_on\(platform\(rig\), "(\w+)"\)', text)
    )
    assert set(CANNOT) - called == set()


def test_reasons_of_the_lists_are_known_and_no_others() -> None:
    assert known("Skipped: needs bwrap: apt install bubblewrap")
    assert known("Skipped: matrix cannot choices: it has no buttons")
    for reason in (
        "Skipped: not today",
        "Skipped: needs luck: always",
        "Skipped: slack cannot choices: no",
        "needs",
    ):
        assert not known(reason)


INNER = """
import pytest, unittest
def test_plain(): pytest.skip("not today")
@pytest.mark.skipif(True, reason="needs luck")
def test_if(): pass
def test_unittest(): raise unittest.SkipTest("no")
NAME = "kubectls"
@pytest.mark.needs(NAME)
def test_unknown(): pass
"""


def test_a_skip_without_a_part_of_the_list_is_a_failure(tmp_path: Path) -> None:
    inner = tmp_path / "test_inner.py"
    inner.write_text(INNER)
    words = [
        sys.executable,
        "-m",
        "pytest",
        "-p",
        "tests.conftest",
        "-p",
        "no:cacheprovider",
        "-q",
        str(inner),
    ]
    done = run_process(*words, cwd=ROOT)
    assert re.search(r"^2 failed, .*2 errors", done.stdout.splitlines()[-1]), done.stdout
    assert done.stdout.count("skipped without a part of tests/parts.py") >= 3


@pytest.mark.parametrize("ability", sorted(CANNOT))
def test_a_platform_that_cannot_has_a_reason(ability: str) -> None:
    assert CANNOT[ability]
    for platform, why in CANNOT[ability].items():
        assert (ROOT / "channels" / platform).is_dir()
        assert len(why) > 10
