"""A second ohmo on the same bot: Discord gives every event to both and tells neither, so both
answer, and each sees what the other one says.

Source: Gateway, "Sharding" (several sessions of one token are allowed); Create Message, ``nonce``:
"Value will appear in the Message Create event"."""

from __future__ import annotations

from dataclasses import dataclass

from channels.competing_instance import CompetingInstance
from channels.discord.failures import object_of
from channels.discord.inbound import chat_of, id_of, moment
from channels.discord.memory import number_of
from channels.payloads import Body
from channels.record import Recent

PLACES = 1_000  # in which somebody spoke last
SOON = (
    30_000 << 22
)  # milliseconds, as messages are numbered: so long after one answer the other one's is waited for
_WHAT = "Discord: another ohmo answers with this token"


@dataclass(slots=True)
class _Round:
    """What was answered since somebody spoke in a place: the first post of each, 0: none."""

    ours: int = 0
    theirs: int = 0
    row: str = ""  # of the other one

    def waits(self, number: int) -> bool:
        """Whether one has answered a short while before the message of this number, and the other
        one has not yet."""
        return (
            not (self.ours and self.theirs)
            and 0 < number - (self.ours or self.theirs or number) < SOON
        )


class Doubles:
    """Of one connection. Where both answered, the one whose answer came second has lost: who lost
    most of three leaves, so of two only one does."""

    def __init__(self, competing: CompetingInstance, account: str) -> None:
        self._competing = competing
        self._account = account
        self._rounds = Recent[str, _Round](PLACES)

    def live(self, data: Body) -> None:
        """MESSAGE_CREATE, in the order of the gateway. Raises InUse."""
        chat, number = chat_of(data), number_of(id_of(data.get("id")))
        if not chat or number is None:
            return
        if not self._is_ours(data):
            before = self._rounds.pop(chat, None)
            self._rounds[chat] = before if before is not None and before.waits(number) else _Round()
        elif (here := self._rounds.get(chat)) is not None or self._competing.rested is not None:
            self._judge(here or _Round(), data.get("nonce"), number)

    def _judge(self, here: _Round, nonce: object, number: int) -> None:
        if here.ours and here.theirs:
            return
        if self._competing.sent(nonce):
            here.ours = here.ours or number
        elif self._competing.said(nonce, moment(str(number))):
            here.theirs, here.row = here.theirs or number, here.row or str(nonce).partition(".")[0]
            if self._competing.rested is not None:
                self._competing.conflict(_WHAT)
        if here.ours and here.theirs:
            self._competing.conflict(_WHAT, here.row, lost=here.theirs < here.ours)

    def missed(self, row: Body) -> None:
        """A row of history, which has no nonce: after a stop, what our account said while we were
        silent; a script may have. Raises InUse."""
        number = number_of(id_of(row.get("id")))
        if (
            number is not None
            and self._is_ours(row)
            and self._competing.silent_at(moment(str(number)))
        ):
            self._competing.conflict(_WHAT, sure=False)

    def _is_ours(self, row: Body) -> bool:
        return object_of(row.get("author")).get("id") == self._account
