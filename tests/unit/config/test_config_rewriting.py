"""One key of a file changes, and every other line stays as its owner wrote it."""

from __future__ import annotations

import functools
from pathlib import Path

import pytest
from ruamel.yaml import YAML, Node

from ohmo.config import rewriting
from ohmo.config.rewriting import CannotRewrite, Keys, rewritten
from ohmo.config.source import Plain, Source, parse

EXAMPLE = (Path(__file__).parents[3] / "config.example.yaml").read_text(encoding="utf-8")
MINE = """\
# mine
profiles:
  default:
    provider: auto  # look around

    # an endpoint
    base_url: null
# channels, with care
channels:
  telegram:
    enabled: false   # later

  slack:
  # nothing yet
owner:
  - slack:U1   # me
  - "matrix:@a:b"  # other
  # end of owners
access: {roles: {admin: [slack:U2]}, default_role: user}
"""


@pytest.mark.parametrize(
    ("keys", "value", "before", "after"),
    [
        (
            ("profiles", "default", "provider"),
            "openai",
            "provider: auto  # look",
            "provider: openai  # look",
        ),
        (
            ("profiles", "default", "base_url"),
            "http://x/v1",
            "base_url: null",
            'base_url: "http://x/v1"',
        ),
        (
            ("profiles", "default", "api_key"),
            "env:K",
            "    base_url: null\n",
            "    base_url: null\n    api_key: env:K\n",
        ),
        (
            ("channels", "telegram", "token"),
            "env:T",
            "   # later\n",
            "   # later\n    token: env:T\n",
        ),
        (("channels", "slack", "enabled"), True, "  slack:\n", "  slack:\n    enabled: true\n"),
        (
            ("channels", "matrix", "enabled"),
            True,
            "  slack:\n",
            "  slack:\n  matrix:\n    enabled: true\n",
        ),
        (("owner",), ["slack:U1", "a:b"], '  - "matrix:@a:b"  # other\n', '  - "a:b"\n'),
        (("owner",), ["matrix:@a:b"], "  - slack:U1   # me\n", ""),
        (("access", "roles", "guest"), ["a:b"], "[slack:U2]", '[slack:U2], guest: ["a:b"]'),
        (("access", "default_role"), "guest", "role: user", "role: guest"),
        (
            ("permissions", "preset"),
            "safe",
            "default_role: user}\n",
            "default_role: user}\npermissions:\n  preset: safe\n",
        ),
    ],
)
def test_only_what_was_meant_is_different(
    keys: Keys, value: Plain, before: str, after: str
) -> None:
    assert rewritten(MINE, {keys: value}) == MINE.replace(before, after)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "# only words\n",
        "{}\n",
        '{"a": 1}',
        "channels:",
        "channels:\n  x: |\n    text\n  \nz: 1",
        "a: 1\r\nb:\r\n  c: 1\r\n",
    ],
)
def test_a_key_is_added_wherever_the_file_ends(text: str) -> None:
    after = rewritten(text, {("channels", "y", "enabled"): True})
    found = parse(after, "config.yaml").data["channels"]
    assert isinstance(found, dict)
    assert found["y"] == {"enabled": True}
    assert after.count("\r\n") == after.count("\n") or "\r" not in text


def leaves(table: dict[str, Plain], above: Keys = ()) -> list[Keys]:
    found: list[Keys] = []
    for name, value in table.items():
        found += (
            leaves(value, (*above, name)) if isinstance(value, dict) and value else [(*above, name)]
        )
    return found


@functools.cache
def example() -> Source:
    return parse(EXAMPLE, "config.yaml")


def parse_of_the_example(text: str, name: str) -> Source:
    """As ``parse``; the same text is read once, not for every key."""
    return example() if text == EXAMPLE else parse(text, name)


@functools.cache
def tree_of_the_example() -> Node:
    return YAML(typ="safe", pure=True).compose(EXAMPLE)


class Composer:
    """As ``YAML``; the same text is composed once, not for every key."""

    def __init__(self, **_: object) -> None: ...

    def compose(self, text: str) -> Node:
        assert text == EXAMPLE
        return tree_of_the_example()


@pytest.mark.parametrize("keys", leaves(example().data), ids=".".join)
@pytest.mark.parametrize("value", ["a: strange #value", ["one", "two"], None, 7])
def test_every_key_of_the_example_can_be_changed_and_back_no_other_line_does(
    keys: Keys, value: Plain, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rewriting, "parse", parse_of_the_example)
    monkeypatch.setattr(rewriting, "YAML", Composer)
    after = rewritten(EXAMPLE, {keys: value})
    before, now = EXAMPLE.splitlines(), after.splitlines()
    kept = set(now)
    assert len([line for line in before if line not in kept]) <= max(1, len(before) - len(now) + 1)


@pytest.mark.parametrize("text", ["a: &x {b: 1}\nc: *x\n", "c: word\n", "- one\n", "c: {b: 1\n"])
def test_what_only_its_owner_can_change_is_refused_in_one_line(text: str) -> None:
    with pytest.raises(CannotRewrite) as refused:
        rewritten(text, {("c", "b"): 2})
    assert "\n" not in str(refused.value)
