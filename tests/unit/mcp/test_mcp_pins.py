"""What of a server may be called, whatever it offers in whatever order and however often the house
starts: what its first list said and what its owner approved, and nothing else."""

from __future__ import annotations

from pathlib import Path

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ohmo.mcp.contract import Definition
from ohmo.mcp.pins import Pins

NAMES = ("a", "b", "c")
TOOL = st.builds(
    lambda name, words, claim: Definition(name, words, {"type": "object"}, reads_only=claim),
    st.sampled_from(NAMES),
    st.sampled_from(["one", "two"]),
    st.booleans(),
)
LIST = st.lists(TOOL, max_size=3, unique_by=lambda each: each.name)
STEPS = st.lists(st.tuples(LIST, st.sampled_from(["list", "approve", "restart"])), max_size=8)


@given(first=LIST, steps=STEPS)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=150)
def test_only_the_first_list_and_what_was_approved_counts(
    tmp_path: Path, first: list[Definition], steps: list[tuple[list[Definition], str]]
) -> None:
    path = tmp_path / "x.json"
    path.unlink(missing_ok=True)
    pins = Pins(path)
    pins.read()
    assert pins.take(first) == []
    approved = {each.name: each for each in first}
    for offered, step in steps:
        if step == "restart":
            pins = Pins(path)
            pins.read()
        if step == "approve":
            pins.take(offered, approved=True)
            approved |= {each.name: each for each in offered}
        waiting = pins.take(offered)
        assert waiting == [each for each in offered if approved.get(each.name) != each]
        assert {name: pin.definition for name, pin in pins.pins.items()} == approved
        there = {name for name, pin in pins.pins.items() if pin.there}
        assert there == {each.name for each in offered} & approved.keys()
    assert path.stat().st_mode & 0o777 == 0o600
