"""What the gateway and sessions may look up in the store while they work."""

from __future__ import annotations

from typing import Protocol

from channels.record import record
from ohmo.contracts.messages import Step
from ohmo.contracts.posts import OutRow


@record
class TurnCost:
    """What an open turn did so far: its ``steps``, ``input`` and ``output`` tokens, ``seconds``
    since it began."""

    steps: tuple[Step, ...]
    input: int
    output: int
    seconds: float


class Looking(Protocol):
    """Part of ``Store``. Reads only; raises Unavailable."""

    async def turn_cost(self, thread: str, turn: str) -> TurnCost:
        """Of a turn that is still open, over all its runs."""
        ...

    async def drafted(self, turn: str) -> OutRow | None:
        """The draft of a turn that its end will take the place of."""
        ...

    async def post_row(self, id: str) -> OutRow | None:
        """One row of the outbox, whatever its state; None: there is none."""
        ...
