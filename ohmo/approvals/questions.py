"""Which open question somebody means, by plain words or by a reaction to its card. The open
questions are kept in memory by the store's hints, so that pure rooms may ask."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from typing import Literal

import structlog

from channels.contract import Address, Inbound, MessageId, Reacted
from channels.errors import Unavailable
from channels.record import record
from ohmo.approvals.cards import stands
from ohmo.contracts.outbox import Asked
from ohmo.contracts.store import Hint, Store
from ohmo.lifecycle import backoff

log = structlog.get_logger("ohmo.intake")
# seconds: a card that is on its way for longer is one that nobody can see, let alone answer
REACTION_LIMIT = 60.0

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


@record
class Shown:
    """An open question of a thread where nobody sits, and its card where a person reads it."""

    asked: Asked
    place: Address
    messages: tuple[MessageId, ...]  # what the platform calls the card; empty: not told yet

    def meant(self, said: Inbound) -> bool:
        """It was said in reply to the card, or in the thread below it."""
        return self._same_chat(said.address) and (
            said.reply_to in self.messages or said.address.topic in self.messages
        )

    def near(self, said: Inbound) -> bool:
        """It was said where the card stands. Where each call begins a thread of its own (Slack), a
        call beside the card counts."""
        here = said.address
        topic = None if here.topic == said.message else here.topic
        return self._same_chat(here) and topic == self.place.topic

    def _same_chat(self, here: Address) -> bool:
        return _chat(self.place) == _chat(here)

    def chosen(self, said: Inbound) -> str | None:
        """The choice whose label was said, as it is written on the card."""
        word = said.text.strip().casefold()
        for choice in self.asked.ask.question.choices:
            if choice.label.casefold() == word:
                return choice.label
        return None


def aimed(shown: Sequence[Shown], said: Inbound) -> Shown | None:
    """The question for words whose card ``said`` replies to, or one of whose choices it says beside
    the card."""
    free = [card for card in shown if card.asked.ask.question.kind == "question"]
    for card in free:
        if card.meant(said):
            return card
    for card in free:
        if card.near(said) and card.chosen(said) is not None:
            return card
    return None


class OpenQuestions:
    """Fresh within one read of the store after every commit that concerns approvals, and after each
    delivery while a card stands elsewhere than its question."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._asked: dict[Address, tuple[Asked, ...]] = {}
        self._shown: tuple[Shown, ...] = ()
        self._changed = asyncio.Event()
        self._changed.set()
        self._reading = False

    def at(self, place: Address) -> tuple[Asked, ...]:
        """The questions that wait in a place for an answer: one for each mind there."""
        return self._asked.get(place, ())

    def may_ask(self, place: Address) -> bool:
        """Whether the card of a permission may stand in a chat, whatever its thread; also while
        nobody knows, because a commit is not read yet."""
        if self._reading or self._changed.is_set():
            return True
        chats: set[tuple[str, str, str]] = set()
        for questions in self._asked.values():
            for asked in questions:
                if asked.ask.question.kind == "permission":
                    chats.add(_chat(asked.address))
        for card in self._shown:
            if card.asked.ask.question.kind == "permission":
                chats.add(_chat(card.place))
        return _chat(place) in chats

    def aimed(self, said: Inbound) -> Asked | None:
        """The question of a job or webhook that plain words answer."""
        card = aimed(self._shown, said)
        return card.asked if card is not None else None

    async def shown(self) -> tuple[Shown, ...]:
        """Cards that stand elsewhere than their question, as the store has them now. Raises
        Unavailable."""
        return await self._cards(await self._store.open_questions())

    async def run(self) -> None:
        """Until cancelled."""
        stop_hearing = self._store.listen(self._hear)
        self._changed.set()  # what happened while nobody listened
        try:
            while True:
                await self._changed.wait()
                self._changed.clear()
                self._reading = True
                await self.refresh()
                self._reading = False
        finally:
            stop_hearing()

    def _hear(self, hints: Sequence[Hint]) -> None:
        kinds = {hint.kind for hint in hints}
        delivered = bool(self._shown) and "state" in kinds  # the card may have its name now
        if delivered or kinds & {"approval", "any"}:
            self._changed.set()

    async def refresh(self) -> None:
        rows = await self._store.open_questions()
        by_place: dict[Address, tuple[Asked, ...]] = {}
        for asked in rows:
            if asked.state == "asked":
                by_place[asked.address] = (*by_place.get(asked.address, ()), asked)
        shown = await self._cards(rows)
        self._asked = by_place
        self._shown = shown

    async def _cards(self, rows: Sequence[Asked]) -> tuple[Shown, ...]:
        cards: list[Shown] = []
        for asked in rows:
            if asked.state != "asked" or asked.address.channel != "house":
                continue
            row = await self._store.post_row(asked.ask.id)
            if row is not None:
                receipts = [state.receipt for state in row.parts if state.receipt is not None]
                names = tuple(receipt.message for receipt in receipts)
                cards.append(Shown(asked, stands(row), names))
        return tuple(cards)


def _chat(place: Address) -> tuple[str, str, str]:
    return place.channel, place.account, place.chat


def verdict_of(emoji: str) -> Literal["allowed", "denied"] | None:
    """Allow once, deny, or nothing."""
    name = _TONE.sub("", emoji).strip(": ").casefold()
    if name in _YES:
        return "allowed"
    return "denied" if name in _NO else None


async def cards_named(store: Store, reacted: Reacted) -> None:
    """Returns when every card of the chat has its name. People may be faster than the platform's
    word on what it showed them, which a slow line or a death of ours makes late: their thumb is
    looked up when the receipt is stored, not before. A store that is away is asked again."""
    attempt = 0
    while True:
        try:
            _, nameless = await _look(store, reacted)
        except Unavailable as error:
            log.error("store_unavailable", doing="reaction lookup", error=str(error))
            nameless = True
        if not nameless:
            return
        await asyncio.sleep(backoff(attempt, first=0.1, most=2.0))
        attempt += 1


async def permission_under(store: Store, reacted: Reacted) -> Asked | None:
    """The open permission whose card was reacted to. Raises Unavailable."""
    return (await _look(store, reacted))[0]


async def _look(store: Store, reacted: Reacted) -> tuple[Asked | None, bool]:
    """The permission; and, where none was found, whether a card of this chat is on its way."""
    if verdict_of(reacted.emoji) is None:
        return None, False
    nameless = False
    for asked in await store.open_questions():
        if asked.state != "asked" or asked.ask.question.kind != "permission":
            continue
        row = await store.post_row(asked.ask.id)
        if row is None:
            continue
        place = stands(row)  # a job's card stands where its person is
        if _chat(place) != _chat(reacted.address):
            continue
        for state in row.parts:
            if state.receipt is not None and state.receipt.message == reacted.message:
                return asked, False
        nameless = nameless or row.state == "sending"
    return None, nameless
