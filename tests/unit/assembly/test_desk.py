"""What slash commands can see of the house, in words."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

from channels.contract import Address, ChatId, MessageId
from ohmo.ambient import IdSource
from ohmo.approvals.questions import OpenQuestions
from ohmo.assembly.house import commands
from ohmo.commands import usage
from ohmo.commands.contract import Order, Reply
from ohmo.contracts.messages import ModelStep, Text, Usage, UserStep
from ohmo.contracts.reports import HouseStatus
from ohmo.contracts.spending import Limit, Scope
from ohmo.contracts.turns import End, Seat, ThreadSettings
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
    words, steps = await scene.desk.why(thread, first)
    assert words == f"Message {first} of 2026-01-01 09:30:00 UTC: answered."
    assert [type(step) for step in steps] == [UserStep, ModelStep]
    words, steps = await scene.desk.why(thread, None)
    assert (words, steps) == (f"Message {second} of 2026-01-01 09:30:00 UTC: waiting.", [])
    assert (await scene.desk.why(thread, 999))[0] == "There is no such message here."
    assert (await scene.desk.why("nowhere", None))[0] == "There is no such message here."


async def test_usage_tells_what_was_spent_here_and_today_and_what_is_left() -> None:
    scene = Scene()
    order = Order("th", HERE, "ada", "owner", "", ThreadSettings())
    assert await usage.run(order, scene.desk) == Reply("Nothing was spent today.")
    thread, _ = await scene.hears("a")
    await scene.answers()
    limits: dict[Scope, Limit] = {"day": Limit(1_000, 100_000), "person": Limit(tokens=10)}
    desk = replace(scene.desk, limits=limits)
    assert await usage.run(replace(order, thread=thread), desk) == Reply(
        "- this conversation: 185 tokens, $0.0123\n"
        "- you, today: 0 tokens; left: 10 of 10 tokens\n"
        "- everybody, today: 185 tokens, $0.0123; left: 815 of 1,000 tokens and $0.0877 of"
        " $0.1000\n\n"
        "Today:\n\n- big-model: 1 call, 175 tokens in (50 from cache), 10 out, $0.0123"
    )
