"""What other packages offer is taken as it calls itself; whatever is wrong with it is one line."""

from __future__ import annotations

from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from ohmo.discovery import from_packages
from ohmo.tools.catalogue import with_strangers
from ohmo.tools.workbench import Workbench

NAMED = "class Made:\n    name = {name!r}\n    def __init__(self, bench): {does}\nTOOL = Made\n"


def point(folder: Path, source: str, name: str = "Made", attribute: str = "") -> EntryPoint:
    """``source`` as an installed module."""
    module = f"stranger_{abs(hash((str(folder), source)))}"
    (folder / f"{module}.py").write_text(source)
    return EntryPoint(name, module + attribute, "ohmo.tools")


@pytest.fixture(autouse=True)
def in_reach(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))


@pytest.mark.parametrize("attribute", ["", ":TOOL"])
def test_a_module_with_the_constant_and_the_object_itself_are_the_same(
    tmp_path: Path, attribute: str
) -> None:
    points = [point(tmp_path, NAMED.format(name="Made", does="pass"), attribute=attribute)]
    offered = from_packages("ohmo.tools", "TOOL", type, points=points)
    assert (list(offered.found), offered.broken) == (["Made"], ())


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        ("import no_such_module_anywhere", "no_such_module_anywhere"),
        ("def", "SyntaxError"),
        ("raise RuntimeError('of\\ntwo lines')", "of two lines"),
        ("raise SystemExit('it wants tea')", "SystemExit: it wants tea"),
        ("class Panic(BaseException): pass\nraise Panic('of rust')", "Panic: of rust"),
        ("TOOL = 5", "TOOL is a int, not a type"),
        ("", "has no attribute 'TOOL'"),
        (NAMED.format(name="Other", does="pass"), "it calls itself 'Other'"),
        (NAMED.format(name="Bash", does="pass"), "the name 'Bash' is taken"),
    ],
)
def test_what_is_wrong_is_one_line_that_says_where(
    tmp_path: Path, source: str, reason: str
) -> None:
    named = "Bash" if "'Bash'" in source else "Made"
    good = point(tmp_path, NAMED.format(name="Good", does="pass"), "Good")
    points = [point(tmp_path, source, named), good]
    offered = from_packages("ohmo.tools", "TOOL", type, taken={"Bash"}, points=points)
    assert list(offered.found) == ["Good"]
    (line,) = offered.broken
    assert reason in line
    assert f"entry point {named} = stranger_" in line
    assert "\n" not in line


def test_the_second_of_one_name_is_skipped(tmp_path: Path) -> None:
    source = NAMED.format(name="Made", does="pass")
    points = [point(tmp_path, source), point(tmp_path, source + "\n")]
    offered = from_packages("ohmo.tools", "TOOL", type, points=points)
    assert len(offered.found) == len(offered.broken) == 1


def test_a_tool_that_cannot_be_made_is_skipped(tmp_path: Path) -> None:
    points = [point(tmp_path, NAMED.format(name="Made", does="raise ValueError('no key')"))]
    bench = Workbench(tmp_path / "spill", None)  # pyright: ignore[reportArgumentType]
    made, broken = with_strangers({}, bench, points)
    assert made == {}
    assert broken == ("the tool Made of another package is skipped: ValueError: no key",)
