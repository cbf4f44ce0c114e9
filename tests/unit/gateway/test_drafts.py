"""What is seen while a turn runs: one draft, typing that ends, and never an older text over a newer
one."""

# pyright: reportPrivateUsage=false

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any

import pytest
from gateway_words import BIRTH, Odd, Stage, ended, ident, place, until

from channels.contract import Address, MessageId, Outbound, Part, Receipt
from channels.errors import NotReady, RateLimited
from ohmo.bus import EventStream
from ohmo.contracts.agent import (
    ModelDone,
    Status,
    TextDelta,
    TextReset,
    ToolDone,
    ToolRefused,
    ToolStarted,
    TurnEnded,
    TurnStarted,
)
from ohmo.contracts.messages import ToolResult, Usage
from ohmo.contracts.outbox import OutRow, PartState, PostRow
from ohmo.gateway.drafts import DraftRows, Drafts, Look, Way
from ohmo_testing.channels import EVERYTHING, Shown

EDITS = replace(EVERYTHING, preview=False, revise=timedelta(seconds=3))
USAGE = Usage("m", "turn", 0, 0, 0, 0, 0)
THREAD, TURN = "thread", "turn"
FOOT = "_0 in / 0 out · 0 s · 1 turn · 1 call_"


class Gate:
    """Sleeping ends when the test says so."""

    def __init__(self) -> None:
        self.asked: list[float] = []
        self._sleepers: list[asyncio.Future[None]] = []

    async def __call__(self, seconds: float) -> None:
        self.asked.append(seconds)
        sleeper = asyncio.get_running_loop().create_future()
        self._sleepers.append(sleeper)
        await sleeper

    async def passes(self) -> None:
        """Everybody who sleeps wakes once."""
        await settled()
        sleepers, self._sleepers = self._sleepers, []
        for sleeper in sleepers:
            if not sleeper.done():
                sleeper.set_result(None)
        await settled()


@dataclass
class Screen:
    stage: Stage
    drafts: Drafts
    stream: EventStream
    gate: Gate
    opened: list[PostRow] = field(default_factory=list[PostRow])
    refuse: bool = False
    old: OutRow | None = None  # the draft an earlier run of the turn left

    def say(self, event: Any) -> None:
        self.stream.emit(THREAD, event)

    async def begins(self, at: Address | None = None, turn: str = TURN) -> None:
        self.say(TurnStarted(turn, "ada", at or place()))
        slots = self.drafts._slots
        await until(
            lambda: (
                THREAD in slots and slots[THREAD].turn == turn and slots[THREAD].life is not None
            )
        )
        await settled()

    def shown(self, message: str = "m1") -> None:
        """Delivery has sent the draft's row."""
        row = self.opened[-1]
        self.drafts.shown(out(row), [Receipt(MessageId(message))])

    def revisions(self) -> list[str]:
        return [call.text for call in self.stage.platform.calls if call.method == "revise"]


def out(row: PostRow) -> OutRow:
    return OutRow(row, THREAD, 1, TURN, "sent", (), 0, BIRTH, BIRTH, BIRTH)


async def settled() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


@asynccontextmanager
async def screen(stage: Stage, able: Any = EDITS, way: Way | None = None) -> AsyncGenerator[Screen]:
    stage.channel.capabilities = able
    stage.platform.chats["dm:ada"] = []
    stream, gate = EventStream(), Gate()
    numbers = iter(range(100))

    async def open_draft(thread: str, turn: str, row: PostRow) -> bool:
        assert (thread, turn) == (THREAD, TURN)
        made.opened.append(row)
        return not made.refuse

    async def standing(turn: str) -> OutRow | None:
        return made.old if turn == TURN else None

    rows = DraftRows(open_draft, lambda: ident(f"d{next(numbers)}"), standing)
    drafts = Drafts(
        stage.channel,
        "fake",
        stream.listen,
        rows,
        Look(way),
        pace=stage.pace,
        sleep=gate,
        now=lambda: 0.0,
    )
    made = Screen(stage, drafts, stream, gate)
    task = asyncio.create_task(drafts.run())
    await settled()
    try:
        yield made
    finally:
        await ended(task)


async def test_a_turn_opens_one_draft_and_its_text_is_frozen(stage: Stage) -> None:
    async with screen(stage) as seen:
        await seen.begins()
        seen.say(TextDelta(TURN, "Hello"))
        await settled()
        assert seen.opened == []  # a short answer comes whole
        await seen.gate.passes()
        assert [(row.kind, row.outbound) for row in seen.opened] == [
            ("draft", Outbound(place(), "Hello", draft=True))
        ]
        seen.say(TextDelta(TURN, " world"))
        for _ in range(5):
            await seen.gate.passes()
        assert len(seen.opened) == 1
        assert seen.revisions() == []  # nothing to revise before its receipt


async def test_revisions_wait_for_the_receipt_and_skip_what_is_older(stage: Stage) -> None:
    async with screen(stage) as seen:
        stage.platform.post(place(), Shown("", "x", by_bot=True), "k", fold=False)
        await seen.begins()
        seen.say(TextDelta(TURN, "a"))
        await seen.gate.passes()
        seen.say(TextDelta(TURN, "b"))
        seen.shown()
        seen.say(TextDelta(TURN, "c"))
        await seen.gate.passes()
        assert seen.revisions() == ["abc"]
        seen.say(TextDelta(TURN, "d"))
        seen.say(TextDelta(TURN, "e"))
        await settled()
        assert seen.revisions() == ["abc"]  # paced
        await seen.gate.passes()
        assert seen.revisions() == ["abc", "abcde"]
        assert 3.0 in seen.gate.asked


async def test_a_text_that_begins_anew_replaces_the_old_one(stage: Stage) -> None:
    async with screen(stage, EVERYTHING) as seen:
        await seen.begins()
        for event in (TextDelta(TURN, "old"), TextReset(TURN), TextDelta(TURN, "new")):
            seen.say(event)
        await settled()
        await seen.gate.passes()
        assert seen.stage.platform.previews == ["new"]
        for event in (ModelDone(TURN, "new", USAGE), ToolStarted(TURN, "c", "Bash", "ls")):
            seen.say(event)
        await seen.gate.passes()
        assert seen.stage.platform.previews[-1] == f"new\n\n💻 Bash `ls`\n{FOOT}"
        seen.say(TextDelta(TURN, "next"))
        await seen.gate.passes()
        assert seen.stage.platform.previews[-1] == f"next\n\n💻 Bash `ls`\n{FOOT}"
        seen.say(Status(TURN, "the model is busy"))
        await seen.gate.passes()
        assert (
            seen.stage.platform.previews[-1] == f"next\n\n💻 Bash `ls`\n_the model is busy_\n{FOOT}"
        )
        assert seen.opened == []


async def test_only_the_end_of_a_long_text_is_previewed(stage: Stage) -> None:
    async with screen(stage, replace(EVERYTHING, max_text=10)) as seen:
        await seen.begins()
        seen.say(TextDelta(TURN, "0123456789abcdef"))
        await settled()
        await seen.gate.passes()
        assert seen.stage.platform.previews == ["…789abcdef"]


async def test_a_revision_that_fails_is_dropped(stage: Stage) -> None:
    async with screen(stage, EVERYTHING) as seen:
        await seen.begins()
        stage.platform.fail("revise", NotReady("away"))
        seen.say(TextDelta(TURN, "a"))
        await settled()
        await seen.gate.passes()
        seen.say(TextDelta(TURN, "b"))
        await seen.gate.passes()
        assert seen.stage.platform.previews == ["ab"]


async def test_typing_goes_on_until_the_end_and_is_taken_back(stage: Stage) -> None:
    async with screen(stage, replace(EDITS, revise=None)) as seen:
        await seen.begins()
        await seen.gate.passes()
        seen.say(TurnEnded(TURN, "answered", "x"))
        await until(lambda: (place(), False) in stage.platform.typing)
        assert stage.platform.typing == [(place(), True), (place(), True), (place(), False)]


@pytest.mark.parametrize("outcome", ["answered", "parked", "failed", "stopped", "released"])
async def test_whatever_ends_the_turn_ends_typing_and_revisions(stage: Stage, outcome: Any) -> None:
    async with screen(stage) as seen:
        await seen.begins()
        seen.say(TextDelta(TURN, "a"))
        seen.say(TurnEnded(TURN, outcome, ""))
        await until(lambda: stage.platform.typing[-1:] == [(place(), False)])
        for _ in range(3):
            await seen.gate.passes()
        assert (seen.opened, seen.revisions()) == ([], [])


async def test_a_refused_draft_is_not_asked_for_again_and_typing_goes_on(stage: Stage) -> None:
    """A turn that continues after a crash has its draft already: the answer will take its place."""
    async with screen(stage) as seen:
        seen.refuse = True
        await seen.begins()
        seen.say(TextDelta(TURN, "a"))
        await seen.gate.passes()
        seen.say(TextDelta(TURN, "b"))
        for _ in range(4):
            await seen.gate.passes()
        assert (len(seen.opened), seen.revisions()) == (1, [])
        assert stage.platform.typing[-1] == (place(), True)


async def test_a_turn_that_goes_on_grows_in_the_draft_it_left(stage: Stage) -> None:
    async with screen(stage) as seen:
        receipt = stage.platform.post(place(), Shown("", "half", by_bot=True), "k", fold=False)
        old = out(PostRow(ident("old"), "draft", Outbound(place(), "half")))
        seen.refuse, seen.old = True, replace(old, parts=(PartState(Part("post", "{}"), receipt),))
        await seen.begins()
        seen.say(TextDelta(TURN, "again"))
        for _ in range(3):
            await seen.gate.passes()
        assert stage.texts() == ["again"]
        assert seen.drafts.newest(ident("old")) == "again"


async def test_a_draft_that_is_settled_after_the_restart_is_found_when_it_is_visible(
    stage: Stage,
) -> None:
    """Whether it stands was not known at the crash: delivery finds out, before or after the turn
    goes on."""
    async with screen(stage) as seen:
        receipt = stage.platform.post(place(), Shown("", "half", by_bot=True), "k", fold=False)
        old = out(PostRow(ident("old"), "draft", Outbound(place(), "half")))
        seen.refuse, seen.old = (
            True,
            replace(old, state="sending", parts=(PartState(Part("post", "{}")),)),
        )
        seen.drafts.shown(old, [receipt])
        await seen.begins()
        seen.say(TextDelta(TURN, "again"))
        for _ in range(3):
            await seen.gate.passes()
        assert stage.texts() == ["again"]


async def test_time_alone_is_no_reason_to_revise(stage: Stage) -> None:
    async with screen(stage, EVERYTHING) as seen:
        await seen.begins()
        seen.say(ToolStarted(TURN, "c", "Bash", "sleep 60"))
        for _ in range(6):
            await seen.gate.passes()
        assert len(stage.platform.previews) == 1
        seen.say(ToolDone(TURN, "c", ToolResult("c", "done\n")))
        for _ in range(3):
            await seen.gate.passes()
        assert [shown.splitlines()[0] for shown in stage.platform.previews] == [
            "💻 Bash `sleep 60`",
            "💻 Bash `sleep 60` → 1 line",
        ]


async def test_a_call_that_was_refused_has_a_line_too(stage: Stage) -> None:
    async with screen(stage, EVERYTHING) as seen:
        await seen.begins()
        seen.say(ToolRefused(TURN, "c", "Bash", "rm -rf /"))
        seen.say(ToolDone(TURN, "c", ToolResult("c", "Not allowed (rule): no", error=True)))
        for _ in range(3):
            await seen.gate.passes()
        assert stage.platform.previews[-1].splitlines()[0] == "💻 Bash `rm -rf /` ✗ 1 line"


@pytest.mark.parametrize("everywhere", [False, True])
async def test_a_platform_that_asks_to_wait_is_not_revised_meanwhile(
    stage: Stage, everywhere: bool
) -> None:
    async with screen(stage, EVERYTHING) as seen:
        await seen.begins()
        stage.platform.fail("revise", RateLimited(60.0, everywhere=everywhere))
        seen.say(TextDelta(TURN, "a"))
        await settled()
        await seen.gate.passes()
        seen.say(TextDelta(TURN, "b"))
        await seen.gate.passes()
        assert len(seen.revisions()) == 1
        assert any(50 < seconds <= 60 for seconds in seen.gate.asked)
        now = asyncio.get_running_loop().time()
        assert stage.pace.wait("dm:ada", now) > 50
        assert (stage.pace.wait("another", now) > 50) is everywhere


class Slow(Odd):
    """A revision takes as long as the test wants."""

    def __init__(self, stage: Stage) -> None:
        super().__init__(stage.platform, EDITS)
        self._account = "bot"
        self.begun = asyncio.Event()
        self.go_on = asyncio.Event()
        self.done: list[str] = []

    async def revise(self, address: Address, receipt: Receipt | None, text: str) -> None:
        del address, receipt
        self.begun.set()
        await self.go_on.wait()
        self.done.append(text)


async def test_what_replaces_a_draft_waits_for_the_revision_in_flight_and_none_follows(
    stage: Stage,
) -> None:
    slow = stage.channel = Slow(stage)
    async with screen(stage) as seen:
        await seen.begins()
        seen.say(TextDelta(TURN, "a"))
        await seen.gate.passes()
        seen.shown()
        await seen.gate.passes()
        seen.say(TextDelta(TURN, "b"))
        await seen.gate.passes()
        await asyncio.wait_for(slow.begun.wait(), 30)
        seen.say(TurnEnded(TURN, "answered", "whole"))
        final = PostRow(
            ident("final"), "edit", Outbound(place(), "whole"), target=seen.opened[0].id
        )
        waiting = asyncio.create_task(seen.drafts.make_way(out(final)))
        await settled()
        assert not waiting.done()
        slow.go_on.set()
        await asyncio.wait_for(waiting, 30)
        assert len(slow.done) == 1
        seen.say(TextDelta(TURN, "c"))
        await seen.gate.passes()
        assert len(slow.done) == 1


async def test_other_rows_wait_for_nobody(stage: Stage) -> None:
    async with screen(stage) as seen:
        await asyncio.wait_for(
            seen.drafts.make_way(out(PostRow(ident("x"), "message", Outbound(place(), "x")))), 30
        )


async def test_a_turn_that_answers_elsewhere_is_not_shown_here(stage: Stage) -> None:
    async with screen(stage) as seen:
        for at in (None, place(channel="other"), Address("fake", "another bot", place().chat)):
            seen.say(TurnStarted(TURN, "ada", at))
        await settled()
        assert seen.drafts._slots == {}


async def test_a_newer_turn_of_the_thread_takes_the_place_of_the_old_one(stage: Stage) -> None:
    async with screen(stage) as seen:
        await seen.begins(turn="old")
        await seen.begins()
        seen.say(TextDelta("old", "stale"))
        for _ in range(3):
            await seen.gate.passes()
        assert seen.opened == []


@pytest.mark.parametrize(
    ("able", "wanted", "previews", "drafts"),
    [
        (EVERYTHING, None, 1, 0),
        (EVERYTHING, "edits", 0, 1),
        (EVERYTHING, "off", 0, 0),
        (EDITS, None, 0, 1),
        (EDITS, "preview", 0, 1),
        (replace(EDITS, revise=None), "edits", 0, 0),
        (replace(EDITS, revise=None), None, 0, 0),
    ],
)
async def test_what_was_asked_for_is_done_where_the_platform_can(
    stage: Stage, able: Any, wanted: Way | None, previews: int, drafts: int
) -> None:
    async with screen(stage, able, wanted) as seen:
        await seen.begins()
        seen.say(TextDelta(TURN, "a"))
        await settled()
        await seen.gate.passes()
        assert (len(stage.platform.previews), len(seen.opened)) == (previews, drafts)


async def test_a_draft_that_can_only_grow_holds_whole_words_of_the_answer_and_nothing_else(
    stage: Stage,
) -> None:
    async with screen(stage, replace(EDITS, appends=True)) as seen:
        await seen.begins()
        seen.say(ToolStarted(TURN, "c1", "Read", "a.txt"))
        seen.say(TextDelta(TURN, "My key: sk-hal"))
        await settled()
        await seen.gate.passes()
        assert [row.outbound.text for row in seen.opened] == ["My key:"]
        seen.shown()
        seen.say(TextDelta(TURN, "f is kept"))
        for _ in range(5):
            await seen.gate.passes()
        assert seen.revisions()[-1] == "My key: sk-half is"


async def test_an_answer_waits_for_the_typing_that_is_on_its_way(stage: Stage) -> None:
    """Else the platform shows "is typing" again beneath the answer."""
    async with screen(stage, replace(EDITS, revise=None)) as seen:
        stage.channel.types.clear()
        await seen.begins()
        answer = out(PostRow(ident("answer"), "message", Outbound(place(), "done")))
        waits = asyncio.create_task(seen.drafts.make_way(answer))
        await settled()
        assert not waits.done()
        stage.channel.types.set()
        await until(waits.done)
        assert stage.platform.typing == [(place(), True)]


async def test_of_two_turns_in_one_place_the_last_takes_typing_back(stage: Stage) -> None:
    async with screen(stage, replace(EDITS, revise=None)) as seen:
        await seen.begins()
        seen.stream.emit("other", TurnStarted("other", "bob", place()))
        await until(
            lambda: "other" in seen.drafts._slots and seen.drafts._slots["other"].life is not None
        )
        await settled()
        seen.say(TurnEnded(TURN, "answered", "x"))
        await settled()
        assert (place(), False) not in stage.platform.typing
        seen.stream.emit("other", TurnEnded("other", "answered", "x"))
        await until(lambda: stage.platform.typing[-1:] == [(place(), False)])
