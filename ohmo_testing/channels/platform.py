"""A whole chat platform in memory, with faults to order; its methods are those of a conformance
rig."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Literal, TypedDict

from channels.contract import (
    Address,
    Answer,
    Arrival,
    Attachment,
    ChatId,
    Edited,
    Inbound,
    MessageId,
    Person,
    PersonId,
    Reacted,
    Receipt,
    TopicId,
)
from channels.errors import Ambiguous, AuthFailed, ChannelError, NotReady, RateLimited, Rejected
from channels.record import record

Method = Literal[
    "connect", "receive", "upload", "send", "find", "revise", "fetch", "typing", "acknowledge"
]


@record
class Shown:
    """A message people see; the same fields as the conformance rigs' ``Visible``."""

    id: str
    text: str
    by_bot: bool
    topic: str | None = None
    edits: int = 0
    choices: tuple[str, ...] = ()
    files: tuple[str, ...] = ()


@record
class Call:
    """One call the platform saw, carried out or not."""

    method: Method
    key: str = ""
    text: str = ""


@record
class _Fault:
    error: ChannelError
    after: bool  # carry the call out first, then fail


class _Said(TypedDict):
    key: str
    address: Address
    person: Person
    at: datetime
    order: str


@dataclass(slots=True)
class FakePlatform:
    """The platform's side: survives adapters and restarts of the house. Its methods are those of a
    conformance rig."""

    name: str = "fake"
    clock: Callable[[], datetime] = lambda: datetime.now(UTC)
    events: list[Arrival] = field(default_factory=list[Arrival])
    chats: dict[str, list[Shown]] = field(default_factory=dict[str, list[Shown]])
    sent: dict[str, Receipt] = field(
        default_factory=dict[str, Receipt]
    )  # by key: what SAFE folds and LOOK finds
    uploads: dict[str, str] = field(default_factory=dict[str, str])  # handle -> file name
    calls: list[Call] = field(default_factory=list[Call])
    previews: list[str] = field(default_factory=list[str])
    typing: list[tuple[Address, bool]] = field(default_factory=list[tuple[Address, bool]])
    acknowledged: list[tuple[str, str]] = field(
        default_factory=list[tuple[str, str]]
    )  # (token, text)
    menu: tuple[tuple[str, str], ...] = ()
    connections: int = 0
    open: asyncio.Event = field(default_factory=asyncio.Event)  # sends wait here; see hold()
    _faults: dict[Method, deque[_Fault]] = field(default_factory=dict[Method, deque[_Fault]])
    _changed: asyncio.Event = field(default_factory=asyncio.Event)
    _generation: int = 0  # raised by cut(): older connections are dead
    _away: bool = False
    _revoked: bool = False
    _number: int = 0

    def __post_init__(self) -> None:
        self.open.set()

    # what a test does to the platform

    def fail(
        self, method: Method, error: ChannelError, *, after: bool = False, times: int = 1
    ) -> None:
        """The next ``times`` calls of ``method`` raise ``error``; ``after``: once they were carried
        out."""
        self._faults.setdefault(method, deque()).extend([_Fault(error, after)] * times)

    def hold(self) -> None:
        """Sends wait inside the call until release()."""
        self.open.clear()

    def release(self) -> None:
        self.open.set()

    async def says(
        self,
        text: str,
        *,
        chat: str = "dm:ada",
        person: str = "ada",
        topic: str | None = None,
        mention: bool = True,
        bot: bool = False,
    ) -> str:
        number = self._next()
        private = chat.startswith("dm:")
        self._show(chat, Shown(id=number, text=text, by_bot=False, topic=topic))
        self._emit(
            Inbound(
                key=f"{chat}/{number}",
                address=self._address(chat, topic),
                person=Person(PersonId(person), person.title(), bot),
                at=self.clock(),
                order=number,
                message=MessageId(number),
                text=text,
                private=private,
                addressed=private or mention,
            )
        )
        return number

    async def sends_file(
        self, name: str, content: bytes, *, chat: str = "dm:ada", person: str = "ada"
    ) -> str:
        """A person sends a file without a text."""
        message = await self.says("", chat=chat, person=person)
        said = self.events[-1]
        assert isinstance(said, Inbound)
        reference = Attachment(
            ref=content.hex(), name=name, media_type="application/octet-stream", size=len(content)
        )
        self.events[-1] = replace(said, attachments=(reference,))
        return message

    async def edits(
        self, message: str, text: str | None, *, chat: str = "dm:ada", person: str = "ada"
    ) -> None:
        """``text`` None: the person deletes the message."""
        at = self._index(chat, message)
        if text is None:
            self.chats[chat].pop(at)
        else:
            self.chats[chat][at] = replace(
                self.chats[chat][at], text=text, edits=self.chats[chat][at].edits + 1
            )
        self._emit(Edited(message=MessageId(message), text=text, **self._said(chat, person)))

    async def reacts(
        self,
        message: str,
        emoji: str,
        *,
        chat: str = "dm:ada",
        person: str = "ada",
        added: bool = True,
    ) -> None:
        self._emit(
            Reacted(
                message=MessageId(message), emoji=emoji, added=added, **self._said(chat, person)
            )
        )

    async def presses(
        self, message: str, choice: str, *, chat: str = "dm:ada", person: str = "ada"
    ) -> None:
        said = self._said(chat, person)
        self._emit(Answer(message=MessageId(message), choice=choice, token=said["order"], **said))

    async def redeliver(self, message: str, *, chat: str = "dm:ada") -> None:
        known = (
            event
            for event in self.events
            if isinstance(event, Inbound) and event.message == message
        )
        self._emit(next(event for event in known if event.address.chat == chat))

    async def visible(self, chat: str = "dm:ada") -> Sequence[Shown]:
        return tuple(self.chats.get(chat, ()))

    async def cut(self) -> None:
        self._generation += 1
        self._changed.set()

    def down(self, away: bool) -> None:
        self._away = away
        if away:
            self._generation += 1
        self._changed.set()

    def lose_next_response(self) -> None:
        self.fail("send", Ambiguous("the answer was lost"), after=True)

    def limit_next(self, seconds: float) -> None:
        self.fail("send", RateLimited(seconds))

    def reject_next(self) -> None:
        self.fail("send", Rejected("the platform refuses this content"))

    def revoke(self, revoked: bool = True) -> None:
        self._revoked = revoked
        self._changed.set()

    async def until(self, condition: Callable[[FakePlatform], bool], within: float = 20.0) -> None:
        """Wait for a condition of this platform; TimeoutError after ``within`` seconds."""
        async with asyncio.timeout(within):
            while not condition(self):
                self._changed.clear()
                await self._changed.wait()

    # what the channel asks of the platform

    @asynccontextmanager
    async def called(self, call: Call) -> AsyncGenerator[None]:
        """Everything a call goes through: the log, the gate, outages, injected faults."""
        self.calls.append(call)
        self._changed.set()
        if call.method == "send":
            await self.open.wait()
        if self._away:
            raise NotReady(f"{self.name}: the platform cannot be reached")
        if self._revoked:
            raise AuthFailed(f"{self.name}: the platform does not accept the credentials")
        waiting = self._faults.get(call.method)
        fault = waiting.popleft() if waiting else None
        if fault is not None and not fault.after:
            raise fault.error
        yield
        self._changed.set()
        if fault is not None:
            raise fault.error

    async def after(self, position: int) -> int:
        """Wait for events behind ``position``; the new end. Raises NotReady when the connection is
        cut, AuthFailed when revoked."""
        generation = self._generation
        while len(self.events) <= position:
            self._changed.clear()
            await self._changed.wait()
            if self._revoked:
                raise AuthFailed(f"{self.name}: the platform does not accept the credentials")
            if self._away or generation != self._generation:
                raise NotReady(f"{self.name}: the connection was cut")
        return len(self.events)

    def post(self, address: Address, shown: Shown, key: str, *, fold: bool) -> Receipt:
        if fold and key in self.sent:
            return self.sent[key]
        shown = replace(shown, id=self._next(), by_bot=True, topic=address.topic)
        self._show(address.chat, shown)
        self.sent[key] = Receipt(MessageId(shown.id), self.clock())
        return self.sent[key]

    def change(
        self, address: Address, message: MessageId, text: str | None, choices: tuple[str, ...] = ()
    ) -> Receipt:
        try:
            at = self._index(address.chat, message)
        except LookupError:
            if text is None:
                return Receipt(message, self.clock())  # deleting twice is harmless
            raise Rejected(f"{self.name}: message {message} does not exist") from None
        old = self.chats[address.chat][at]
        if text is None:
            self.chats[address.chat].pop(at)
        elif (old.text, old.choices) != (text, choices):
            self.chats[address.chat][at] = replace(
                old, text=text, choices=choices, edits=old.edits + 1
            )
        return Receipt(message, self.clock())

    def _address(self, chat: str, topic: str | None = None) -> Address:
        return Address(self.name, "bot", ChatId(chat), None if topic is None else TopicId(topic))

    def _said(self, chat: str, person: str) -> _Said:
        number = self._next()
        return {
            "key": f"{chat}/{number}",
            "address": self._address(chat),
            "person": Person(PersonId(person), person.title()),
            "at": self.clock(),
            "order": number,
        }

    def _next(self) -> str:
        self._number += 1
        return f"{self._number:08d}"

    def _index(self, chat: str, message: str) -> int:
        for at, shown in enumerate(self.chats.get(chat, ())):
            if shown.id == message:
                return at
        raise LookupError(message)

    def _show(self, chat: str, shown: Shown) -> None:
        self.chats.setdefault(chat, []).append(shown)

    def _emit(self, event: Arrival) -> None:
        self.events.append(event)
        self._changed.set()
