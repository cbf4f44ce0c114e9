"""What is wrong with the order of the links around a call of a model (``chain``)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol, cast

from ohmo.config.agent import CHAIN
from ohmo.config.problems import unknown_name
from ohmo.config.source import Problem, Source
from ohmo.discovery import scan


class LinkRules(Protocol):
    """What a link's own file says of its place."""

    @property
    def after(self) -> tuple[str, ...]: ...
    @property
    def required(self) -> bool: ...


def chain_problems(chain: Sequence[str], source: Source) -> Iterator[Problem]:
    """Looks at the links themselves when they stand otherwise than usual."""
    if chain == CHAIN:
        return
    known = cast("dict[str, LinkRules]", scan("ohmo.providers.middleware", "LINK"))
    for number, name in enumerate(chain):
        text = ""
        before = chain[:number]
        if name not in known:
            text = unknown_name("link", name, [*known])
        elif name in before:
            text = f"{name} stands here twice; remove one"
        elif later := [each for each in known[name].after if each in set(chain).difference(before)]:
            text = f"{name} must stand behind {', '.join(later)}; move it down"
        if text:
            yield source.problem(("chain", number), text)
    for name, link in known.items():
        if link.required and name not in chain:
            usual = ", ".join(CHAIN)
            text = f"{name} is missing and cannot be left out; the usual order is [{usual}]"
            yield source.problem(("chain",), text)
