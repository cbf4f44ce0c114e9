"""``chain``: every mistake in the order of the links is one line with its place in the file, at
load; any order their own rules allow is taken."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest

from ohmo.config.agent import CHAIN
from ohmo.config.chain import chain_problems
from ohmo.config.load import load
from ohmo.config.source import read
from ohmo.contracts.errors import ConfigError
from ohmo.discovery import scan
from ohmo.providers.build import links

USUAL: list[str] = list(CHAIN)
WHOLE = ", ".join(CHAIN)


def problems(home: Path, chain: list[str]) -> list[str]:
    lines = "".join(f"  - {name}\n" for name in chain) or "  []\n"
    file = home / "config.yaml"
    file.write_text(f"# mine\nchain:\n{lines}", encoding="utf-8")
    file.chmod(0o600)
    try:
        found = load(environ={"OHMO_HOME": str(home), "HOME": "/home/ada"})
    except ConfigError as error:
        return str(error).split("\n")
    assert found.written.chain == tuple(chain)
    return []


def without(*names: str) -> list[str]:
    return [name for name in USUAL if name not in names]


def swapped(one: str, other: str) -> list[str]:
    places = {one: other, other: one}
    return [places.get(name, name) for name in USUAL]


def test_the_usual_order_names_every_link_and_keeps_their_rules(home: Path) -> None:
    assert set(links(scan)) == set(CHAIN)
    found = links(scan)
    for number, name in enumerate(CHAIN):
        assert not set(found[name].after) & set(CHAIN[number:])
        assert set(found[name].after) <= set(CHAIN)
    assert problems(home, USUAL) == []


@pytest.mark.parametrize(
    ("chain", "line", "text"),
    [
        (swapped("retry", "repair"), 6, "chain[3]: repair must stand behind retry; move it down"),
        (
            [*without("rate")[:3], "rate", *without("rate")[3:]],
            6,
            "chain[3]: rate must stand behind retry, repair, budget, unprefixed; move it down",
        ),
        (swapped("budget", "priced"), 9, "chain[6]: priced must stand behind budget; move it down"),
        ([*USUAL, "hints"], 13, "chain[10]: hints stands here twice; remove one"),
        (["wating", *USUAL[1:]], 3, "chain[0]: there is no link 'wating', did you mean waiting?"),
        (
            without("budget"),
            2,
            f"chain: budget is missing and cannot be left out; the usual order is [{WHOLE}]",
        ),
    ],
)
def test_each_mistake_is_one_line(home: Path, chain: list[str], line: int, text: str) -> None:
    (found,) = problems(home, chain)
    assert found == f"config.yaml:{line}: {text}"


def test_nothing_is_missed_in_an_empty_chain(home: Path) -> None:
    missing = [line.split(": chain: ")[1].split()[0] for line in problems(home, [])]
    assert sorted(missing) == sorted(name for name, link in links(scan).items() if link.required)


@pytest.mark.parametrize("left_out", ["waiting", "tiers", "retry", "hints", "unprefixed", "rate"])
def test_what_is_not_required_may_be_left_out(home: Path, left_out: str) -> None:
    assert problems(home, without(left_out)) == []


def test_an_order_is_taken_exactly_when_every_link_stands_behind_those_it_names(home: Path) -> None:
    found = links(scan)
    source = read(home / "nothing.yaml", "chain: []\n")
    taken = 0
    for start in itertools.permutations(CHAIN[:6]):
        order = (*start, *CHAIN[6:])
        keeps = all(
            not set(found[name].after) & set(order[number:]) for number, name in enumerate(order)
        )
        taken += keeps
        assert (not list(chain_problems(order, source))) == keeps
    assert 1 < taken < 720
