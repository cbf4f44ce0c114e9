"""What the store calls back inside a transaction, in its writer thread while everything else that is written waits.

So whatever stands behind these names is pure, or only reads what the event loop replaces as a whole: it never awaits, never changes anything, never
touches the loop. Such a function bears ``@in_writer``; ``tests/architecture/test_writer_thread.py`` holds both sides to it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from channels.contract import Inbound, Reacted
from ohmo.contracts.arrivals import Arrival
from ohmo.contracts.messages import UserStep
from ohmo.contracts.posts import OutRow, PostRow
from ohmo.contracts.questions import Asked
from ohmo.contracts.turns import Claim

F = TypeVar("F", bound=Callable[..., object])

Card = Callable[[Asked], PostRow]
"""Makes the card of a question; the row's id must be the question's id."""
Closing = Callable[[OutRow], PostRow]
"""Makes the row that takes the place of a draft or card whose turn or question ended otherwise."""
ToStep = Callable[[Arrival], UserStep]
"""What the model is told about an arrival."""
ToContext = Callable[[Sequence[Inbound | Reacted]], UserStep | None]
"""What it is told of words that were not said to it, oldest first. None: nothing of them."""
Collects = Callable[[Claim], bool]
"""Whether a turn of this thread takes all that waits, or the first message only."""


def in_writer(function: F) -> F:
    """Marks a function that runs in the store's writer thread."""
    return function
