"""What slash commands can see of the house, in words."""

from __future__ import annotations

from datetime import UTC, datetime

from channels.contract import Address, ChatId, MessageId
from ohmo.ambient import IdSource
from ohmo.approvals.questions import OpenQuestions
from ohmo.assembly.house import commands
from ohmo.contracts.messages import ModelStep, Text, Usage, UserStep
from ohmo.contracts.reports import HouseStatus
from ohmo.contracts.turns import End, Seat
from ohmo.gateway.access import Access, Policy, Roles
from ohmo.gateway.orders import CommandQueries
from tests.makers import inbound
from tests.store_model.store import MemoryStore

NOW = datetime(2026, 1, 1, 9, 30, tzinfo=UTC)
HERE = Address("web", "local", ChatId("main"))


async def status() -> HouseStatus:
    return HouseStatus(True, "1", NOW, "offline", "none", {}, {}, {}, None, 0, 0, {}, {})


class Scene:
    def __init__(self) -> None:
        self.store = MemoryStore(clock=lambda: NOW)
        questions = OpenQuestions(self.store)
        rules = Access(
            lambda _, __: Policy(),
            Roles({}),
            is_command=lambda _: False,
            open_question=questions.at,
        )
        self.desk = CommandQueries(
            self.store,
            self.store,
            status,
            lambda _: None,
            commands(),
            questions,
            rules,
            lambda: NOW,
        )
        self.new_id = IdSource()

    async def hears(self, text: str, at: Address = HERE) -> tuple[str, int]:
        said = inbound(at, text, f"{at.chat}{text}", at=NOW, order=text, message=MessageId(text))
        (accepted,) = await self.store.accept([(said, Seat("", "message"))])
        return accepted.thread, accepted.seq

    async def answers(self) -> None:
        (claim,) = await self.store.claim("me", limit=1, ttl=30)
        work = await self.store.work(
            claim,
            self.new_id(),
            collect=False,
            step=lambda _: UserStep((Text("x"),), "ada", "message"),
        )
        assert work is not None
        step = ModelStep((Text("done"),), "m", "end")
        await self.store.record(
            claim, work.turn, [step], usage=Usage("big-model", "turn", 100, 50, 25, 10, 12_345)
        )
        await self.store.finish(claim, work.turn, [], [], End("done"))


async def test_the_inbox_of_a_thread_shows_what_waits_there_and_nothing_else() -> None:
    scene = Scene()
    thread, first = await scene.hears("a")
    _, second = await scene.hears("b")
    await scene.hears("c", Address("web", "local", ChatId("other")))
    assert (
        await scene.desk.inbox_of(thread)
        == f"- {first}: waiting since 09:30:00 UTC\n- {second}: waiting since 09:30:00 UTC"
    )
    assert await scene.desk.inbox_of("nowhere") == "Nothing waits here."


async def test_why_tells_what_became_of_a_message() -> None:
    scene = Scene()
    thread, first = await scene.hears("a")
    await scene.answers()
    _, second = await scene.hears("b")
    assert (
        await scene.desk.why(thread, str(first))
        == f"Message {first} of 2026-01-01 09:30:00 UTC: answered."
    )
    assert (
        await scene.desk.why(thread, "") == f"Message {second} of 2026-01-01 09:30:00 UTC: waiting."
    )
    assert await scene.desk.why(thread, "999") == "There is no such message here."
    assert await scene.desk.why("nowhere", "") == "There is no such message here."
    for wrong in ("one", "²", "9" * 30):
        assert (
            await scene.desk.why(thread, wrong)
            == f"`/why {wrong}`: a message has a number; `/inbox` shows them."
        )


async def test_the_usage_of_today_names_models_tokens_and_money() -> None:
    scene = Scene()
    assert await scene.desk.usage_today() == "Nothing was spent today."
    await scene.hears("a")
    await scene.answers()
    assert (
        await scene.desk.usage_today()
        == "Today:\n\n- big-model: 1 calls, 175 tokens in (50 from cache), 10 out, $0.0123"
    )
