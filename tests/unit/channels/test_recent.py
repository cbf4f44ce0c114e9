"""A bounded dictionary, whichever way it is filled."""

from __future__ import annotations

from collections import OrderedDict

from hypothesis import given
from hypothesis import strategies as st

from channels.record import Recent

KEYS = st.integers(0, 9)


@given(most=st.integers(1, 5), sets=st.lists(st.tuples(KEYS, st.integers())))
def test_it_holds_the_entries_that_were_set_last_in_that_order(
    most: int, sets: list[tuple[int, int]]
) -> None:
    recent = Recent[int, int](most)
    for key, value in sets:
        recent[key] = value
    newest_first = OrderedDict[int, int]()
    for key, value in reversed(sets):
        newest_first.setdefault(key, value)
    assert list(recent.items()) == list(newest_first.items())[:most][::-1]


@given(most=st.integers(1, 5), entries=st.lists(st.tuples(KEYS, st.integers())))
def test_update_setdefault_and_union_are_bounded_too(
    most: int, entries: list[tuple[int, int]]
) -> None:
    one_by_one = Recent[int, int](most)
    for key, value in entries:
        one_by_one[key] = value
    united = Recent[int, int](most)
    united |= entries
    assert list(Recent(most, entries).items()) == list(united.items()) == list(one_by_one.items())
    for key in range(20):
        united.setdefault(key, key)
        assert len(united) <= most


def test_reading_makes_nothing_newer() -> None:
    recent = Recent(2, [("a", 1), ("b", 2)])
    assert recent["a"] == recent.get("a") == 1
    recent["c"] = 3
    assert list(recent) == ["b", "c"]
