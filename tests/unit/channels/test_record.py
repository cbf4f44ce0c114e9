"""Records are frozen data classes in all that can be seen; a map of bounded size forgets the oldest."""

from __future__ import annotations

import copy
import pickle
from collections import OrderedDict
from dataclasses import FrozenInstanceError, asdict, field, fields, is_dataclass, replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from channels.record import Recent, record


@record
class Plain:
    number: int
    word: str = "w"
    several: list[int] = field(default_factory=list)
    secret: str = field(default="s3cret", repr=False)
    weight: int = field(default=0, compare=False)


@record
class Longer(Plain):
    more: int = 5


@record(kw_only=True)
class Named:
    """With words of its own."""

    key: str
    at: int = 3


@record
class Empty:
    pass


@record
class Own:
    value: int

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Own)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return "own"


def test_values_are_compared_hashed_and_shown_by_their_fields() -> None:
    assert Plain(1) == Plain(1, weight=9)
    assert Plain(1) != Plain(2)
    assert Plain(1) != Longer(1)
    assert hash(Named(key="a")) == hash(Named(key="a"))
    assert len({Empty(), Empty()}) == 1
    assert repr(Longer(1)) == "Longer(number=1, word='w', several=[], weight=0, more=5)"
    assert (Own(1) == Own(2), repr(Own(1))) == (True, "own")
    with pytest.raises(TypeError):
        hash(Own(1))


def test_nothing_changes_afterwards() -> None:
    one: Any = Plain(1)
    for name in ("number", "unknown"):
        with pytest.raises(FrozenInstanceError):
            setattr(one, name, 2)
    with pytest.raises(FrozenInstanceError):
        del one.number
    assert not hasattr(one, "__dict__")


def test_defaults_are_made_for_each() -> None:
    first, second = Plain(1), Plain(1)
    first.several.append(1)
    assert second.several == []
    assert Plain(1, "x", [2]).several == [2]


@pytest.mark.parametrize(
    ("make", "words"),
    [(Plain, "number"), (lambda: Named("a"), "positional"), (lambda: Plain(1, x=2), "x")],
)  # type: ignore[call-arg,misc]
def test_wrong_arguments_are_named(make: Any, words: str) -> None:
    with pytest.raises(TypeError, match=words):
        make()


@pytest.mark.parametrize("one", [Plain(1, several=[1]), Longer(2, more=6), Named(key="k"), Empty()])
def test_the_standard_library_treats_them_as_data_classes(one: Any) -> None:
    assert is_dataclass(one)
    assert replace(one) == one
    assert copy.copy(one) == copy.deepcopy(one) == pickle.loads(pickle.dumps(one)) == one
    assert list(asdict(one)) == [each.name for each in fields(one)]


def test_they_can_be_matched_by_position() -> None:
    match Longer(1, "x"):
        case Plain(number, word):
            assert (number, word) == (1, "x")
        case _:
            pytest.fail("not matched")


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
