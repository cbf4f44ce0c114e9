"""What a channel may fail with; the class tells whoever catches it what to do next. And which of
several failures is told when works ran side by side.

- ChannelError
    - AuthFailed: stop this account, tell the owner, probe at most every 5 minutes
        - InUse: the same, because somebody else is connected with our credentials
    - NotReady: reconnect after 1 s, 2 s, … 15 s for ten minutes, then after a minute
    - RateLimited: wait ``retry_after`` seconds, then the same part again
    - Rejected: this part will never be accepted as it is: fall back to plain text once, then dead
      letter
    - Ambiguous: the part may or may not have been delivered: key, look-up or mark, by
      Capabilities.repeat
- Unavailable: raised by publish(): nothing was stored, so nothing may be acknowledged
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Iterable, Iterator
from typing import Any, TypeVar, cast


class ChannelError(Exception):
    """A channel failed."""


class AuthFailed(ChannelError):
    """The platform does not accept the credentials."""


class InUse(AuthFailed):
    """Somebody else is connected with our credentials; what is to be said waits until they are
    gone."""


class NotReady(ChannelError):
    """The platform cannot be reached, or is not ready."""


class RateLimited(ChannelError):
    """The platform asks us to wait.

    ``retry_after``: seconds. ``everywhere``: the wait holds for the whole account (Discord's global
    limit, Telegram's flood of all chats), not for one chat alone.
    """

    def __init__(self, retry_after: float, *, everywhere: bool = False) -> None:
        super().__init__(f"rate limited for {retry_after:.1f} s")
        self.retry_after = retry_after
        self.everywhere = everywhere


class Rejected(ChannelError):
    """The platform will never accept this part as it is."""


class Ambiguous(ChannelError):
    """The part may or may not have been delivered."""


class Unavailable(Exception):
    """Nothing was stored; ask the platform again later."""


E_co = TypeVar("E_co", bound=BaseException, covariant=True)


async def finish_all(works: Iterable[Awaitable[Any]]) -> None:
    """All of them, to the end of each; then the first failure is raised."""
    for result in await asyncio.gather(*works, return_exceptions=True):
        if isinstance(result, BaseException):
            raise result


def main_error(group: BaseExceptionGroup[E_co], *kinds: type[BaseException]) -> E_co:
    """What really failed inside task groups: the first failure of the first of these kinds that
    occurs, else the first of all."""
    leaves = list(_leaves(group))
    for kind in kinds:
        for leaf in leaves:
            if isinstance(leaf, kind):
                return leaf
    return leaves[0]


def _leaves(group: BaseExceptionGroup[E_co]) -> Iterator[E_co]:
    for error in group.exceptions:
        if isinstance(error, BaseExceptionGroup):
            yield from _leaves(cast("BaseExceptionGroup[E_co]", error))
        else:
            yield error
