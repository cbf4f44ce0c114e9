"""A typed line becomes a message, or the answer to a numbered question; pure."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from channels.contract import Address, Answer, ChatId, Inbound, MessageId, Person, PersonId
from channels.payloads import clean

ACCOUNT = "local"
PLACE = Address("console", ACCOUNT, ChatId("terminal"))
TYPIST = Person(PersonId("owner"), "owner")


def heard(
    line: str, at: datetime, order: str, asked: tuple[MessageId, Sequence[str]] | None
) -> Inbound | Answer | None:
    """None: nothing was said. ``order`` names the line, too. ``asked``: the newest message with
    choices and their values; a line that is the number of one of them chooses it."""
    text = clean(line).strip()
    if not text:
        return None
    if (
        asked is not None
        and text.isascii()
        and text.isdigit()
        and 1 <= int(text[:6]) <= len(asked[1])
    ):
        message, values = asked
        return Answer(
            key=order,
            address=PLACE,
            person=TYPIST,
            at=at,
            order=order,
            message=message,
            choice=values[int(text) - 1],
            token=order,
        )
    return Inbound(
        key=order,
        address=PLACE,
        person=TYPIST,
        at=at,
        order=order,
        message=MessageId(order),
        text=text,
        private=True,
        addressed=True,
    )
