"""What becomes of a turn when the model, the store, the clock or the turn itself fails."""

from __future__ import annotations

import asyncio
from dataclasses import replace

from pool_rig import PLACE, Rig, violations

from channels.contract import ChatId
from ohmo.contracts.errors import BadKey, Overloaded
from ohmo.contracts.messages import CallResult
from ohmo.sessions import user_steps
from ohmo.sessions.admission import DEATHS, PoisonTurns
from ohmo_testing.house import eventually
from ohmo_testing.scripted import Says

OTHER = replace(PLACE, chat=ChatId("C2"))


async def test_three_exceptions_end_a_turn_with_words_and_the_next_message_goes_on() -> None:
    rig = Rig()

    def poison(name: str) -> None:
        if name == "model.chunk" and rig.endings()[0] == "taken":
            raise RuntimeError("poison")

    rig.failpoint = poison
    await rig.says("bad")
    await rig.says("good")
    async with rig.life():
        for tries in range(1, 4):
            await eventually(lambda tries=tries: len(rig.model.requests) >= tries)  # type: ignore[misc]
            await eventually(
                lambda: (
                    not any(row.owner for row in rig.store.tables.threads.values())
                    or rig.endings()[0] != "taken"
                )
            )
            rig.clock.tick(10)
        await rig.quiet()
    assert rig.endings() == ["dead", "answered"]
    assert len(rig.model.requests) == 4
    assert "failed 3 times" in rig.said()[0]
    assert rig.dead == ["it failed 3 times"]
    assert rig.said()[1] == "echo: good"


async def test_eight_deaths_end_a_turn_and_its_calls_are_closed() -> None:
    rig = Rig(lived=3600.0)
    rig.once.gate = asyncio.Event().wait
    rig.model.next(Says("", calls=(("Once", {"name": "a"}),)))
    rig.model.default = lambda request: Says("never", before=asyncio.Event().wait)
    await rig.says("deadly")
    for _ in range(DEATHS):
        await rig.killed_after(80)
        assert rig.endings() == ["taken"]
    async with rig.life():
        await rig.quiet()
    assert rig.endings() == ["dead"]
    assert "ended the process 8 times" in rig.said()[0]
    assert rig.once.begun == {"a": 1}
    assert violations(rig.steps()) == []


async def test_a_model_that_is_away_keeps_the_message_says_so_once_and_answers_later() -> None:
    rig = Rig()
    rig.model.default = lambda request: Overloaded("529 overloaded", retry_after=7.0)
    await rig.says("hello")
    await rig.says("still there?")
    for tries in range(1, 4):
        async with rig.life():  # also over restarts
            await eventually(lambda tries=tries: len(rig.model.requests) >= tries)  # type: ignore[misc]
            await eventually(lambda: rig.outcomes().count("released") == len(rig.model.requests))
        rig.clock.tick(400)
    assert rig.endings() == ["taken", "waiting"]
    assert rig.said() == [user_steps.waiting("529 overloaded")]
    rig.model.default = lambda request: "here I am"
    async with rig.life():
        await rig.quiet()
    assert rig.said()[1:] == ["here I am", "here I am"]
    assert rig.endings() == ["answered", "answered"]


async def test_a_model_that_will_never_answer_ends_the_turn_with_the_reason() -> None:
    rig = Rig()
    rig.model.next(BadKey("the key was refused"))
    await rig.says("hello")
    async with rig.life():
        await rig.quiet()
    assert rig.endings() == ["dead"]
    assert "the key was refused" in rig.said()[0]


async def test_a_store_that_is_away_does_not_count_against_the_turn() -> None:
    rig = Rig()
    await rig.says("hello")
    async with rig.life():
        for tries in range(1, 6):
            rig.handles[-1].away = {"finish"}
            await eventually(lambda tries=tries: rig.handles[-1].calls["finish"] >= tries)  # type: ignore[misc]
            await eventually(lambda tries=tries: rig.handles[-1].calls["release"] >= tries)  # type: ignore[misc]
            rig.clock.tick(10)
        rig.handles[-1].away = set()
        await rig.quiet()
    assert rig.endings() == ["answered"]


async def test_a_lost_lease_ends_the_turn_here_and_writes_nothing() -> None:
    rig = Rig()
    rig.once.gate = asyncio.Event().wait
    rig.model.next(Says("", calls=(("Once", {"name": "a"}),)))
    await rig.says("hello")
    async with rig.life() as pool:
        await eventually(lambda: rig.once.running == 1)
        thread = next(iter(rig.store.tables.threads))
        rig.store.change(thread, owner="another", generation=99)
        rig.clock.tick(20)  # more than half a lease: renewed before anything is claimed
        await eventually(lambda: pool.running == 0)
    assert rig.once.running == 0
    assert [step for step in rig.steps() if isinstance(step, CallResult)] == []
    assert rig.endings() == ["taken"]


async def test_a_clock_that_jumps_forward_does_not_take_running_turns_their_lease() -> None:
    rig, gate = Rig(), asyncio.Event()
    rig.once.gate = gate.wait
    rig.model.next(Says("", calls=(("Once", {"name": "a"}),)))
    await rig.says("long work")
    async with rig.life():
        await eventually(lambda: rig.once.running == 1)
        rig.clock.tick(8 * 3600)  # the machine slept
        await rig.says("elsewhere", OTHER)
        await eventually(lambda: rig.said(OTHER) != [])
        gate.set()
        await rig.quiet()
    assert rig.once.done == {"a": 1}
    assert rig.said() == ["echo: long work"]


async def test_a_clock_that_jumps_back_does_not_stop_a_running_turn() -> None:
    rig, gate = Rig(), asyncio.Event()
    rig.model.default = lambda request: Says("done", before=gate.wait)
    await rig.says("work")
    async with rig.life():
        await eventually(lambda: len(rig.model.requests) == 1)
        rig.clock.tick(-3600)
        gate.set()
        await rig.quiet()
    assert rig.said() == ["done"]


async def test_the_same_call_with_the_same_result_ends_the_run_after_five() -> None:
    rig = Rig()
    rig.model.default = lambda request: Says("", calls=(("Look", {"name": "same"}),))
    await rig.says("go")
    async with rig.life():
        await rig.quiet()
    results = [step.result.text for step in rig.steps() if isinstance(step, CallResult)]
    assert len(results) == 5
    assert [("has now given" in text) for text in results] == [False, False, True, True, True]
    assert rig.endings() == ["dead"]
    assert "again and again" in rig.said()[0]


async def test_a_turn_has_a_limit_of_model_calls_and_its_last_calls_are_closed_as_not_run() -> None:
    rig = Rig(max_steps=3)
    numbers = iter(range(100))
    rig.model.default = lambda request: Says("", calls=(("Look", {"name": str(next(numbers))}),))
    await rig.says("go")
    async with rig.life():
        await rig.quiet()
    assert len(rig.model.requests) == 3
    assert "limit of 3 model calls" in rig.said()[0]
    assert [step.result.text for step in rig.steps() if isinstance(step, CallResult)][
        -1
    ] == user_steps.NOT_RUN
    assert violations(rig.steps()) == []


async def test_an_agent_that_ends_without_a_word_ends_the_turn_with_one() -> None:
    class Silent:
        async def run(self, turn: str, ledger: object):  # type: ignore[no-untyped-def]
            return
            yield

    rig = Rig(agent=Silent())  # type: ignore[arg-type]
    await rig.says("go")
    async with rig.life():
        await rig.quiet()
    assert "without an outcome" in rig.said()[0]


async def test_a_suspect_runs_alone_and_others_wait_for_it() -> None:
    suspects, order, gate = PoisonTurns(), [], asyncio.Event()

    async def one(name: str, suspect: bool, until: asyncio.Event) -> None:
        async with suspects.among(suspect):
            order.append(f"{name} begins")
            await until.wait()
        order.append(f"{name} ends")

    first = asyncio.create_task(one("first", False, gate))
    await asyncio.sleep(0)
    go = asyncio.Event()
    go.set()
    suspect = asyncio.create_task(one("suspect", True, go))
    await asyncio.sleep(0)
    later = asyncio.create_task(one("later", False, go))
    for _ in range(5):
        await asyncio.sleep(0)
    assert order == ["first begins"]
    gate.set()
    await asyncio.gather(first, suspect, later)
    assert order.index("suspect begins") > order.index("first begins")
    assert order.index("later begins") > order.index("suspect begins")


async def test_a_cancelled_suspect_lets_the_others_go_on() -> None:
    suspects = PoisonTurns()
    held = asyncio.Event()

    async def hold() -> None:
        async with suspects.among(False):
            await held.wait()

    async def suspicious() -> None:
        async with suspects.among(True):
            raise AssertionError("it was cancelled before")

    holder = asyncio.create_task(hold())
    await asyncio.sleep(0)
    suspect = asyncio.create_task(suspicious())
    await asyncio.sleep(0)
    suspect.cancel()
    await asyncio.wait([suspect])
    async with asyncio.timeout(5), suspects.among(False):
        held.set()
    await holder
