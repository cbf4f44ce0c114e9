"""A house in memory that implements control's ports: enough for every route and for the page, with
nothing behind it."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Collection, Generator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import fields, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Literal, TypeVar

from channels.contract import (
    Address,
    Answer,
    Arrival,
    ChatId,
    Choice,
    Cursor,
    Inbound,
    Options,
    Outbound,
    Person,
    PersonId,
)
from channels.web import WebSettings
from channels.web.adapter import Web
from ohmo.ambient import IdSource
from ohmo.approvals.answering import Answerer
from ohmo.commands.contract import Decide
from ohmo.contracts.agent import (
    Event,
    ModelDone,
    TextDelta,
    ToolDone,
    ToolStarted,
    TurnEnded,
    TurnStarted,
)
from ohmo.contracts.arrivals import Wake
from ohmo.contracts.messages import (
    CallResult,
    CallStarted,
    ModelStep,
    Step,
    Text,
    ToolCall,
    ToolResult,
    Usage,
    UserStep,
)
from ohmo.contracts.outbox import Ask, Asked, OutRow, PartState, PostRow
from ohmo.contracts.reports import (
    ArrivalInfo,
    AuditReport,
    Beginning,
    ChannelStatus,
    Counts,
    HistoryItem,
    HouseStatus,
    Share,
    Spender,
    Spent,
    Spot,
    StepInfo,
    ThreadInfo,
    ThreadTotal,
    TurnUsage,
    UsageTotal,
    spot_of,
    with_queues,
)
from ohmo.contracts.spending import Limit, Scope
from ohmo.contracts.store import Hint
from ohmo.contracts.tool import Question
from ohmo.contracts.turns import Accepted, PersonRow, Shelf, ThreadSettings
from ohmo.control.metrics import Metrics
from ohmo.control.ports import Ports
from ohmo.control.server import Control, Doors, Listen, Place
from ohmo.control.webhooks import Webhooks
from ohmo.processes.peer_process import Ancestry
from tests.makers import inbound

T0 = datetime(2026, 1, 5, 9, 0, tzinfo=UTC)
USAGE = Usage("small-model", "turn", 100, 50, 10, 20, 1500)


_NO_LIMITS: dict[str, int | float | None] = {"usd_limit": None, "tokens_limit": None}


class SmallHouse:
    """Store, reports, watchers and a web channel; a turn is scripted by whoever uses it."""

    def __init__(self) -> None:
        self.history_of: dict[str, list[HistoryItem]] = {}
        self.addresses: dict[str, Address] = {}
        self.keys: dict[str, Accepted] = {}
        self.wakes: list[tuple[Wake, ThreadSettings | None]] = []
        self.asked: dict[str, Asked] = {}
        self.chosen: dict[str, ThreadSettings] = {}
        self.verdicts: list[tuple[str, str, str, str]] = []
        self.answers: list[Answer] = []
        self.persons: list[PersonRow] = []
        self.ready = True
        self.provider = "scripted"
        self.warnings: tuple[str, ...] = ()
        self.unavailable = 0
        self.counted: Counts | None = None
        self.spent: list[UsageTotal] = []
        self.called: dict[Spender, str] = {}
        self.log: Path | None = None
        self.hooks: Webhooks | None = None
        self.limits: dict[Scope, Limit] = {}
        self.on_message: Callable[[str, Inbound], Any] = lambda _thread, _inbound: None
        self.on_answer: Callable[[str, Answer], Any] = lambda _thread, _answer: None
        self.new_id = IdSource()
        self.web = Web(WebSettings(), Options())
        self._hearers: list[Callable[[Sequence[Hint]], None]] = []
        self._queues: list[asyncio.Queue[tuple[str, Event]]] = []
        self._turns = itertools.count(1)

    # reports

    async def counts(self, *, spare: bool = False) -> Counts:
        return self.counted or Counts(
            {("web", "answered"): 3}, {("web", "sent"): 3}, None, 0, len(self.asked)
        )

    async def threads(
        self,
        *,
        limit: int = 100,
        channel: str | None = None,
        after: Spot | None = None,
        shelf: Shelf | None = None,
    ) -> list[ThreadInfo]:
        infos = [
            self._info(thread)
            for thread, address in self.addresses.items()
            if channel in (None, address.channel)
        ]
        infos = [info for info in infos if shelf in (None, info.settings.shelf or "open")]
        return _page(infos, limit, after)

    async def thread(self, thread: str) -> ThreadInfo | None:
        return self._info(thread) if thread in self.addresses else None

    async def find_thread(self, address: Address, person_scope: str = "") -> str | None:
        return next(
            (
                thread
                for thread, place in self.addresses.items()
                if place == address and person_scope == ""
            ),
            None,
        )

    async def history(
        self, thread: str, *, since: int = 0, limit: int = 500, before: int | None = None
    ) -> list[HistoryItem]:
        found = [
            item
            for item in self.history_of.get(thread, [])
            if item.seq > since and (before is None or item.seq < before)
        ]
        return found[:limit] if before is None else found[max(0, len(found) - limit) :]

    async def inbox(
        self, *, state: str | None = None, limit: int = 100, after: Spot | None = None
    ) -> list[ArrivalInfo]:
        rows = [
            item
            for items in self.history_of.values()
            for item in items
            if isinstance(item, ArrivalInfo)
        ]
        return _page([row for row in rows if state in (None, row.state, row.ending)], limit, after)

    async def outbox(
        self, *, state: str | None = None, limit: int = 100, after: Spot | None = None
    ) -> list[OutRow]:
        rows = [
            item for items in self.history_of.values() for item in items if isinstance(item, OutRow)
        ]
        return _page([row for row in rows if state in (None, row.state)], limit, after)

    async def posts(self, ids: Sequence[str]) -> list[OutRow]:
        return [row for row in await self.outbox(limit=10_000) if row.row.id in ids]

    async def arrival(self, thread: str, seq: int) -> ArrivalInfo | None:
        return next(
            (
                i
                for i in self.history_of.get(thread, [])
                if isinstance(i, ArrivalInfo) and i.seq == seq
            ),
            None,
        )

    async def usage(self, *, days: int = 30, by_person: bool = False) -> list[UsageTotal]:
        rows = self.spent or [
            UsageTotal(
                1, 100, 50, 10, 20, 1500, 0, day="2026-01-05", model="small-model", person="owner"
            )
        ]
        return [
            row if by_person else replace(row, person="", channel="", account="") for row in rows
        ]

    async def usage_by(
        self, what: Literal["day", "purpose", "job"], *, days: int = 30
    ) -> list[Share]:
        name = {"day": "2026-01-05", "purpose": "turn", "job": ""}[what]
        spent = [
            [getattr(row, field.name) for field in fields(Spent)]
            for row in await self.usage(days=days)
        ]
        return [Share(*map(sum, zip(*spent, strict=True)), name=name)]

    async def names(self, wanted: Collection[Spender]) -> dict[Spender, str]:
        return {one: name for one, name in self.called.items() if one in wanted}

    async def threads_of(self, threads: Collection[str]) -> dict[str, ThreadInfo]:
        return {thread: self._info(thread) for thread in threads if thread in self.addresses}

    async def thread_totals(self, *, days: int = 30, limit: int = 50) -> list[ThreadTotal]:
        found = [
            ThreadTotal(
                2,
                USAGE.input,
                USAGE.cached,
                USAGE.written,
                USAGE.output,
                (USAGE.micro_usd or 0) * int(thread[1:]),
                0,
                thread=thread,
            )
            for thread in self.addresses
        ]
        return sorted(found, key=lambda one: -one.micro_usd)[:limit]

    async def thread_usage(self, thread: str, *, since: datetime | None = None) -> list[TurnUsage]:
        turns = sorted(
            {item.turn for item in self.history_of.get(thread, []) if isinstance(item, StepInfo)}
        )
        spent = (2, USAGE.input, USAGE.cached, USAGE.written, USAGE.output, USAGE.micro_usd or 0, 0)
        return [TurnUsage(*spent, turn=turn, model=USAGE.model) for turn in turns]

    async def audit_report(self) -> AuditReport:
        return AuditReport(3, {"answered": 3}, 0, 0, {"sent": 3}, ())

    def _info(self, thread: str) -> ThreadInfo:
        items = self.history_of.get(thread, [])
        last = T0 + timedelta(seconds=self._now(items)) if items else None
        chosen = self.chosen.get(thread, ThreadSettings())
        begins = next((_beginning(i) for i in items if isinstance(i, ArrivalInfo)), Beginning())
        return ThreadInfo(
            thread, self.addresses[thread], "", chosen.title, 0, last, "idle", chosen, begins
        )

    async def choose(self, thread: str, settings: ThreadSettings) -> bool:
        self.chosen[thread] = settings.over(self.chosen.get(thread, ThreadSettings()))
        return thread in self.addresses

    async def forget(self, thread: str) -> bool:
        self.history_of[thread] = []
        return await self.choose(thread, ThreadSettings(shelf="deleted"))

    def _now(self, items: list[HistoryItem]) -> int:
        return sum(len(i) for i in self.history_of.values()) if items else 0

    # status, people, repair, approvals

    async def status(self) -> HouseStatus:
        channels = {
            "web": ChannelStatus("connected", T0, T0, ""),
            "slack": ChannelStatus(
                "auth_failed", None, None, "slack refuses bot_token; put a new one in config.yaml"
            ),
        }
        return HouseStatus(
            self.ready,
            "0.1.0",
            T0,
            self.provider,
            "small-model",
            with_queues(channels, await self.counts()),
            {"waiting": 0},
            {"ready": 0},
            None,
            0,
            0,
            {},
            {"day": dict.fromkeys(("usd", "unpriced", "tokens"), 0) | _NO_LIMITS},  # a moment ago
            self.warnings,
        )

    async def people(self) -> list[PersonRow]:
        return self.persons

    async def pair(
        self, code: str, role: Literal["guest", "user", "admin"] | None = None
    ) -> PersonRow | None:
        for number, row in enumerate(self.persons):
            if row.role == "asking" and row.code_hash == f"hash of {code}":
                self.persons[number] = replace(row, role=role or "user", code_hash=None)
                return self.persons[number]
        return None

    async def revoke(self, channel: str, account: str, person: str) -> bool:
        return any(
            (row.channel, row.account, row.person) == (channel, account, person)
            for row in self.persons
        )

    async def retry_arrival(self, thread: str, seq: int) -> bool:
        return await self.arrival(thread, seq) is not None

    async def retry_post(self, id: str) -> bool:
        dead = any(row.state == "dead" for row in await self.posts([id]))
        if dead:
            self.settle(id, "ready")
        return dead or id == "dead"

    async def drop_post(self, id: str) -> bool:
        dead = any(row.state == "dead" for row in await self.posts([id]))
        if dead:
            self.settle(id, "dropped")
        return dead or id == "dead"

    async def remembered(self) -> list[Any]:
        return []

    async def revoke_grant(self, id: str) -> bool:
        return False

    async def open_questions(self, thread: str | None = None) -> list[Asked]:
        return [asked for asked in self.asked.values() if thread in (None, asked.thread)]

    async def answer(self, decision: Decide, by: Answerer) -> Any:
        approval, verdict, word = decision.approval, decision.verdict, decision.word
        if approval not in self.asked:
            return "unknown"
        self.verdicts.append((approval, verdict, decision.scope, word))
        asked = self.asked.pop(approval)
        self.post(
            asked.thread,
            f"**{asked.ask.question.title}**\n\nanswered: {word or verdict}",
            target=approval,
            kind="edit",
        )
        return "ok"

    # watch

    dropped = 3

    @contextmanager
    def events(self) -> Generator[AsyncIterator[tuple[str, Event]]]:
        queue: asyncio.Queue[tuple[str, Event]] = asyncio.Queue()
        self._queues.append(queue)

        async def each() -> AsyncIterator[tuple[str, Event]]:
            while True:
                yield await queue.get()

        try:
            yield each()
        finally:
            self._queues.remove(queue)

    def listen(self, hear: Callable[[Sequence[Hint]], None]) -> Callable[[], None]:
        self._hearers.append(hear)
        return lambda: self._hearers.remove(hear)

    def emit(self, thread: str, event: Event) -> None:
        for queue in self._queues:
            queue.put_nowait((thread, event))

    # what is written

    @property
    def state(self) -> Path:
        return self._state

    @property
    def catch_up(self) -> tuple[timedelta, int]:
        return timedelta(hours=24), 100

    def heard(self) -> None: ...

    async def cursor(self, name: str) -> str | None:
        return None

    async def publish(self, arrivals: Sequence[Arrival], cursor: Cursor | None = None) -> None:
        for arrival in arrivals:
            self.accept(arrival)

    async def publish_wake(self, wake: Wake, settings: ThreadSettings | None) -> Accepted:
        self.wakes.append((wake, settings))
        return self.accept(wake)

    def accept(self, arrival: Arrival | Wake) -> Accepted:
        if arrival.key in self.keys:
            return replace(self.keys[arrival.key], duplicate=True)
        place = arrival.place if isinstance(arrival, Wake) else arrival.address
        thread = self.thread_at(place)
        kind = (
            "wake"
            if isinstance(arrival, Wake)
            else "answer"
            if isinstance(arrival, Answer)
            else "message"
        )
        person = arrival.person if isinstance(arrival, Wake) else arrival.person.id
        seq = self.next_seq(thread)
        info = ArrivalInfo(
            thread, seq, kind, person, arrival.at, "ended", "answered", None, None, arrival
        )
        self.keys[arrival.key] = Accepted(thread, seq, False)
        self._write(thread, info)
        if isinstance(arrival, Inbound):
            self.on_message(thread, arrival)
        if isinstance(arrival, Answer):
            self.answers.append(arrival)
            self.on_answer(thread, arrival)
        return self.keys[arrival.key]

    def thread_at(self, place: Address) -> str:
        for thread, address in self.addresses.items():
            if address == place:
                return thread
        thread = f"t{len(self.addresses) + 1}"
        self.addresses[thread] = place
        return thread

    def next_seq(self, thread: str) -> int:
        items = self.history_of.get(thread, [])
        return items[-1].seq + 1 if items else 1

    def step(self, thread: str, turn: str, step: Step) -> None:
        self._write(thread, StepInfo(self.next_seq(thread), turn, datetime.now(UTC), step))

    def post(self, thread: str, text: str, **more: Any) -> str:
        """A row as delivery leaves it: rendered and sent."""
        kind, target, row_id = (
            more.pop("kind", "message"),
            more.pop("target", None),
            more.pop("id", None) or self.new_id(),
        )
        state = more.pop("state", "sent")
        outbound = Outbound(self.addresses[thread], text, **more)
        parts = tuple(
            PartState(part, None, "f" * 32 if part.kind == "file" else None)
            for part in self.web.render(outbound)
        )
        row = PostRow(row_id, kind, outbound, target)
        now = datetime.now(UTC)
        self._write(
            thread, OutRow(row, thread, self.next_seq(thread), None, state, parts, 1, now, now, now)
        )
        return row_id

    def settle(self, row: str, state: Any, error: str | None = None) -> None:
        """A post comes to another state, as delivery or an owner makes it."""
        for items in self.history_of.values():
            for number, item in enumerate(items):
                if isinstance(item, OutRow) and item.row.id == row:
                    items[number] = replace(
                        item,
                        state=state,
                        error=error,
                        ended=None if state in ("ready", "sending") else datetime.now(UTC),
                    )
                    self.hint(Hint("state", item.thread))

    def dead_letter(self, thread: str, text: str, reason: str) -> ArrivalInfo:
        """A message that could not be answered."""
        accepted = self.accept(said(self.addresses[thread], text, self.new_id()))
        found = self.history_of[thread][-1]
        assert isinstance(found, ArrivalInfo)
        self.history_of[thread][-1] = dead = replace(
            found, ending="dead", reason=reason, ended=datetime.now(UTC)
        )
        self.hint(Hint("state", accepted.thread))
        return dead

    def hint(self, hint: Hint) -> None:
        for hear in self._hearers:
            hear([hint])

    def queued(self) -> int:
        """Events nobody took yet."""
        return sum(queue.qsize() for queue in self._queues)

    def _write(self, thread: str, item: HistoryItem) -> None:
        self.history_of.setdefault(thread, []).append(item)
        self.hint(Hint("post" if isinstance(item, OutRow) else "state", thread))

    # scripted turns

    async def turn(
        self, thread: str, text: str, *, tool: bool = False, pace: Callable[[], Any] | None = None
    ) -> None:
        """One streamed turn, word by word: events, steps and the answer's row, as engine and
        delivery would leave them."""
        turn, place = f"turn{next(self._turns)}", self.addresses[thread]
        await self.web.typing(place, True)
        self.emit(thread, TurnStarted(turn, "owner"))
        self.step(thread, turn, UserStep((Text("…"),), "owner", "message"))
        if tool:
            call = ToolCall(f"{turn}.1", "Read", {"file_path": "/home/ada/notes.md"}, "toolu_1")
            self.step(
                thread,
                turn,
                ModelStep((Text("I look at your notes."), call), "small-model", "tools"),
            )
            self.emit(thread, ModelDone(turn, "I look at your notes.", USAGE))
            self.step(thread, turn, CallStarted(call.id, "digest"))
            self.emit(thread, ToolStarted(turn, call.id, "Read", "Read notes.md"))
            result = ToolResult(call.id, "1  buy milk\n2  call Grace")
            self.step(thread, turn, CallResult(result))
            self.emit(thread, ToolDone(turn, call.id, result))
        said = ""
        for word in text.split(" "):
            piece = word if not said else f" {word}"
            said += piece
            self.emit(thread, TextDelta(turn, piece))
            await self.web.revise(place, None, said)
            await (pace() if pace is not None else asyncio.sleep(0))
        self.step(thread, turn, ModelStep((Text(text),), "small-model", "end"))
        self.emit(thread, ModelDone(turn, text, USAGE))
        await self.say(thread, text)
        await self.web.typing(place, False)
        self.emit(thread, TurnEnded(turn, "answered", text))

    async def say(self, thread: str, text: str, **more: Any) -> str:
        """A row and its sending."""
        row = self.post(thread, text, **more)
        item = self.history_of[thread][-1]
        assert isinstance(item, OutRow)
        for number, part in enumerate(item.parts):
            await self.web.send(part.part, f"{row}.{number}", part.handle)
        return row

    async def ask(self, thread: str, question: Question) -> str:
        """A parked turn's card."""
        card = self.new_id()
        self.asked[card] = Asked(
            Ask(card, "turn1.1", question, "/home/ada"),
            thread,
            "turn1",
            self.addresses[thread],
            "owner",
            "asked",
            T0 + timedelta(days=9999),
            T0,
        )
        text = f"**{question.title}**\n\n{question.detail}"
        row = await self.say(thread, text, id=card, choices=question.choices, card=True)
        self.hint(Hint("approval", thread))
        return row

    def ports(self) -> Ports:
        return Ports(
            self,
            self.status,
            self,
            self.publish_wake,
            self,
            self,
            self,
            self,
            parse_address,
            self.web.browser,
            self.log,
            hooks=self.hooks,
            limits=self.limits,
        )

    @asynccontextmanager
    async def open(
        self,
        run: Path,
        *,
        port: int = 0,
        names: frozenset[str] = frozenset(),
        ancestry: Ancestry | None = None,
    ) -> AsyncGenerator[Doors]:
        """The web channel receives and control serves; without ``ancestry`` children of this
        process are let in, too."""
        self._state = run / "state"
        self._state.mkdir(parents=True, exist_ok=True)
        place = Place(run, Listen("127.0.0.1", port), names, ancestry=ancestry)
        control = Control(self.ports(), place, Metrics())
        async with control.serving() as doors, self.web.connect():
            receiving = asyncio.create_task(self.web.receive(self))
            try:
                await asyncio.sleep(0)
                yield doors
            finally:
                receiving.cancel()


def said(place: Address, text: str, key: str) -> Inbound:
    at = datetime.now(UTC)
    person = Person(PersonId("U1"), "Ada")
    return inbound(place, text, key, person=person, at=at)


def _beginning(item: ArrivalInfo) -> Beginning:
    arrival = item.arrival
    if isinstance(arrival, Inbound):
        return Beginning(arrival.text, item.person, arrival.person.name)
    return Beginning(arrival.prompt if isinstance(arrival, Wake) else "")


Listed = TypeVar("Listed", ThreadInfo, ArrivalInfo, OutRow)


def _page(items: list[Listed], limit: int, after: Spot | None) -> list[Listed]:
    def place(item: Listed) -> tuple[int, int, str, int]:
        return _order(spot_of(item))

    return [
        item for item in sorted(items, key=place) if after is None or place(item) > _order(after)
    ][:limit]


def _order(spot: Spot) -> tuple[int, int, str, int]:
    return spot.group, -spot.at, spot.id, -spot.seq


def parse_address(text: str) -> Address:
    channel, colon, rest = text.partition(":")
    if not colon or channel not in ("web", "slack"):
        raise ValueError(f"{text}: CHANNEL:REST is wanted, for example slack:C123")
    return Address(channel, "local", ChatId(rest))


PERMISSION = Question(
    "permission",
    "Bash wants to run a command",
    "```sh\nrm -r build/\n```\nin `/home/ada/project`",
    (
        Choice("allow:once", "Allow once", "good"),
        Choice("allow:session", "Allow for this session"),
        Choice("allow:always", "Always allow"),
        Choice("deny", "Deny", "danger"),
    ),
    "digest",
)
