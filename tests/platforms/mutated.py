"""Events of a shape nobody foresaw: a good one with a few of its values replaced or taken out."""

from __future__ import annotations

import copy
import random
from collections.abc import Iterator
from typing import Any

WRONG: tuple[Any, ...] = (
    None,
    5,
    -1,
    1.5,
    True,
    "",
    "x",
    "half a character \ud800",
    "9" * 40,
    10**30,
    "[",
    [],
    [1],
    [None],
    ["a"],
    [[[]]],
    {},
    {"a": 1},
    {"id": {}},
)


def mutated(chance: random.Random, good: Any) -> Any:
    body = copy.deepcopy(good)
    for _ in range(chance.choice((1, 1, 2, 4))):
        place, name = chance.choice(list(_places(body)) or [({}, "")])
        if isinstance(place, dict) and chance.random() < 0.25:
            place.pop(name, None)
        else:
            place[name] = copy.deepcopy(chance.choice(WRONG))
    return body


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    names = (
        list(value)
        if isinstance(value, dict)
        else range(len(value))
        if isinstance(value, list)
        else ()
    )
    for name in names:
        yield value, name
        yield from _places(value[name])
