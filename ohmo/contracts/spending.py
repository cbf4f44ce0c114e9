"""What was spent on calls of models, and by whom it is borne."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, Protocol

from channels.record import record
from ohmo.contracts.messages import Usage
from ohmo.contracts.provider import Payer

#: Whose budget bears a call: a turn, a conversation; of this UTC day a person, a job, everybody.
Scope = Literal["turn", "thread", "person", "job", "day"]


@record
class Total:
    """What was spent so far: tokens of both directions, and millionths of a US dollar as far as
    prices are known."""

    tokens: int = 0
    micro_usd: int = 0


class Books(Protocol):
    """What calls of models cost, and whose budgets bear it."""

    async def spend(self, payer: Payer, usage: Usage) -> None:
        """Of a call whose answer is no step of a turn: its row, and the totals of everybody the
        payer names, in one transaction."""
        ...

    async def spent(self, payer: Payer) -> Mapping[Scope, Total]:
        """The totals of everybody the payer names, and of the day; of days: of this UTC day."""
        ...
