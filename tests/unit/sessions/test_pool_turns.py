"""How messages become turns: one at a time in a thread, side by side otherwise, and by the thread's
busy mode."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace

import pytest
from pool_rig import PLACE, Rig, violations

from channels.contract import ChatId
from ohmo.contracts.agent import ToolDone, TurnEnded
from ohmo.contracts.arrivals import Arrival, Occurrence, Wake
from ohmo.contracts.errors import TooLong
from ohmo.contracts.messages import CallResult, UserStep
from ohmo.contracts.provider import ModelRequest
from ohmo.contracts.turns import Seat
from ohmo.sessions import user_steps
from ohmo_testing.house import eventually
from ohmo_testing.scripted import Says

OTHER = replace(PLACE, chat=ChatId("C2"))


def heard(rig: Rig) -> list[list[str]]:
    """What the model was told by people, request by request."""
    return [
        [
            block.text
            for step in request.steps
            if isinstance(step, UserStep)
            for block in step.blocks
            if hasattr(block, "text")
        ]
        for request in rig.model.requests
    ]


async def test_messages_of_one_thread_are_answered_one_after_the_other() -> None:
    rig = Rig()
    for text in ("one", "two", "three"):
        await rig.says(text)
    async with rig.life():
        await rig.quiet()
    assert rig.said() == ["echo: one", "echo: two", "echo: three"]
    assert rig.endings() == ["answered"] * 3


async def test_threads_run_side_by_side_up_to_the_width() -> None:
    rig, gate = Rig(width=2), asyncio.Event()
    rig.model.default = lambda request: Says("ok", before=gate.wait)
    for number in range(3):
        await rig.says("hello", replace(PLACE, chat=ChatId(f"C{number}")))
    async with rig.life() as pool:
        await eventually(lambda: len(rig.model.requests) == 2)
        assert pool.running == 2
        gate.set()
        await rig.quiet()
    assert len(rig.model.requests) == 3


async def test_a_narrowed_pool_begins_one_turn_after_the_other_and_keeps_no_transcript() -> None:
    rig, gates = Rig(width=3), [asyncio.Event() for _ in range(3)]
    rig.model.default = lambda request: Says("ok", before=gates[len(rig.model.requests) - 1].wait)
    async with rig.life() as pool:
        pool.narrow(1)
        for number in range(3):
            await rig.says("hello", replace(PLACE, chat=ChatId(f"C{number}")))
        await eventually(lambda: len(rig.model.requests) == 1)
        assert pool.running == 1
        gates[0].set()
        await eventually(lambda: len(rig.model.requests) == 2)
        assert pool.running == 1
        pool.narrow(None)
        await eventually(lambda: pool.running == 2)
        for gate in gates:
            gate.set()
        await rig.quiet()
    assert len(rig.model.requests) == 3


async def test_turns_begin_after_a_burst_of_messages_and_not_later_than_they_are_patient() -> None:
    rig = Rig(crowded=True)
    await rig.says("one")
    async with rig.life():
        for _ in range(200):
            await asyncio.sleep(0)
        assert not rig.model.requests  # they give way
        rig.crowded = False  # and nobody rings: they look again by themselves
        await rig.quiet()
        rig.crowded = True
        await rig.says("two")
        await rig.quiet()  # a burst without an end holds nobody up
    assert rig.said() == ["echo: one", "echo: two"]


async def test_jobs_that_are_due_begin_together_before_the_first_of_them_runs() -> None:
    """The last of twelve does not wait for the first words of the others."""
    rig, beside = Rig(width=32), list[int]()

    async def noted(arrival: Arrival) -> Sequence[str]:
        beside.append(pool.running)
        return ()

    rig.fetch = noted
    async with rig.life() as pool:
        await asyncio.sleep(0)  # it naps
        for number in range(12):
            now = rig.clock()
            slot = Occurrence("job", now)
            key = f"cron:{number}"
            wake = Wake(key, "cron", PLACE, None, "owner", "now", now, occurrence=slot)
            pool.storing([(wake, Seat("", "wake"))])
            await rig.says("now", replace(PLACE, chat=ChatId(f"C{number}")))
        await rig.quiet()
    assert beside[0] == 12
    assert len(beside) == 12


async def test_a_thread_that_waits_for_its_tool_delays_no_other() -> None:
    rig, gate = Rig(), asyncio.Event()
    rig.look.gate = gate.wait
    rig.model.next(Says("", calls=(("Look", {}),)))
    await rig.says("slow")
    async with rig.life():
        await eventually(lambda: rig.look.running == 1)
        await rig.says("quick", OTHER)
        await eventually(lambda: rig.said(OTHER) == ["echo: quick"])
        await rig.says("later")  # of the busy thread: it waits, it is not dropped
        gate.set()
        await rig.quiet()
    assert rig.said() == ["echo: slow", "echo: later"]


async def test_collect_takes_everything_that_waits_into_one_turn() -> None:
    rig = Rig(busy="collect")
    for text in ("one", "two"):
        await rig.says(text)
    async with rig.life():
        await rig.quiet()
    assert heard(rig) == [["one", "two"]]
    assert rig.endings() == ["answered", "merged"]


async def test_steer_reads_a_later_message_into_the_running_turn() -> None:
    rig, gate = Rig(busy="steer"), asyncio.Event()
    rig.look.gate = gate.wait
    rig.model.next(Says("", calls=(("Look", {}),)), "done")
    await rig.says("begin")
    async with rig.life():
        await eventually(lambda: rig.look.running == 1)
        await rig.says("but quietly")
        gate.set()
        await rig.quiet()
    assert heard(rig)[-1] == ["begin", "but quietly"]
    assert [step.source for step in rig.steps() if isinstance(step, UserStep)] == [
        "message",
        "steer",
    ]
    assert rig.endings() == ["answered", "merged"]
    assert rig.said() == ["done"]


async def test_interrupt_ends_the_running_turn_and_the_next_one_knows_both_messages() -> None:
    rig, gate = Rig(busy="interrupt"), asyncio.Event()
    rig.once.gate = gate.wait
    rig.model.next(Says("", calls=(("Once", {"name": "a"}),)))
    await rig.says("dig")
    async with rig.life() as pool:
        await eventually(lambda: rig.once.running == 1)
        thread = (await rig.says("stop digging")).thread
        pool.arrived(thread)
        await rig.quiet()
    assert rig.once.running == 0
    assert heard(rig)[-1] == ["dig", "stop digging"]
    assert rig.endings() == ["merged", "answered"]
    assert violations(rig.steps()) == []
    assert [step.result.text for step in rig.steps() if isinstance(step, CallResult)] == [
        user_steps.STOPPED_TOOL
    ]


@pytest.mark.parametrize("away", [False, True])
async def test_whoever_watches_hears_the_end_of_a_turn_that_was_interrupted_and_stopped_at_once(
    away: bool,
) -> None:
    """Else its chat would be told for ever that somebody is typing there."""
    rig = Rig(busy="interrupt")
    rig.once.gate = asyncio.Event().wait
    rig.model.next(Says("", calls=(("Once", {"name": "a"}),)))
    thread = (await rig.says("dig")).thread
    async with rig.life() as pool:
        await eventually(lambda: rig.once.running == 1)
        pool.arrived(thread)
        if away:
            rig.handles[-1].away.add("interrupt")
        else:
            await rig.stops(pool)
        await eventually(lambda: pool.running == 0)
        assert len(rig.outcomes()) == 1


async def test_stop_ends_a_running_tool_and_what_is_said_afterwards_is_answered() -> None:
    rig = Rig()
    rig.once.gate = asyncio.Event().wait
    rig.model.next(Says("", calls=(("Once", {"name": "a"}),)))
    await rig.says("dig")
    async with rig.life() as pool:
        await eventually(lambda: rig.once.running == 1)
        await rig.stops(pool)
        await eventually(lambda: rig.once.running == 0 and pool.running == 0)
        await rig.says("thanks")
        await rig.quiet()
    assert rig.endings() == ["stopped", "answered"]
    assert rig.said() == ["Stopped.", "echo: thanks"]
    assert rig.outcomes() == ["stopped", "answered"]
    assert violations(rig.steps()) == []


async def test_stop_never_cancels_the_turn_of_a_message_said_after_it() -> None:
    """The thread is ready again in the moment of the commit: its next turn may run before the pool
    hears of the stop."""
    rig, gate = Rig(), asyncio.Event()
    rig.model.next(Says("never", before=asyncio.Event().wait), Says("answer", before=gate.wait))
    await rig.says("first")
    async with rig.life() as pool:
        await eventually(lambda: len(rig.model.requests) == 1)
        said = await rig.says("/stop")  # stands for the command's place in the order
        await rig.says("second")
        await rig.store.stop(
            said.thread, said.seq, person="ada", fresh=False, posts=(), closing=rig.closing
        )  # the pool is told late
        await eventually(lambda: len(rig.model.requests) == 2)
        await pool.stopped(said.thread)
        gate.set()
        await eventually(lambda: "answer" in rig.said())
        await eventually(lambda: pool.running == 0)
    assert rig.said() == ["answer"]


async def test_new_begins_a_conversation_that_knows_nothing_of_the_old_one() -> None:
    rig = Rig()
    await rig.says("old")
    async with rig.life() as pool:
        await rig.quiet()
        await rig.stops(pool, fresh=True)
        await rig.says("young")
        await rig.quiet()
    assert heard(rig)[-1] == ["young"]


async def test_a_graceful_stop_gives_the_turn_back_without_counting_it() -> None:
    rig = Rig()
    rig.model.next(Says("never", before=asyncio.Event().wait))
    await rig.says("hello")
    for _ in range(7):  # more often than deaths are forgiven
        async with rig.life():
            await eventually(lambda: len(rig.model.requests) == 1)
        rig.model.requests.clear()
        rig.model.next(Says("never", before=asyncio.Event().wait))
    rig.model.script.clear()
    async with rig.life():
        await rig.quiet()
    assert rig.said() == ["echo: hello"]
    assert rig.outcomes().count("released") == 7


async def test_drain_lets_a_running_turn_end_and_claims_nothing_more() -> None:
    rig, gate = Rig(), asyncio.Event()
    rig.model.default = lambda request: Says("ok", before=gate.wait)
    await rig.says("one")
    async with rig.life() as pool:
        await eventually(lambda: len(rig.model.requests) == 1)
        draining = asyncio.create_task(pool.drain(20.0))
        await rig.says("two")
        await asyncio.sleep(0)
        gate.set()
        await draining
        assert rig.endings() == ["answered", "waiting"]


async def test_a_question_parks_the_turn_and_its_answer_resumes_it_in_another_life() -> None:
    rig = Rig()
    rig.gate.ask = {"Once"}
    rig.model.next(Says("", calls=(("Once", {"name": "a"}), ("Look", {"name": "b"}))), "done")
    await rig.says("go")
    async with rig.life() as pool:
        await eventually(lambda: rig.outcomes() == ["parked"] and pool.running == 0)
    assert (rig.once.done, rig.look.done) == ({}, {"b": 1})
    async with rig.life():
        await rig.answers("allowed")
        await rig.quiet()
    assert rig.once.done == {"a": 1}
    assert rig.said()[-1] == "done"
    assert violations(rig.steps()) == []


async def test_a_denied_question_is_a_result_the_model_goes_on_with() -> None:
    rig = Rig()
    rig.gate.ask = {"Once"}
    rig.model.next(Says("", calls=(("Once", {"name": "a"}),)), "as you wish")
    await rig.says("go")
    async with rig.life():
        await eventually(lambda: rig.outcomes() == ["parked"])
        await rig.answers("denied")
        await rig.quiet()
    assert rig.once.begun == {}
    assert rig.said()[-1] == "as you wish"


async def test_stop_while_parked_ends_the_question() -> None:
    rig = Rig()
    rig.gate.ask = {"Once"}
    rig.model.next(Says("", calls=(("Once", {"name": "a"}),)))
    await rig.says("go")
    async with rig.life() as pool:
        await eventually(lambda: rig.outcomes() == ["parked"])
        await rig.stops(pool)
        assert await rig.store.open_questions() == []
        await rig.says("next")
        await rig.quiet()
    assert rig.endings() == ["stopped", "answered"]
    assert violations(rig.steps()) == []


async def test_the_deadline_ends_a_turn_with_words_and_leaves_no_tool_running() -> None:
    rig = Rig(turn_timeout=0.05)
    rig.once.gate = asyncio.Event().wait
    rig.model.next(Says("", calls=(("Once", {"name": "a"}),)))
    await rig.says("go")
    async with rig.life():
        await rig.quiet()
    assert rig.once.running == 0
    assert rig.endings() == ["dead"]
    assert "limit" in rig.said()[0]
    assert violations(rig.steps()) == []


async def test_a_file_that_never_comes_does_not_hold_a_turn_beyond_its_deadline() -> None:
    async def hangs(arrival: object) -> list[str]:
        await asyncio.Event().wait()
        return []

    rig = Rig(turn_timeout=0.05, fetch=hangs)
    await rig.says("look at this")
    async with rig.life():
        await rig.quiet()
    assert "limit" in rig.said()[0]


async def test_a_missing_file_is_told_to_the_model_once_also_after_a_restart() -> None:
    async def missing(arrival: object) -> list[str]:
        return ["(The file a.png could not be fetched: gone)"]

    rig = Rig(fetch=missing)
    rig.model.next(Says("never", before=asyncio.Event().wait))
    await rig.says("look")
    async with rig.life():
        await eventually(lambda: len(rig.model.requests) == 1)
    async with rig.life():
        await rig.quiet()
    assert heard(rig)[-1] == ["look", "(The file a.png could not be fetched: gone)"]


LONG = " word" * 200


async def test_a_conversation_longer_than_the_window_says_so_once_and_is_answered() -> None:
    rig = Rig(budget=200)
    async with rig.life():
        for number in range(8):
            await rig.says(f"{number} " + "x" * 200)
            await rig.quiet()
    async with rig.life():
        await rig.says("and after a restart")
        await rig.quiet()
    assert rig.said().count(user_steps.LEFT_OUT) == 1
    assert rig.endings() == ["answered"] * 9
    assert len(heard(rig)[-1]) < 9


async def test_a_prompt_that_is_too_long_is_asked_again_without_its_oldest_exchanges() -> None:
    rig = Rig()
    async with rig.life():
        for text in ("one", "two", "three"):
            await rig.says(text + LONG)
            await rig.quiet()
        rig.model.next(TooLong("prompt is too long"))
        await rig.says("four" + LONG)
        await rig.quiet()
    assert heard(rig)[-2] == [text + LONG for text in ("one", "two", "three", "four")]
    assert heard(rig)[-1][-1] == "four" + LONG
    assert len(heard(rig)[-1]) < 4
    assert rig.said().count(user_steps.LEFT_OUT) == 1
    assert rig.said()[-1] == "echo: four" + LONG


async def test_an_exchange_too_long_by_itself_ends_with_advice() -> None:
    rig = Rig()
    rig.model.default = lambda request: TooLong("prompt is too long")
    await rig.says("a book")
    async with rig.life():
        await rig.quiet()
    assert rig.endings() == ["dead"]
    assert "/new" in rig.said()[0]


async def test_every_tool_that_ends_says_so_once() -> None:
    rig = Rig()
    rig.model.next(
        Says("", calls=tuple(("Look", {"name": str(number)}) for number in range(5))), "done"
    )
    await rig.says("go")
    async with rig.life():
        await rig.quiet()
    done = [event.call for _, event in rig.events if isinstance(event, ToolDone)]
    assert len(done) == len(set(done)) == 5
    assert isinstance(rig.events[-1][1], TurnEnded)


async def test_a_cached_transcript_and_one_that_was_read_again_ask_the_same() -> None:
    asked: list[ModelRequest] = []
    for cache in (0, 1 << 30):
        rig = Rig(cache=cache, budget=400)
        async with rig.life():
            for number in range(12):
                await rig.says(f"{number} " + "y" * 100)
                # with room for one, this one pushes the other out
                await rig.says(f"{number}", OTHER)
                await rig.quiet()
        by_place = [
            request for request in rig.model.requests if len(request.steps[-1].blocks[0].text) > 10
        ]  # type: ignore[union-attr]
        asked.append(by_place[-1])
    assert asked[0].steps == asked[1].steps
