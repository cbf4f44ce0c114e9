"""Durations, sizes, flags, folders."""

from __future__ import annotations

import importlib
import pkgutil
from datetime import timedelta
from pathlib import Path

import pytest

import ohmo.tools
from ohmo.config.values import Expansion, duration, flag, size, tool_names

KNOWN = Expansion({"OHMO_HOME": "/h/.ohmo", "WORKSPACE": "/w", "HOME": "/h"})


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("30m", 1800),
        ("24h", 86400),
        ("1h30m", 5400),
        ("250ms", 0.25),
        ("1.5s", 1.5),
        ("7d", 604800),
        ("2w", 1209600),
        (90, 90),
        (0.5, 0.5),
    ],
)
def test_a_duration_is_read(text: object, seconds: float) -> None:
    assert duration(text) == timedelta(seconds=seconds)


@pytest.mark.parametrize(
    "text",
    ["", "5", "5x", "m5", "5m x", True, -1, None, [], "1h 30", 1e300, float("nan"), "99999999999w"],
)
def test_what_is_no_duration_says_how_one_looks(text: object) -> None:
    with pytest.raises(ValueError, match="expected a duration such as 30s"):
        duration(text)


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("12KiB", 12288),
        ("2GiB", 2 << 30),
        ("50kB", 50_000),
        (7, 7),
        ("10 MiB", 10 << 20),
        ("1.5KiB", 1536),
        ("9b", 9),
    ],
)
def test_a_size_is_read(text: object, count: int) -> None:
    assert size(text) == count


@pytest.mark.parametrize("text", ["", "KiB", "12QiB", -1, True, None, 1.5])
def test_what_is_no_size_says_how_one_looks(text: object) -> None:
    with pytest.raises(ValueError, match="expected a size such as 12KiB"):
        size(text)


def test_flags_take_the_words_people_write() -> None:
    assert [flag(word) for word in ("yes", "On", "no", "OFF", True, "maybe", 1)] == [
        True,
        True,
        False,
        False,
        True,
        "maybe",
        1,
    ]


def test_only_three_names_expand() -> None:
    assert KNOWN.text("Read(${WORKSPACE}/** and ${HOME})") == "Read(/w/** and /h)"
    for text in ("${PATH}", "${HOME", "${}"):
        with pytest.raises(ValueError, match="means nothing here"):
            KNOWN.text(text)
    assert KNOWN.text("$HOME $5") == "$HOME $5"


def test_a_path_is_absolute() -> None:
    assert KNOWN.path("~/x") == Path("/h/x")
    assert KNOWN.path("${OHMO_HOME}/y") == Path("/h/.ohmo/y")
    with pytest.raises(ValueError, match="absolute"):
        KNOWN.path("x/y")


def test_every_tool_of_the_house_may_stand_in_a_rule() -> None:
    found = [
        importlib.import_module(f"ohmo.tools.{info.name}")
        for info in pkgutil.iter_modules(ohmo.tools.__path__)
        if not info.ispkg
    ]
    names = {module.TOOL.name for module in found if hasattr(module, "TOOL")}
    assert len(names) >= 9
    assert names == set(tool_names()) - {"WebSearch"}
