"""Short words for what the store tests say again and again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, Protocol

from channels.contract import (
    Address,
    Answer,
    ChatId,
    Choice,
    Edited,
    Inbound,
    MessageId,
    Outbound,
    Part,
    Person,
    PersonId,
    Reacted,
    Receipt,
)
from ohmo.contracts.arrivals import Arrival, Occurrence, Wake
from ohmo.contracts.messages import (
    CallResult,
    CallStarted,
    ModelStep,
    Text,
    ToolCall,
    ToolResult,
    UserStep,
)
from ohmo.contracts.outbox import Ask, Asked, OutRow, PartState, PostRow
from ohmo.contracts.reports import Reports
from ohmo.contracts.store import Store
from ohmo.contracts.tool import Question
from ohmo.contracts.trust import Trusts
from ohmo.contracts.turns import Accepted, Claim, End, Seat, Work
from tests.makers import inbound

CHAT = Address("slack", "T1", ChatId("C1"))
OTHER = Address("slack", "T1", ChatId("C2"))
MESSAGE, WAKE, COMMAND, ANSWER = (
    Seat("", "message"),
    Seat("", "wake"),
    Seat("", "command"),
    Seat("", "answer"),
)
EDIT, REACTION = Seat("", "edit"), Seat("", "reaction")
BIRTH = datetime(2026, 1, 1, tzinfo=UTC)


class Clock:
    """Stands still until it is moved."""

    def __init__(self) -> None:
        self.now = BIRTH

    def __call__(self) -> datetime:
        return self.now

    def tick(self, seconds: float) -> None:
        self.now += timedelta(seconds=seconds)


class FullStore(Store, Reports, Trusts, Protocol):
    """What an engine offers."""


def said(
    text: str,
    *,
    key: str | None = None,
    order: str | None = None,
    at: Address = CHAT,
    person: str = "ada",
    album: str | None = None,
    aliases: tuple[str, ...] = (),
) -> Inbound:
    name = key or f"k-{text}"
    return inbound(
        at,
        text,
        name,
        person,
        aliases=aliases,
        at=BIRTH,
        order=order or name,
        message=MessageId(f"m-{text}"),
        album=album,
    )


def edited(
    original: str, text: str | None, *, key: str, at: Address = CHAT, order: str = "zz"
) -> Edited:
    return Edited(
        key=key,
        address=at,
        person=Person(PersonId("ada"), "Ada"),
        at=BIRTH,
        order=order,
        message=MessageId(f"m-{original}"),
        text=text,
    )


def reacted(original: str, *, key: str) -> Reacted:
    return Reacted(
        key=key,
        address=CHAT,
        person=Person(PersonId("ada"), "Ada"),
        at=BIRTH,
        order="r",
        message=MessageId(f"m-{original}"),
        emoji="+1",
        added=True,
    )


def pressed(choice: str, *, key: str, at: Address = CHAT) -> Answer:
    return Answer(
        key=key,
        address=at,
        person=Person(PersonId("ada"), "Ada"),
        at=BIRTH,
        order="a",
        message=MessageId("card"),
        choice=choice,
        token="t",
    )


def wake(key: str, *, place: Address = CHAT, due: datetime | None = None) -> Wake:
    return Wake(
        key,
        "cron",
        place,
        None,
        "ada",
        f"wake {key}",
        BIRTH,
        None if due is None else Occurrence("job", due),
    )


def told(arrival: Arrival) -> UserStep:
    text = arrival.prompt if isinstance(arrival, Wake) else getattr(arrival, "text", "")
    return UserStep((Text(text or ""),), "ada", "message")


def ident(name: str) -> str:
    return name.ljust(22, "0")


def row(
    name: str,
    text: str = "hello",
    *,
    at: Address = CHAT,
    kind: Any = "message",
    target: str | None = None,
    ttl: float = 3600.0,
) -> PostRow:
    return PostRow(
        ident(name), kind, Outbound(at, text), None if target is None else ident(target), ttl
    )


def closing(old: OutRow) -> PostRow:
    return PostRow(
        ident(f"close{old.row.id.rstrip('0')}"),
        "edit",
        Outbound(old.row.outbound.address, "closed"),
        old.row.id,
    )


def card(asked: Asked) -> PostRow:
    return PostRow(
        asked.ask.id,
        "message",
        Outbound(
            asked.address, f"May I? {asked.ask.question.title}", choices=(Choice("yes", "Yes"),)
        ),
    )


def ask(name: str, call: str, digest: str = "d") -> Ask:
    return Ask(
        ident(name),
        call,
        Question("permission", f"run {call}", "rm -rf", (Choice("yes", "Yes", "good"),), digest),
        "/tmp/x",
    )


def part(text: str = "p", receipt: str | None = None, kind: Any = "post") -> PartState:
    return PartState(
        Part(kind, f'{{"text":"{text}"}}'), None if receipt is None else Receipt(MessageId(receipt))
    )


def model(text: str = "", calls: Sequence[str] = ()) -> ModelStep:
    blocks: list[Any] = [Text(text)] if text else []
    blocks += [
        ToolCall(call, "Bash", {"command": "ls", "n": [1, None, {"a": 1.5}]}, f"f-{call}")
        for call in calls
    ]
    return ModelStep(tuple(blocks), "m", "tools" if calls else "end")


def started(call: str) -> CallStarted:
    return CallStarted(call, "d")


def result(call: str, text: str = "ok") -> CallResult:
    return CallResult(ToolResult(call, text))


@dataclass
class Scene:
    """A store, its clock, and the everyday moves."""

    store: Any
    clock: Clock
    owner: str = "one"
    turns: int = 0
    problems_allowed: bool = field(default=False)

    async def hear(self, *arrivals: Arrival, seat: Seat = MESSAGE) -> list[Accepted]:
        return await self.store.accept([(arrival, seat) for arrival in arrivals])

    async def claim(self, owner: str | None = None, ttl: float = 30.0) -> Claim:
        claims = await self.store.claim(owner or self.owner, limit=1, ttl=ttl)
        assert len(claims) == 1
        return claims[0]

    async def begin(self, *, collect: bool = False, owner: str | None = None) -> tuple[Claim, Work]:
        self.turns += 1
        claim = await self.claim(owner)
        work = await self.store.work(claim, ident(f"turn{self.turns}x"), collect=collect, step=told)
        assert work is not None
        return claim, work

    async def finish(
        self, claim: Claim, turn: str, *posts: PostRow, state: Any = "done", reason: str = ""
    ) -> None:
        await self.store.finish(claim, turn, [model("fine")], posts, End(state, reason))

    async def endings(self, thread: str) -> dict[str, str]:
        """Text of each arrival -> its state or ending."""
        found: dict[str, str] = {}
        for info in await self.store.inbox(limit=1000):
            if info.thread == thread:
                text = info.arrival.key
                found[text] = info.ending or info.state
        return found

    async def heads(self, threads: Any = None) -> list[str]:
        return [r.row.id.rstrip("0") for r in await self.store.outgoing("slack", "T1", threads)]

    async def deliver(self, name: str, receipt: str = "r1") -> None:
        await self.store.sending(ident(name), [part()])
        await self.store.sent(ident(name), [part(receipt=receipt)])
