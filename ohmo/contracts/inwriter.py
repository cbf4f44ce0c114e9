"""What the store calls back inside a transaction, in its writer thread while everything else that
is written waits.

So whatever stands behind these names is pure, or only reads what the event loop replaces as a
whole: it never awaits, never changes anything, never touches the loop. Such a function bears
``@in_writer``; ``tests/architecture/test_writer_thread.py`` holds both sides to it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from channels.contract import Inbound, Reacted
from channels.record import record
from ohmo.contracts.arrivals import Arrival
from ohmo.contracts.messages import Step, UserStep
from ohmo.contracts.outbox import Asked, OutRow, PostRow
from ohmo.contracts.tool import BegunUnder
from ohmo.contracts.turns import Claim

F = TypeVar("F", bound=Callable[..., object])


@record
class Remains:
    """Of a turn that is cut off: the steps nobody has written yet, and what is said where no draft
    stands that shows it already."""

    steps: tuple[Step, ...] = ()
    post: PostRow | None = None


Card = Callable[[Asked], PostRow]
"""Makes the card of a question; the row's id must be the question's id."""
Closing = Callable[[OutRow], PostRow]
"""Makes the row that takes the place of a draft or card whose turn or question ended otherwise."""
ToStep = Callable[[Arrival], UserStep]
"""What the model is told about an arrival."""
ToContext = Callable[[Claim, Sequence[Inbound | Reacted]], Sequence[UserStep]]
"""What stands before the words of a turn of this thread: how things stand, and words that were not
said to it, oldest first."""
Begins = Callable[[Arrival], BegunUnder]
"""What holds for a turn that begins with an arrival now."""
Rest = Callable[[str], Remains]
"""What remains of the turn of this id, as far as it runs here."""
Collects = Callable[[Claim], bool]
"""Whether a turn of this thread takes all that waits, or the first message only."""


def in_writer(function: F) -> F:
    """Marks a function that runs in the store's writer thread."""
    return function


@in_writer
def no_rest(turn: str) -> Remains:  # noqa: ARG001 - of no turn anything is known
    return Remains()
