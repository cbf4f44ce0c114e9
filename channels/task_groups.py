"""Works that run side by side, and the one failure that is told when several of them fail."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Iterable, Iterator
from typing import Any, TypeVar, cast

E_co = TypeVar("E_co", bound=BaseException, covariant=True)


async def finish_all(works: Iterable[Awaitable[Any]]) -> None:
    """All of them, to the end of each; then the first failure is raised."""
    results = await asyncio.gather(*works, return_exceptions=True)
    for result in results:
        if isinstance(result, BaseException):
            raise result


def main_error(group: BaseExceptionGroup[E_co], *kinds: type[BaseException]) -> E_co:
    """What really failed inside task groups: the first failure of the first of these kinds that
    occurs, else the first of all."""
    leaves = list(_leaves(group))
    return next((leaf for kind in kinds for leaf in leaves if isinstance(leaf, kind)), leaves[0])


def _leaves(group: BaseExceptionGroup[E_co]) -> Iterator[E_co]:
    for one in group.exceptions:
        if isinstance(one, BaseExceptionGroup):
            yield from _leaves(cast("BaseExceptionGroup[E_co]", one))
        else:
            yield one
