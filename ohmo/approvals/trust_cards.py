"""Cards that ask the owner whether something that is there now may take part: each is about exactly
one content and asked once, settled by an answer or as soon as the content is another."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import structlog

from channels.contract import Address, Inbound, MessageId
from channels.durable import replacing
from channels.record import Recent
from channels.text import code_span, literal
from ohmo.ambient import NewId, derived
from ohmo.approvals.cards import closing, shown_after, stands
from ohmo.approvals.trust_wording import (
    GONE,
    MEANWHILE,
    Card,
    active,
    left_off,
    roams,
    titled,
    together,
    trusted_before,
)
from ohmo.approvals.trusting import NothingToTrust, TrustDesk
from ohmo.content import cut, one_line
from ohmo.contracts.agent import Event, TurnStarted
from ohmo.contracts.outbox import OutRow
from ohmo.contracts.store import Store
from ohmo.contracts.trust import Candidate, Kind, Trust
from ohmo.lifecycle import failure_of, follow, within

log = structlog.get_logger("ohmo.trust")
MOST = 6  # cards that are open at once; what else waits is asked as they are answered
_EVERY = 2.0  # seconds between two looks at what belongs to no project
_AGAIN = 10.0  # seconds between two at what is asked already
_KNOWN = 64  # names, and folders, of which is known when they were asked for
_PAUSE = 0.5  # seconds in which turns that begin are looked at together
OFTEN = 600.0  # seconds in which what nobody answers is asked once, whatever it changes to
_LONGEST = 3_000  # characters of what one may do
SETTLED = "This is settled already."
Listen = Callable[[], AbstractContextManager[AsyncIterator[tuple[str, Event]]]]


class Places(Protocol):
    """Where cards are seen."""

    def owner(self) -> Address | None:
        """Where the owner reads; None: none of their chats is connected yet."""
        ...

    def decides(self, place: Address, person: str) -> bool:
        """Whether ``CHANNEL:PERSON`` may answer there: the card can stand beside what they say."""
        ...

    async def folder(self, thread: str) -> Path:
        """In which its turns work. Raises StoreError."""
        ...

    async def tell(self, incident: str, text: str) -> object:
        """The owner, of what found no place on a card."""
        ...


class TrustCards:
    """``kept``: the file of the open ones. ``workspace``: where what belongs to no project is
    looked for. ``redact``: takes secrets out of what is said of it."""

    def __init__(
        self,
        desk: TrustDesk,
        store: Store,
        places: Places,
        kept: Path,
        *,
        workspace: Path,
        new_id: NewId,
        redact: Callable[[str], str],
    ) -> None:
        self.desk = desk
        self._store = store
        self._places = places
        self._kept = kept
        self._workspace = workspace
        self._new_id = new_id
        self._redact = redact
        self._open: dict[str, Card] | None = None  # None: not read yet in this life
        self._told: set[str] = set()  # whose rows are known to be there
        self._alone = asyncio.Lock()
        self._begun: dict[str, TurnStarted] = {}  # by thread, until it is looked at
        self._heard = asyncio.Event()
        self._seen: object = None
        self._looked = 0.0
        self._asked = Recent[tuple[Kind, str], float](_KNOWN)  # when, while nobody answered
        self._behind = Recent[tuple[Path, bool], Address](_KNOWN)  # looks that found no place

    def plain(self, text: str) -> str:
        """What others wrote, on one line and without secrets."""
        return one_line(self._redact(text))

    def facts(self, one: Candidate) -> str:
        """Where it is, what it may do and which content that is: a list in CommonMark."""
        may, where = cut(self.plain(one.may), _LONGEST), code_span(self.plain(one.where))
        return f"- where: {where}\n- it {literal(may)}\n- content `{one.digest[:12]}`"

    def hear(self, thread: str, event: Event) -> None:
        """From a running turn."""
        if isinstance(event, TurnStarted):
            self._begun[thread] = event
            self._heard.set()

    async def run(self, listen: Listen) -> None:
        """Until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(follow("trust", listen, self.hear), name="trust.turns")
            while True:
                with suppress(TimeoutError):
                    await within(_EVERY, self._heard.wait())
                self._heard.clear()
                begun, self._begun = self._begun, {}
                looks = [partial(self._at, *each) for each in begun.items()]
                for look in (*looks, self._around):
                    error = await failure_of(look())
                    if error is not None:  # whatever lies in those folders stops nobody
                        log.warning("trust_cards", error=f"{type(error).__name__}: {error}")
                await asyncio.sleep(_PAUSE)

    async def _at(self, thread: str, began: TurnStarted) -> None:
        """A conversation works in a folder."""
        place = began.address
        if place is None or not self._places.decides(place, began.person):
            place = self._places.owner()
        await self.look(await self._places.folder(thread), place)

    async def _around(self) -> None:
        """Plugins, and tools of servers, that are others than before; and what is asked already,
        which may be another by now."""
        seen, place = self.desk.around(), self._places.owner()
        if seen != self._seen and place is not None:
            await self.look(self._workspace, place, everything=False)
            self._seen = seen
        now = time.monotonic()
        if now - self._looked >= _AGAIN:
            self._looked = now
            for folder, card in {one.folder: one for one in (await self._cards()).values()}.items():
                row = await self._store.post_row(card.id)
                await self.look(Path(folder), place if row is None else stands(row))
            behind = list(self._behind.items())
            self._behind.clear()
            for (where, everything), chat in behind:
                await self.look(where, chat, everything=everything)

    async def look(self, folder: Path, place: Address | None, *, everything: bool = True) -> None:
        """Asks in ``place`` for what is new there, and settles what is not as it was shown.
        ``everything``: also what belongs to the folder. Raises StoreError, Unavailable, OSError."""
        async with self._alone:
            await self._look(folder, place, everything=everything)

    async def _look(self, folder: Path, place: Address | None, *, everything: bool) -> None:
        waiting = [one for one in await self.desk.waiting(folder) if not one.broken]
        rows = await self.desk.trusts()
        cards = await self._cards()
        there = {(one.kind, one.name, one.digest) for one in waiting}
        for card in list(cards.values()):
            row = await self._store.post_row(card.id)
            if card.id in self._told if row is None else row.state in ("dead", "dropped"):
                cards.pop(card.id)  # nobody can answer it: asked anew
                await self._keep()
                continue
            here = card.folder == str(folder) or roams(card.kind, card.name)
            if not here or card.about in there:
                continue
            note = card.became(rows, waiting)
            if note == GONE and card.still(waiting) and self._just_asked(card.about):
                if row is not None:  # it keeps changing, and the card stays and says so
                    await self._store.post([card.outdated(row.row.outbound)])
                continue
            await self._settle(card, note)
        for one in together(waiting):
            whole = roams(one.kind, one.name)
            at = self._places.owner() if whole else place  # of all conversations, or of this one
            if at is not None and (everything or whole):
                await self._ask(one, self._workspace if whole else folder, at, rows)

    def _just_asked(self, about: tuple[Kind, str, str]) -> bool:
        return time.monotonic() - self._asked.get(about[:2], -OFTEN) < OFTEN

    async def _ask(
        self, one: Candidate, folder: Path, place: Address, rows: Sequence[Trust]
    ) -> None:
        cards = await self._cards()
        about = (one.kind, one.name, one.digest)
        earlier = trusted_before(one, rows)
        card = next((each for each in cards.values() if each.about == about), None)
        if card is None:
            if left_off(one, rows):
                return
            if len(cards) >= MOST or self._just_asked(about):
                self._behind[folder, not roams(one.kind, one.name)] = place
                if (
                    one.kind == "plugin"
                    and trusted_before(one, rows)
                    and not self._just_asked(about)
                ):
                    text = f"{titled(*about[:2])} changed since it was trusted and is off"
                    await self._places.tell(text, f"{text}; answer the open cards, then its comes.")
                return
            self._asked[about[:2]] = time.monotonic()
            card = Card(self._new_id(), *about, str(folder))
            cards[card.id] = card
            await self._keep()
        if card.id not in self._told:  # a row that is there already is not written again
            await self._store.post([card.asked(self.facts(one), place, earlier)])
            self._told.add(card.id)

    async def answer(self, id: str, person: str, name: str, *, allow: bool) -> tuple[bool, str]:
        """Of somebody who may: whether it counts, and what is said of it. ``person``: as the row
        names them, ``name``: as the card does. Raises StoreError, Unavailable, OSError."""
        async with self._alone:
            card = (await self._cards()).get(id)
            if card is None:
                return False, SETTLED
            trusted = card.about in active(await self.desk.trusts())
            if not allow and trusted:
                await self._settle(card, MEANWHILE)
                return False, f"{MEANWHILE}; `/trust` says how it is revoked."
            if not allow:
                await self.desk.leave_off(*card.about, person)
            elif not trusted:  # else it was before a crash
                row, folder = await self._store.post_row(id), Path(card.folder)
                try:
                    await self.desk.allow(
                        card.kind, card.name, person, folder=folder, digest=card.digest
                    )
                except NothingToTrust as error:
                    log.info("trust_card_gone", kind=card.kind, name=card.name, why=str(error))
                    now = await self.desk.waiting(folder)
                    gone = card.became(await self.desk.trusts(), now)
                    await self._settle(card, gone, answered=True)
                    place = self._places.owner() if row is None else stands(row)
                    await self._look(folder, place, everything=True)
                    return False, f"{gone}."
            note = "Trusted" if allow else "Left off"
            await self._settle(card, f"{note} by {literal(name)}", answered=True)
            return True, note

    async def meant(self, said: Inbound) -> list[Card]:
        """The open ones that words said here may mean: the one they reply to, else all that stood
        in this chat by then. Raises Unavailable."""
        near: list[Card] = []
        for card in (await self._cards()).values():
            names = _stood(await self._store.post_row(card.id), said)
            if names and (said.reply_to in names or said.address.topic in names):
                return [card]
            near += [card] if names else []
        return near

    async def seen(self, one: Candidate, said: Inbound | None) -> Card | None:
        """The open one about exactly this, if it stood in this chat when these words were said."""
        for card in (await self._cards()).values():
            if said is not None and card.about == (one.kind, one.name, one.digest):
                return card if _stood(await self._store.post_row(card.id), said) else None
        return None

    async def _settle(self, card: Card, note: str, *, answered: bool = False) -> None:
        """Places are free then; what somebody answered is asked anew as it changes."""
        if answered or note != GONE:
            self._asked.pop(card.about[:2], None)
        self._looked = 0.0
        row = await self._store.post_row(card.id)
        if row is not None:
            await self._store.post([closing(lambda: derived("trust", card.id), note)(row)])
        (await self._cards()).pop(card.id, None)
        await self._keep()

    async def _cards(self) -> dict[str, Card]:
        if self._open is None:
            self._open = await asyncio.to_thread(_read, self._kept)
        return self._open

    async def _keep(self) -> None:
        rows = [asdict(card) for card in (await self._cards()).values()]
        await asyncio.to_thread(_write, self._kept, json.dumps(rows).encode())


def _stood(row: OutRow | None, said: Inbound) -> list[MessageId]:
    """The messages that showed a card in this chat by then: nobody allows what they did not see."""
    if row is None or shown_after(row, said.at):
        return []
    place, here = stands(row), said.address
    if (place.channel, place.account, place.chat) != (here.channel, here.account, here.chat):
        return []
    return [state.receipt.message for state in row.parts if state.receipt is not None]


def _read(path: Path) -> dict[str, Card]:
    """Blocks. One that cannot be read is none: what waits is asked anew."""
    try:
        rows: Any = json.loads(path.read_bytes())
        cards = [Card(**row) for row in rows]
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, TypeError) as error:
        log.warning("trust_cards_lost", file=str(path), error=str(error))
        return {}
    return {card.id: card for card in cards}


def _write(path: Path, data: bytes) -> None:
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with replacing(path) as file:
        file.write(data)
