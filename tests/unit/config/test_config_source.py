"""YAML with lines."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ohmo.config.source import Source, parse, scalar


def said(text: str) -> list[str]:
    return [str(problem) for problem in parse(text, "config.yaml").problems]


def test_words_of_yaml_1_1_stay_words() -> None:
    assert parse("a: off\nb: yes\nc: true\nd: No\n", "x").data == {
        "a": "off",
        "b": "yes",
        "c": True,
        "d": "No",
    }


def test_a_yaml_1_1_directive_does_not_turn_words_into_booleans() -> None:
    assert parse("%YAML 1.1\n---\na: off\n", "x").data == {"a": "off"}


def test_scalars_are_read_as_yaml_1_2_means_them() -> None:
    found = parse(
        "a: 010\nb: 0o10\nc: 0x1F\nd: 1.5\ne: ~\nf:\ng: '1'\nh: 2026-01-02\ni: -3\nj: 1e3\n", "x"
    ).data
    assert found == {
        "a": 10,
        "b": 8,
        "c": 31,
        "d": 1.5,
        "e": None,
        "f": None,
        "g": "1",
        "h": "2026-01-02",
        "i": -3,
        "j": 1000.0,
    }


def test_every_key_and_item_knows_its_line() -> None:
    source = parse("a:\n  b: 1\n  c:\n    - x\n    - {y: 2}\n", "config.yaml")
    assert source.place(("a", "b")) == "config.yaml:2"
    assert source.place(("a", "c", 1, "y")) == "config.yaml:5"
    assert source.place(("a", "c", 1, "missing")) == "config.yaml:5"
    assert source.place(("other",)) == "config.yaml"


def test_a_doubled_key_is_an_error_with_both_lines() -> None:
    assert said("a: 1\nb:\n  c: 1\n  c: 2\na: 3\n") == [
        "config.yaml:4: b.c: written twice, first at config.yaml:3; keep one",
        "config.yaml:5: a: written twice, first at config.yaml:1; keep one",
    ]


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("a: [1\nb: 2\n", 1),
        ("\ta: 1\n", 1),
        ("a: *nowhere\n", 1),
        ("a: 'open\n", 1),
        ("a: 1\n---\nb: 2\n", 2),
        ("a: }\n", 1),
    ],
)
def test_what_is_no_yaml_is_one_line_with_a_number(text: str, line: int) -> None:
    found = said(text)
    assert len(found) == 1
    assert found[0].startswith("config.yaml:")
    assert "not valid YAML" in found[0]
    assert int(found[0].split(":")[1]) >= line


@pytest.mark.parametrize("brackets", ["[", "{", '["]",', "[ # ]\n", "[ ']', "])
def test_brackets_without_end_are_one_line(brackets: str) -> None:
    began = time.monotonic()
    assert said("a: " + brackets * 5000) == [
        "config.yaml: not valid YAML: brackets within brackets without end"
    ]
    assert time.monotonic() - began < 1


def test_brackets_that_are_words_are_none() -> None:
    words = "|\n" + "  [0, 1) ... [\n" * 200
    assert said(f"a: {words}b: '{'[' * 200}'\n# {'{' * 200}\n") == []


def test_a_character_that_no_file_may_hold_has_its_line() -> None:
    assert said("a: 1\nb: x\0y\n") == [
        "config.yaml:2: not valid YAML: special characters are not allowed"
    ]


def test_a_file_that_is_no_table_is_an_error() -> None:
    assert said("- a\n") == ["config.yaml:1: expected keys and values, as in config.example.yaml"]
    assert said("") == []
    assert said("# only a comment\n") == []


def test_tags_and_merge_keys_are_refused() -> None:
    assert said("a: !!python/object:os.system x\n")
    assert said("a: !env X\n") == ["config.yaml:1: a: YAML tag !env has no meaning here; remove it"]
    assert said("a: &x {b: 1}\nc:\n  <<: *x\n") == ["config.yaml:3: c: a key must be a plain word"]


def test_aliases_that_multiply_end_early() -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 12)]
    assert any("too deep or too large" in line for line in said("\n".join(lines)))


def test_an_alias_inside_itself_ends() -> None:
    assert said("a: &a\n  b: *a\n")


@given(st.text())
def test_no_text_makes_the_reader_raise(text: str) -> None:
    assert isinstance(parse(text, "x"), Source)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1", 1),
        ("true", True),
        ("[a, b]", ["a", "b"]),
        ("0.0.0.0:1", "0.0.0.0:1"),
        ("{", "{"),
        ("", None),
    ],
)
def test_an_environment_value_is_read_like_yaml(text: str, value: object) -> None:
    assert scalar(text) == value
