"""What is known of slash commands: which words are orders of the house, and where an answer may go
that the conversation itself does not take."""

from __future__ import annotations

import time
from dataclasses import dataclass

from channels.record import Recent

LASTS = 29 * 60.0  # seconds; Slack takes answers for 30 minutes ...
USES = 5  # ... and five of them (Handling user interaction, "response_url")
KEPT = 1_000


@dataclass(slots=True)
class _Door:
    url: str
    opened: float  # monotonic seconds
    used: int = 0


class Slashes:
    """Lives as long as the adapter. The addresses are secrets of a kind and are kept in memory
    only: after a restart they would be too old soon."""

    def __init__(self, elsewhere: frozenset[str] = frozenset()) -> None:
        self.orders: frozenset[str] = frozenset()
        self._elsewhere = elsewhere
        self._doors = Recent[tuple[str, str], _Door](KEPT)

    def is_order(self, words: str) -> bool:
        """Whether ``/ohmo words`` is one of the house's commands; as long as these are unknown
        everything is. A name known from elsewhere counts alone: ``/ohmo review what I wrote`` is
        said to the agent."""
        if not self.orders or not words or words.startswith("/"):
            return True
        return words.split(maxsplit=1)[0].lower() in self.orders or words.lower() in self._elsewhere

    def note(self, chat: str, person: str, url: str) -> None:
        """The ``response_url`` of a command that ``person`` gave in ``chat``; the newest counts."""
        if url.startswith(("https://", "http://")):
            self._doors[chat, person] = _Door(url, time.monotonic())

    def take(self, chat: str, person: str | None = None) -> str | None:
        """One use of the newest address in ``chat`` (of ``person``); None: there is none, or it is
        spent."""
        for (where, who), door in reversed(self._doors.items()):
            if (
                where == chat
                and person in (None, who)
                and time.monotonic() - door.opened < LASTS
                and door.used < USES
            ):
                door.used += 1
                return door.url
        return None
