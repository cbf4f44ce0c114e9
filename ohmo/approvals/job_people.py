"""For whom the threads work that nobody sits in front of: what the job of a person asks goes to
that person."""

from __future__ import annotations

from channels.contract import Address
from channels.record import record
from ohmo.contracts.inwriter import in_writer
from ohmo.contracts.outbox import Asked


@record
class JobPerson:
    """Whose job it is."""

    person: str  # CHANNEL:PERSON
    place: Address  # where that person is asked; its account is the person's


class JobPeople:
    """Kept up by whoever starts such runs."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, str], JobPerson] = {}

    def learn(self, thread: Address, whom: JobPerson) -> None:
        self._known[thread.chat, whom.person] = whom

    @in_writer
    def of(self, asked: Asked) -> JobPerson | None:
        """None: the owner is asked, or the thread has people of its own."""
        return (
            self._known.get((asked.address.chat, asked.person))
            if asked.address.channel == "house"
            else None
        )
