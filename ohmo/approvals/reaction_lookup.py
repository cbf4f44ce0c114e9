"""What a reaction to a card means, and which question the card asks, also when nobody knows yet
what the platform calls the card."""

from __future__ import annotations

import asyncio
import re
from typing import Literal

import structlog

from channels.contract import Reacted
from channels.errors import Unavailable
from ohmo.approvals.cards import stands
from ohmo.contracts.outbox import Asked
from ohmo.contracts.store import Store
from ohmo.lifecycle import backoff

log = structlog.get_logger("ohmo.intake")
# seconds: a card that is on its way for longer is one that nobody can see, let alone answer
PATIENCE = 60.0

# Slack names emoji, with "::skin-tone-2" behind; Feishu has names of its own; the others send the
# character.
_YES = frozenset(
    {"👍", "✅", "✔", "☑", "+1", "thumbsup", "white_check_mark", "heavy_check_mark", "checkmark"}
)
_NO = frozenset(
    {
        "👎",
        "❌",
        "✖",
        "🚫",
        "-1",
        "thumbsdown",
        "x",
        "heavy_multiplication_x",
        "crossmark",
        "cross_mark",
        "no_entry_sign",
    }
)
_TONE = re.compile("[\U0001f3fb-\U0001f3ff\ufe0e\ufe0f]|::skin-tone-[2-6]")


def verdict_of(emoji: str) -> Literal["allowed", "denied"] | None:
    """Allow once, deny, or nothing."""
    name = _TONE.sub("", emoji).strip(": ").casefold()
    if name in _YES:
        return "allowed"
    return "denied" if name in _NO else None


async def named(store: Store, reacted: Reacted) -> None:
    """Returns when every card of the chat has its name. People may be faster than the platform's
    word on what it showed them, which a slow line or a death of ours makes late: their thumb is
    looked up when the receipt is stored, not before. A store that is away is asked again."""
    attempt = 0
    while await _nameless(store, reacted):
        await asyncio.sleep(backoff(attempt, first=0.1, most=2.0))
        attempt += 1


async def under(store: Store, reacted: Reacted) -> Asked | None:
    """The open permission whose card was reacted to. Raises Unavailable."""
    return (await _look(store, reacted))[0]


async def _nameless(store: Store, reacted: Reacted) -> bool:
    try:
        return (await _look(store, reacted))[1]
    except Unavailable as error:
        log.error("store_unavailable", doing="reaction lookup", error=str(error))
        return True


async def _look(store: Store, reacted: Reacted) -> tuple[Asked | None, bool]:
    """The permission; and, where none was found, whether a card of this chat is on its way."""
    if verdict_of(reacted.emoji) is None:
        return None, False
    here = (reacted.address.channel, reacted.address.account, reacted.address.chat)
    nameless = False
    for asked in await store.open_questions():
        if asked.state != "asked" or asked.ask.question.kind != "permission":
            continue
        row = await store.post_row(asked.ask.id)
        if row is None:
            continue
        place = stands(row)  # a job's card stands where its person is
        if (place.channel, place.account, place.chat) != here:
            continue
        if any(
            state.receipt is not None and state.receipt.message == reacted.message
            for state in row.parts
        ):
            return asked, False
        nameless = nameless or row.state == "sending"
    return None, nameless
