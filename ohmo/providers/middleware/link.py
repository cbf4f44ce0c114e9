"""What a link of the chain is made from, and what its file says of it."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import field
from functools import partial

from channels.record import record
from ohmo.ambient import NewId
from ohmo.contracts.provider import Call, Link, ModelEvent, ModelRequest
from ohmo.providers.models import Endpoint, Price, weak


@record
class Alternative:
    """A model that may be asked."""

    call: Call
    name: str  # as a person reads it
    model: str | None = None  # None: the model the request names


@record
class Patience:
    """How long and how often something is tried. An endpoint's own Retry-After goes first."""

    tries: int = 4  # calls in all
    #: Seconds after the first answer or failed try in which new tries begin.
    deadline: float = 600.0
    #: Seconds before the second try; doubled for each further one, with jitter from half to all.
    first: float = 1.0
    tell_from: float = 3.0  # shorter waits are not worth a line to the person
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    clock: Callable[[], float] = time.monotonic
    jitter: Callable[[], float] = random.random


def through(request: ModelRequest, ask: Call) -> AsyncIterator[ModelEvent]:
    """The link that changes nothing."""
    return ask(request)


@record
class LinkParts:
    """What links are made from."""

    endpoint: Endpoint  # the one it stands before; outside of ``fallback``: the first
    new_id: NewId
    patience: Patience
    #: By the model's name as a profile writes it, with or without its maker.
    pricing: Mapping[str, Price] = field(default_factory=dict[str, Price])
    budget: Link = through  # what ``budget`` is
    #: Reckons what a request takes, rather too many.
    tokens: Callable[[ModelRequest], int] = lambda _: 0
    others: Sequence[Alternative] = ()  # for ``fallback``: those after the first, in order

    def helped(self, model: str) -> bool:
        """Whether the model gets the help that weak ones need."""
        return weak(self.endpoint, model)


@record
class LinkManifest:
    """Exported as ``LINK`` by every file that is a link."""

    name: str  # as ``chain`` names it
    make: Callable[[LinkParts], Link]
    after: tuple[str, ...] = ()  # links that must stand before it in the list, if they are in it
    required: bool = False  # a chain without it is refused


def linked(links: Sequence[Link], call: Call) -> Call:
    """``links``: the outermost first."""
    for link in reversed(links):
        call = partial(link, ask=call)
    return call
