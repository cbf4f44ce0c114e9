"""One function answers a question, whoever gives the answer and wherever."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from channels.contract import Address, ChatId, Choice, MessageId, Part, Receipt
from ohmo.approvals.answering import NOT_YOURS, Answerer, Approvals, Granting, Refused
from ohmo.approvals.cards import MOST, card, closing
from ohmo.commands.contract import Decide
from ohmo.contracts.messages import Text, UserStep
from ohmo.contracts.outbox import Ask, PartState
from ohmo.contracts.tool import Question
from ohmo.contracts.turns import Seat
from ohmo_testing.house import BIRTH, ManualClock
from tests.makers import inbound
from tests.store_model.store import MemoryStore

CHAT = Address("slack", "T1", ChatId("C1"))
ALLOW = (Choice("once", "Allow once"), Choice("session", "For this session"))
PERMISSION = Question("permission", "Bash: ls", "command: `ls`", ALLOW, "d", rule="Bash(ls:*)")
OWNER = Answerer("owner", "owner")


class Scene:
    """A turn that waits for the answer to a question."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.store = MemoryStore(clock=self.clock)
        self.count = 0
        granting = Granting(self.store.thread, self.new_id, self.clock)
        self.approvals = Approvals(self.store, card, granting, self.new_id, lambda _: None)

    def new_id(self) -> str:
        self.count += 1
        return f"n{self.count}".ljust(22, "0")

    async def asks(self, *questions: Question) -> list[str]:
        said = inbound(
            CHAT, "do it", "k", at=BIRTH, order="1", message=MessageId("1"), private=False
        )
        await self.store.accept([(said, Seat("", "message"))])
        (claim,) = await self.store.claim("me", limit=1, ttl=30)

        def step(_: Any) -> UserStep:
            return UserStep((Text("do it"),), "ada", "message")

        work = await self.store.work(claim, "turn".ljust(22, "0"), collect=False, step=step)
        assert work is not None
        asks = [Ask(self.new_id(), f"t.{n}", one, "/") for n, one in enumerate(questions)]
        close = closing(self.new_id, "parked")
        await self.store.park(claim, work.turn, asks, timeout=300, card=card, closing=close)
        return [ask.id for ask in asks]


@pytest.fixture
def scene() -> Scene:
    return Scene()


@pytest.mark.parametrize(
    ("decision", "note"),
    [
        (lambda ask: Decide(ask, "allowed"), "Allowed once by owner"),
        (lambda ask: Decide(ask, "allowed", "session"), "Allowed for this session by owner"),
        (lambda ask: Decide(ask, "denied", word="no"), "Denied by owner"),
    ],
)
async def test_the_keyboard_and_the_page_close_a_card_in_the_words_of_a_chat(
    scene: Scene, decision: Callable[[str], Decide], note: str
) -> None:
    (ask,) = await scene.asks(PERMISSION)
    await scene.store.sending(ask, [])
    await scene.store.sent(ask, [])
    assert await scene.approvals.answer(decision(ask), OWNER) == "ok"
    rows = [one.row.row for one in scene.store.tables.posts.values() if one.row.row.target == ask]
    assert [row.outbound.text for row in rows] == [f"**Bash: ls**\n\ncommand: `ls`\n\n_{note}_"]
    assert await scene.approvals.answer(decision(ask), OWNER) == "late"
    assert await scene.approvals.answer(Decide("never", "allowed"), OWNER) == "unknown"


async def test_who_may_not_answer_changes_nothing(scene: Scene) -> None:
    (ask,) = await scene.asks(PERMISSION)
    bob = Answerer("bob", "Bob", may=lambda _: False)
    assert await scene.approvals.answer(Decide(ask, "denied"), bob) is NOT_YOURS
    assert await scene.store.question(ask) is not None


async def test_what_a_chat_cannot_show_whole_is_allowed_at_the_owners_door_alone(
    scene: Scene,
) -> None:
    long = Question("permission", "Write", "x" * (MOST + 1), ALLOW, "d")
    (ask,) = await scene.asks(long)
    ada = Answerer("ada", "Ada", place=CHAT)
    refused = await scene.approvals.answer(Decide(ask, "allowed"), ada)
    assert isinstance(refused, Refused)
    assert "cannot be allowed here" in refused.text
    assert await scene.approvals.answer(Decide(ask, "allowed"), OWNER) == "ok"


async def test_words_mean_the_card_that_stood_there_when_they_were_said(scene: Scene) -> None:
    (ask,) = await scene.asks(PERMISSION)
    shown = BIRTH + timedelta(seconds=5)
    receipt = Receipt(MessageId("9"), shown)
    await scene.store.sending(ask, [PartState(Part("post", "{}"))])
    await scene.store.sent(ask, [PartState(Part("post", "{}"), receipt)])
    before = Answerer("ada", "Ada", said_at=shown - timedelta(seconds=1))
    refused = await scene.approvals.answer(Decide(ask, "allowed"), before)
    assert isinstance(refused, Refused)
    after = Answerer("ada", "Ada", said_at=shown + timedelta(seconds=1))
    assert await scene.approvals.answer(Decide(ask, "allowed"), after) == "ok"


async def test_what_a_removed_job_asks_is_withdrawn_one_after_the_other(scene: Scene) -> None:
    asks = await scene.asks(PERMISSION, PERMISSION)
    await scene.approvals.withdraw(["turn".ljust(22, "0")])
    assert await scene.store.open_questions() == []
    assert [await scene.store.question(ask) for ask in asks] == [None, None]
    await scene.approvals.withdraw(["another"])
