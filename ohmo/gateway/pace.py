"""How fast one account may speak: a generic cell rate per chat and for the whole account, and every
wait the platform asked for. Pure; ``now`` is handed in."""

from __future__ import annotations

from channels.record import record


@record
class Rate:
    """``burst`` at once, then one every ``interval`` seconds. ``interval`` 0: no limit."""

    interval: float
    burst: int = 1


class Pace:
    """When the next call to a chat may go out, in the caller's seconds."""

    def __init__(self, chat: Rate, account: Rate) -> None:
        self._chat_rate = chat
        self._account_rate = account
        self._chats: dict[str, float] = {}
        self._account = 0.0
        self._blocked: dict[str, float] = {}
        self._all_blocked = 0.0

    def wait(self, chat: str, now: float) -> float:
        """Seconds until a call to ``chat`` may go out."""
        ready = max(
            _ready(self._chats.get(chat, 0.0), self._chat_rate),
            _ready(self._account, self._account_rate),
            self._blocked.get(chat, 0.0),
            self._all_blocked,
        )
        return max(0.0, ready - now)

    def take(self, chat: str, now: float) -> None:
        """A call goes out."""
        self._chats[chat] = max(now, self._chats.get(chat, 0.0)) + self._chat_rate.interval
        self._account = max(now, self._account) + self._account_rate.interval
        if len(self._chats) > 10_000:
            self._chats = {name: due for name, due in self._chats.items() if due > now}

    def block(self, chat: str, until: float, *, everywhere: bool = False) -> None:
        """The platform asked to wait for this chat, or for all of them."""
        if everywhere:
            self._all_blocked = max(self._all_blocked, until)
            return
        self._blocked = {name: due for name, due in self._blocked.items() if due > until - 3_600}
        self._blocked[chat] = until


def _ready(due: float, rate: Rate) -> float:
    return due - rate.interval * (rate.burst - 1) if rate.interval else 0.0
