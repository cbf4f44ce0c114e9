"""Schemas of strangers."""

from __future__ import annotations

import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ohmo.contracts.errors import BadArguments
from ohmo.mcp.tools import BadSchema, Schema, tool_name


def of(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties}


def test_the_whole_validates_and_the_flat_one_is_shown() -> None:
    defs = {"$defs": {"unit": {"type": "string", "enum": ["C", "F"]}}}
    field = {
        "anyOf": [{"$ref": "#/$defs/unit"}, {"type": "null"}],
        "title": "Unit",
        "default": None,
    }
    schema = Schema(of(unit=field) | defs | {"additionalProperties": False})
    assert schema.shown == of(unit={"type": "string", "enum": ["C", "F"]})
    schema.check("t", {"unit": None})
    for wrong in ({"unit": "K"}, {"other": 1}):
        with pytest.raises(BadArguments, match="the arguments do not fit"):
            schema.check("t", wrong)


@pytest.mark.parametrize(
    "reference", ["#/properties/a/anyOf/1", "#/$defs/a%20word", "#/$defs/a word", "#/$defs/a~1b"]
)
def test_a_reference_may_count_and_spell(reference: str) -> None:
    """As generators of schemas write them."""
    whole = of(a={"anyOf": [{"type": "null"}, {"type": "integer"}]}, b={"$ref": reference})
    number = {"type": "integer"}
    schema = Schema(whole | {"$defs": {"a word": number, "a/b": number}})
    schema.check("t", {"b": 1})
    with pytest.raises(BadArguments, match="`b`"):
        schema.check("t", {"b": "x"})


def test_a_pattern_runs_in_linear_time() -> None:
    schema = Schema(of(a={"type": "string", "pattern": "^(a+)+$"}))
    began = time.perf_counter()
    with pytest.raises(BadArguments):
        schema.check("t", {"a": "a" * 5_000 + "!"})
    assert time.perf_counter() - began < 0.5


def test_references_into_a_long_list_are_followed_at_once() -> None:
    last = {"$ref": "#/$defs/all/7999"}
    many = of(**{f"p{n}": last for n in range(60)})
    whole = of(**{f"q{n}": {"$ref": "#/$defs/many"} for n in range(20)})
    began = time.process_time()
    Schema(whole | {"$defs": {"all": [{}] * 8_000, "many": many}})
    assert time.process_time() - began < 0.3


@pytest.mark.parametrize("place", ["-1", "01", "+1", "1_0", "\N{SUPERSCRIPT TWO}", "9" * 5_000])
def test_a_place_in_a_list_is_a_plain_number(place: str) -> None:
    with pytest.raises(BadSchema, match="refers to what it does not have"):
        Schema(of(a={"$ref": f"#/$defs/all/{place}"}) | {"$defs": {"all": [{}] * 20}})


def _wide() -> dict[str, Any]:
    levels = {
        f"l{n}": of(a={"$ref": f"#/$defs/l{n + 1}"}, b={"$ref": f"#/$defs/l{n + 1}"})
        for n in range(30)
    }
    return of(x={"$ref": "#/$defs/l0"}) | {"$defs": levels | {"l30": {"type": "string"}}}


@pytest.mark.parametrize(
    ("schema", "line"),
    [
        (of(a={"$ref": "#"}), "refers to itself"),
        (of(a={"$ref": "https://example.org/s.json"}), "refers to another document"),
        (of(a={"$ref": "#/$defs/none"}), "refers to what it does not have"),
        (of(a={"pattern": "(?=x)y"}), "cannot be used"),
        (of(a={"type": "strange"}), "cannot be used"),
        (of(a={"description": "d" * 70_000}), "more than 65536"),
        (_wide(), "larger than 5000 parts"),
        ({"type": "array"}, "something else than an object"),
    ],
)
def test_what_cannot_be_used_is_one_line(schema: dict[str, Any], line: str) -> None:
    with pytest.raises(BadSchema, match=line) as caught:
        Schema(schema)
    assert "\n" not in str(caught.value)


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["type", "$ref", "properties", "anyOf", "items", "$defs", "allOf", "x"]
            ),
            inner,
        )
    ),
    max_leaves=20,
)


@given(st.dictionaries(st.sampled_from(["type", "properties", "$ref", "$defs", "anyOf"]), _JSON))
def test_any_schema_is_taken_or_refused(schema: dict[str, Any]) -> None:
    try:
        taken = Schema(schema)
    except BadSchema:
        return
    assert taken.shown["type"] == "object"
    assert '"$ref": "' not in str(taken.shown)


def test_names_fit_every_endpoint() -> None:
    assert tool_name("git", "list.issues/all") == "mcp__git__list_issues_all"
    one, other = tool_name("git", "x" * 90 + "a"), tool_name("git", "x" * 90 + "b")
    assert len(one) == len(other) == 64
    assert one != other
