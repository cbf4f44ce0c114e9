"""Owning a thread, running its turn, and every way it may end."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest
from store_words import (
    CHAT,
    COMMAND,
    OTHER,
    Scene,
    closing,
    ident,
    model,
    part,
    result,
    row,
    said,
    started,
    told,
)

from ohmo.contracts.errors import Conflict, LeaseLost
from ohmo.contracts.inwriter import Remains, in_writer
from ohmo.contracts.messages import Usage
from ohmo.contracts.outbox import OutRow
from ohmo.contracts.tool import BegunUnder, PolicySnapshot
from ohmo.contracts.turns import End, ThreadSettings


async def test_the_oldest_ready_thread_is_claimed_first_and_only_once(scene: Scene) -> None:
    first = (await scene.hear(said("a")))[0]
    scene.clock.tick(1)
    second = (await scene.hear(said("b", at=OTHER)))[0]
    claims = await scene.store.claim("one", limit=1, ttl=30)
    assert [(c.thread, c.generation, c.owner, c.address) for c in claims] == [
        (first.thread, 1, "one", CHAT)
    ]
    assert [c.thread for c in await scene.store.claim("two", limit=5, ttl=30)] == [second.thread]
    assert await scene.store.claim("two", limit=5, ttl=30) == []


async def test_a_turn_takes_one_message_and_writes_its_step(scene: Scene) -> None:
    await scene.hear(said("a"), said("b"))
    claim, work = await scene.begin()
    assert (work.starts, work.attempts, work.resumed, [a.text for a in work.arrivals]) == (
        1,
        0,
        False,
        ["a"],
    )
    assert await scene.store.steps(claim.thread, claim.session_seq) == [(3, told(work.arrivals[0]))]
    assert await scene.endings(claim.thread) == {"k-a": "taken", "k-b": "waiting"}


async def test_collect_takes_everything_and_answers_the_first(scene: Scene) -> None:
    await scene.hear(said("a"), said("b"), said("c"))
    claim, work = await scene.begin(collect=True)
    assert [a.text for a in work.arrivals] == ["a", "b", "c"]
    await scene.finish(claim, work.turn, row("final"))
    assert await scene.endings(claim.thread) == {
        "k-a": "answered",
        "k-b": "merged",
        "k-c": "merged",
    }
    assert await scene.store.claim("one", limit=5, ttl=30) == []


async def test_a_turn_acts_for_one_person(scene: Scene) -> None:
    await scene.hear(said("a"), said("b"), said("b-bob", person="bob"), said("c"))
    claim, work = await scene.begin(collect=True)
    assert [arrival.text for arrival in work.arrivals] == ["a", "b"]
    assert await scene.store.steer(claim, work.turn, told) == ()
    await scene.store.finish(claim, work.turn, (), (), End("done"))
    _, work = await scene.begin(collect=True)
    assert [arrival.text for arrival in work.arrivals] == ["b-bob"]


async def test_steering_takes_what_came_meanwhile(scene: Scene) -> None:
    await scene.hear(said("a"))
    claim, work = await scene.begin()
    assert await scene.store.steer(claim, work.turn, told) == ()
    await scene.hear(said("b"), said("c"))
    steered = await scene.store.steer(claim, work.turn, told)
    assert [step.blocks[0].text for _, step in steered] == ["b", "c"]
    assert [number for number, _ in await scene.store.steps(claim.thread, 3)] == [
        number for number, _ in steered
    ]
    every = await scene.store.steps(claim.thread, 0)
    assert await scene.store.steps(claim.thread, 0, limit=2) == every[:2]
    await scene.finish(claim, work.turn)
    assert await scene.endings(claim.thread) == {
        "k-a": "answered",
        "k-b": "merged",
        "k-c": "merged",
    }


async def test_the_end_of_a_turn_is_one_transaction(scene: Scene) -> None:
    await scene.hear(said("a"), said("b"))
    claim, work = await scene.begin()
    numbers = await scene.store.record(
        claim, work.turn, [model("", ["t.1"]), started("t.1"), result("t.1")]
    )
    assert numbers == (4, 5, 6)
    await scene.finish(claim, work.turn, row("final"), row("copy", at=OTHER))
    assert sorted(await scene.heads()) == ["copy", "final"]
    assert (await scene.store.thread(claim.thread)).state == "ready"
    with pytest.raises(LeaseLost):
        await scene.finish(claim, work.turn)
    _, second = await scene.begin()
    assert [a.text for a in second.arrivals] == ["b"]


async def test_a_failed_turn_leaves_dead_letters_with_their_reason(scene: Scene) -> None:
    await scene.hear(said("a"))
    claim, work = await scene.begin()
    await scene.finish(claim, work.turn, row("sorry"), state="failed", reason="three times")
    info = await scene.store.arrival(claim.thread, 1)
    assert (info.ending, info.reason) == ("dead", "three times")


async def test_a_call_starts_once_and_ends_once(scene: Scene) -> None:
    await scene.hear(said("a"))
    claim, work = await scene.begin()
    await scene.store.record(claim, work.turn, [started("t.1")])
    with pytest.raises(Conflict):
        await scene.store.record(claim, work.turn, [model("lost?"), started("t.1")])
    await scene.store.record(claim, work.turn, [result("t.1")])
    with pytest.raises(Conflict):
        await scene.store.record(claim, work.turn, [result("t.1")])
    assert [type(s).__name__ for _, s in await scene.store.steps(claim.thread, 0)] == [
        "UserStep",
        "CallStarted",
        "CallResult",
    ]


async def test_a_post_is_unique(scene: Scene) -> None:
    await scene.hear(said("a"))
    claim, work = await scene.begin()
    await scene.store.record(claim, work.turn, [], posts=[row("p")])
    with pytest.raises(Conflict):
        await scene.store.record(claim, work.turn, [model("x")], posts=[row("p")])
    assert len(await scene.store.steps(claim.thread, 0)) == 1


async def test_usage_is_counted_with_its_step(scene: Scene) -> None:
    await scene.hear(said("a"))
    claim, work = await scene.begin()
    for _ in range(2):
        await scene.store.record(
            claim, work.turn, [model("x")], usage=Usage("m", "turn", 10, 5, 1, 3, 7)
        )
    totals = await scene.store.usage()
    assert [
        (t.day, t.model, t.calls, t.input, t.cached, t.written, t.output, t.micro_usd, t.unpriced)
        for t in totals
    ] == [("2026-01-01", "m", 2, 20, 10, 2, 6, 14, 0)]


async def test_calls_of_unknown_price_are_counted_apart(scene: Scene) -> None:
    await scene.hear(said("a"))
    claim, work = await scene.begin()
    for price in (7, None, None):
        await scene.store.record(
            claim, work.turn, [model("x")], usage=Usage("m", "turn", 10, 5, 1, 3, price)
        )
    await scene.store.record(
        claim, work.turn, [model("x")], usage=Usage("n", "turn", 1, 0, 0, 1, None)
    )
    by_model = {one.model: one for one in await scene.store.usage()}
    assert [
        (by_model[name].calls, by_model[name].micro_usd, by_model[name].unpriced) for name in "mn"
    ] == [(3, 7, 2), (1, 0, 1)]
    assert [
        (one.micro_usd, one.unpriced) for one in await scene.store.thread_usage(claim.thread)
    ] == [(7, 2), (0, 1)]
    (whole,) = await scene.store.thread_totals()
    assert (whole.calls, whole.micro_usd, whole.unpriced) == (4, 7, 3)


# leases and fences


async def test_every_write_of_a_zombie_is_refused(scene: Scene) -> None:
    await scene.hear(said("a"))
    claim, work = await scene.begin()
    scene.clock.tick(31)
    taken, resumed = await scene.begin(owner="two")
    assert taken.generation == claim.generation + 1
    assert (resumed.turn, resumed.resumed, resumed.starts) == (work.turn, True, 2)
    store = scene.store
    before = await store.history(claim.thread)
    for write in (
        store.record(claim, work.turn, [model("x")]),
        store.finish(claim, work.turn, [], [row("zombie")], End("done")),
        store.release(claim, work.turn),
        store.steer(claim, work.turn, told),
        store.draft(claim, work.turn, row("d", kind="draft")),
        store.consume(claim, work.turn, "c", "d"),
        store.interrupt(claim, work.turn, closing),
        store.work(claim, ident("x"), collect=False, step=told),
    ):
        with pytest.raises(LeaseLost):
            await write
    assert await store.history(claim.thread) == before
    assert await store.renew([claim, taken], 30) == {claim}


async def test_a_renewed_lease_lives_on(scene: Scene) -> None:
    await scene.hear(said("a"))
    claim, _ = await scene.begin()
    scene.clock.tick(20)
    assert await scene.store.renew([claim], 30) == set()
    scene.clock.tick(20)
    assert await scene.store.claim("two", limit=5, ttl=30) == []


async def test_a_late_renewal_does_not_arm_a_released_thread_again(scene: Scene) -> None:
    await scene.hear(said("a"))
    claim, work = await scene.begin()
    await asyncio.gather(scene.store.release(claim, work.turn), scene.store.renew([claim], 30))
    assert await scene.store.renew([claim], 30) == {claim}
    assert len(await scene.store.claim("two", limit=5, ttl=30)) == 1


async def test_a_released_turn_comes_back_as_it_was_without_a_death(scene: Scene) -> None:
    await scene.hear(said("a"), said("b"))
    claim, work = await scene.begin(collect=True)
    await scene.store.record(claim, work.turn, [model("x")])
    await scene.store.release(claim, work.turn)
    _, again = await scene.begin(owner="two")
    assert (again.turn, again.resumed, again.starts, again.attempts, again.arrivals) == (
        work.turn,
        True,
        1,
        0,
        work.arrivals,
    )


async def test_an_error_counts_and_waits(scene: Scene) -> None:
    await scene.hear(said("a"))
    claim, work = await scene.begin()
    await scene.store.release(claim, work.turn, retry_after=5, error="boom")
    assert await scene.store.claim("one", limit=5, ttl=30) == []
    scene.clock.tick(5)
    _, again = await scene.begin()
    assert (again.starts, again.attempts) == (1, 1)


async def test_a_message_during_the_wait_after_an_error_does_not_shorten_it(scene: Scene) -> None:
    await scene.hear(said("a"))
    claim, work = await scene.begin()
    await scene.store.release(claim, work.turn, retry_after=5, error="boom")
    await scene.hear(said("b"))
    assert await scene.store.claim("one", limit=5, ttl=30) == []


async def test_boot_takes_every_lease_and_counts_the_deaths(scene: Scene) -> None:
    await scene.hear(said("a"), said("b", at=OTHER))
    claim, _ = await scene.begin(owner="dead")
    assert await scene.store.lease("slack", "dead", 30) == 1
    assert await scene.store.reclaim("new") == 1
    assert await scene.store.lease("slack", "new", 30) == 2
    with pytest.raises(LeaseLost):
        await scene.store.record(claim, ident("turn1x"), [model("zombie")])
    works = [
        await scene.store.work(c, ident(f"n{c.thread[:5]}"), collect=False, step=told)
        for c in await scene.store.claim("new", limit=5, ttl=30)
    ]
    assert sorted((w.resumed, w.starts) for w in works) == [(False, 1), (True, 2)]
    assert await scene.store.reclaim("new") == 0


async def test_settings_and_session_come_with_the_claim(scene: Scene) -> None:
    command = (await scene.hear(said("/model"), seat=COMMAND))[0]
    await scene.store.end_arrival(
        command.thread, command.seq, "answered", settings=ThreadSettings(model="m2")
    )
    await scene.hear(said("a"))
    assert (await scene.claim()).settings == ThreadSettings(model="m2")


async def test_a_thread_without_work_is_given_back(scene: Scene) -> None:
    accepted = (await scene.hear(said("a")))[0]
    await scene.store.end_arrival(accepted.thread, accepted.seq, "refused")
    assert await scene.store.work(await scene.claim(), ident("t"), collect=False, step=told) is None
    assert (await scene.store.thread(accepted.thread)).state == "idle"


# interrupt and stop


@in_writer
def rest(turn: str) -> Remains:
    return Remains((model(text=f"half of {turn}"),), row("kept"))


@pytest.mark.parametrize("drafted", [False, True])
async def test_what_is_kept_of_a_stopped_turn_is_written_with_it_and_said_where_no_draft_shows_it(
    scene: Scene, drafted: bool
) -> None:
    await scene.hear(said("a"))
    claim, work = await scene.begin()
    if drafted:
        assert await scene.store.draft(claim, work.turn, row("draft"))
        await scene.deliver("draft")
    command = (await scene.hear(said("/stop"), seat=COMMAND))[0]
    words = {
        "person": "ada",
        "fresh": False,
        "posts": [row("ok")],
        "closing": closing,
        "rest": rest,
    }
    assert await scene.store.stop(command.thread, command.seq, **words) == 1  # type: ignore[arg-type]
    assert [s for _, s in await scene.store.steps(claim.thread, 0)][1:] == [
        model(text=f"half of {work.turn}")
    ]
    posts = await scene.store.outbox(limit=10)
    said_then = [one.row.id.rstrip("0") for one in sorted(posts, key=lambda one: one.seq)]
    assert said_then == (["draft", "closedraft", "ok"] if drafted else ["kept", "ok"])
    assert await scene.store.stop(command.thread, command.seq, **words) == 0  # type: ignore[arg-type]


async def test_what_is_kept_of_an_interrupted_turn_is_written_with_it(scene: Scene) -> None:
    await scene.hear(said("a"))
    claim, work = await scene.begin()
    await scene.store.interrupt(claim, work.turn, closing, rest)
    assert [s for _, s in await scene.store.steps(claim.thread, 0)][1:] == [
        model(text=f"half of {work.turn}")
    ]
    assert await scene.heads() == ["kept"]


async def test_interrupt_ends_the_turn_and_keeps_its_steps(scene: Scene) -> None:
    await scene.hear(said("a"))
    claim, work = await scene.begin()
    await scene.hear(said("b"))
    await scene.store.interrupt(claim, work.turn, closing)
    _, second = await scene.begin()
    assert [a.text for a in second.arrivals] == ["b"]
    assert await scene.endings(claim.thread) == {"k-a": "merged", "k-b": "taken"}
    assert [type(s).__name__ for _, s in await scene.store.steps(claim.thread, 0)] == [
        "UserStep",
        "UserStep",
    ]


async def test_stop_ends_what_was_said_before_and_nothing_after(scene: Scene) -> None:
    await scene.hear(said("a"), said("b"))
    claim, work = await scene.begin()
    command = (await scene.hear(said("/stop"), seat=COMMAND))[0]
    await scene.hear(said("c"))
    stopped = await scene.store.stop(
        command.thread, command.seq, person="ada", fresh=False, posts=[row("ok")], closing=closing
    )
    assert stopped == 2
    assert await scene.endings(claim.thread) == {
        "k-a": "stopped",
        "k-b": "stopped",
        "k-/stop": "answered",
        "k-c": "waiting",
    }
    assert await scene.heads() == ["ok"]
    with pytest.raises(LeaseLost):
        await scene.finish(claim, work.turn, row("zombie"))
    assert (
        await scene.store.stop(
            command.thread,
            command.seq,
            person="ada",
            fresh=False,
            posts=[row("ok2")],
            closing=closing,
        )
        == 0
    )
    _, second = await scene.begin()
    assert [a.text for a in second.arrivals] == ["c"]


async def test_stop_spares_a_turn_that_began_after_it(scene: Scene) -> None:
    command = (await scene.hear(said("/stop"), seat=COMMAND))[0]
    await scene.hear(said("a"))
    claim, work = await scene.begin()
    assert (
        await scene.store.stop(
            command.thread, command.seq, person="ada", fresh=True, posts=[], closing=closing
        )
        == 0
    )
    again, resumed = await scene.begin()
    assert (resumed.turn, resumed.resumed, resumed.starts) == (work.turn, True, 1)
    assert again.generation > claim.generation
    assert [s for _, s in await scene.store.steps(claim.thread, again.session_seq)] == [
        told(work.arrivals[0])
    ]


async def test_what_was_steered_in_after_the_stop_waits_again(scene: Scene) -> None:
    await scene.hear(said("a"))
    claim, work = await scene.begin()
    command = (await scene.hear(said("/stop"), seat=COMMAND))[0]
    await scene.hear(said("b"))
    assert len(await scene.store.steer(claim, work.turn, told)) == 1
    assert (
        await scene.store.stop(
            command.thread, command.seq, person="ada", fresh=False, posts=[], closing=closing
        )
        == 1
    )
    _, second = await scene.begin()
    assert [a.text for a in second.arrivals] == ["b"]


async def test_a_fresh_session_starts_after_the_stop(scene: Scene) -> None:
    await scene.hear(said("a"))
    claim, work = await scene.begin()
    await scene.finish(claim, work.turn)
    command = (await scene.hear(said("/new"), seat=COMMAND))[0]
    assert (
        await scene.store.stop(
            command.thread,
            command.seq,
            person="ada",
            fresh=True,
            posts=[row("ok")],
            closing=closing,
        )
        == 0
    )
    await scene.hear(said("b"))
    claim, work = await scene.begin()
    assert [
        s.blocks[0].text for _, s in await scene.store.steps(claim.thread, claim.session_seq)
    ] == ["b"]
    assert (await scene.store.thread(claim.thread)).session_seq == claim.session_seq


# drafts


async def test_a_final_post_replaces_the_draft_that_was_said(scene: Scene) -> None:
    await scene.hear(said("a"))
    claim, work = await scene.begin()
    assert await scene.store.draft(claim, work.turn, row("draft", kind="draft"))
    await scene.deliver("draft", "r7")
    await scene.finish(claim, work.turn, row("elsewhere", at=OTHER), row("final"), row("more"))
    head = (await scene.store.outgoing("slack", "T1", [claim.thread]))[0]
    assert (head.row.id, head.row.kind, head.row.target) == (ident("final"), "edit", ident("draft"))
    assert [r.message for r in head.replaces] == ["r7"]


async def test_a_final_post_replaces_the_draft_that_may_have_been_said(scene: Scene) -> None:
    await scene.hear(said("a"))
    claim, work = await scene.begin()
    await scene.store.draft(claim, work.turn, row("draft", kind="draft"))
    await scene.store.sending(ident("draft"), [part()])
    await scene.finish(claim, work.turn, row("final"))
    assert await scene.heads() == ["draft"]
    await scene.store.sent(ident("draft"), [part(receipt="r")])
    head = (await scene.store.outgoing("slack", "T1"))[0]
    assert (head.row.target, [r.message for r in head.replaces]) == (ident("draft"), ["r"])


async def test_a_turn_has_one_draft_at_a_time(scene: Scene) -> None:
    await scene.hear(said("a"))
    claim, work = await scene.begin()
    assert await scene.store.draft(claim, work.turn, row("draft", kind="draft"))
    assert not await scene.store.draft(claim, work.turn, row("second", kind="draft"))
    await scene.deliver("draft", "r7")
    await scene.store.release(claim, work.turn)
    again, resumed = await scene.begin()
    assert not await scene.store.draft(again, resumed.turn, row("third", kind="draft"))
    await scene.finish(again, resumed.turn, row("final"))
    assert [
        (head.row.id, head.row.target) for head in await scene.store.outgoing("slack", "T1")
    ] == [(ident("final"), ident("draft"))]
    posts = [
        one.row.id for one in await scene.store.history(claim.thread) if isinstance(one, OutRow)
    ]
    assert posts == [ident("draft"), ident("final")]


async def test_a_draft_stands_in_the_turns_own_thread_only(scene: Scene) -> None:
    await scene.hear(said("a"))
    claim, work = await scene.begin()
    assert not await scene.store.draft(claim, work.turn, row("draft", kind="draft", at=OTHER))
    assert await scene.store.outgoing("slack", "T1") == []


async def test_a_draft_that_was_not_said_is_dropped(scene: Scene) -> None:
    await scene.hear(said("a"))
    claim, work = await scene.begin()
    await scene.store.draft(claim, work.turn, row("draft", kind="draft"))
    await scene.finish(claim, work.turn, row("final"))
    head = (await scene.store.outgoing("slack", "T1"))[0]
    assert (head.row.id, head.row.kind, head.row.target) == (ident("final"), "message", None)
    with pytest.raises(Conflict):
        await scene.store.sending(ident("draft"), [part()])


async def test_a_draft_of_an_ended_turn_is_not_written(scene: Scene) -> None:
    await scene.hear(said("a"))
    claim, work = await scene.begin()
    await scene.finish(claim, work.turn)
    assert not await scene.store.draft(claim, work.turn, row("draft", kind="draft"))
    assert await scene.store.outbox() == []


async def test_stop_closes_the_draft(scene: Scene) -> None:
    await scene.hear(said("a"))
    claim, work = await scene.begin()
    await scene.store.draft(claim, work.turn, row("draft", kind="draft"))
    await scene.deliver("draft")
    command = (await scene.hear(said("/stop"), seat=COMMAND))[0]
    await scene.store.stop(
        command.thread, command.seq, person="ada", fresh=False, posts=[row("ok")], closing=closing
    )
    open_rows = [
        (i.row.id.rstrip("0"), i.row.target) for i in await scene.store.outbox(state="ready")
    ]
    assert sorted(open_rows) == [("closedraft", ident("draft")), ("ok", None)]
    assert await scene.heads([claim.thread]) == ["closedraft"], (
        "what was said stands as it will stay before it is said that it was stopped"
    )


async def test_interrupt_closes_the_draft(scene: Scene) -> None:
    await scene.hear(said("a"))
    claim, work = await scene.begin()
    await scene.store.draft(claim, work.turn, row("draft", kind="draft"))
    await scene.deliver("draft")
    await scene.store.interrupt(claim, work.turn, closing)
    assert await scene.heads() == ["closedraft"]


async def test_what_an_open_turn_has_cost_is_known_over_all_its_runs(scene: Scene) -> None:
    await scene.hear(said("a"))
    claim, work = await scene.begin()
    await scene.store.record(
        claim, work.turn, [model("look", ["c"])], usage=Usage("m", "turn", 100, 20, 3, 7, 0)
    )
    await scene.store.release(claim, work.turn)
    scene.clock.tick(90_000)  # another day
    claim, work = await scene.begin()
    await scene.store.record(
        claim, work.turn, [result("c")], usage=Usage("m", "turn", 1, 0, 0, 1, 0)
    )
    cost = await scene.store.turn_cost(claim.thread, work.turn)
    assert [type(step).__name__ for step in cost.steps] == ["UserStep", "ModelStep", "CallResult"]
    assert (cost.input, cost.output, cost.seconds) == (124, 8, 90_000.0)
    assert (await scene.store.turn_cost(claim.thread, ident("nobody"))).steps == ()


async def test_the_draft_of_a_turn_is_found_until_something_takes_its_place(scene: Scene) -> None:
    await scene.hear(said("a"))
    claim, work = await scene.begin()
    assert await scene.store.drafted(work.turn) is None
    assert await scene.store.draft(claim, work.turn, row("d", "half"))
    found = await scene.store.drafted(work.turn)
    assert found is not None
    assert (found.row.id, found.state) == (ident("d"), "ready")
    await scene.deliver("d")
    shown = await scene.store.drafted(work.turn)
    assert shown is not None
    assert (shown.state, shown.parts[0].receipt is not None) == ("sent", True)
    await scene.finish(claim, work.turn, row("final"))
    assert await scene.store.drafted(work.turn) is None
    final = await scene.store.post_row(ident("final"))
    assert final is not None
    assert (final.row.kind, final.row.target) == ("edit", ident("d"))
    assert await scene.store.post_row(ident("nobody")) is None


async def test_a_thread_that_was_silent_for_long_begins_a_new_session_with_its_next_turn(
    scene: Scene,
) -> None:
    await scene.hear(said("a"))
    (first,) = await scene.store.claim("one", limit=1, ttl=30, idle=3600)
    work = await scene.store.work(first, ident("t1"), collect=False, step=told)
    assert (first.session_seq, work is not None) == (0, True)
    await scene.store.finish(first, ident("t1"), (model("said"),), (), End("done"))
    scene.clock.tick(3600)
    await scene.hear(said("b"))
    (near,) = await scene.store.claim("one", limit=1, ttl=30, idle=3600)
    assert near.session_seq == 0
    await scene.store.release(near)
    scene.clock.tick(2)
    (late,) = await scene.store.claim("one", limit=1, ttl=30, idle=3600)
    assert late.session_seq > 0
    work = await scene.store.work(late, ident("t2"), collect=False, step=told)
    assert work is not None
    assert [step for _, step in await scene.store.steps(late.thread, late.session_seq)] == [
        told(work.arrivals[0])
    ]
    assert len(await scene.store.steps(late.thread, 0)) == 3  # nothing is deleted


async def test_silence_never_cuts_an_open_turn_and_nothing_forgets_without_being_told_to(
    scene: Scene,
) -> None:
    await scene.hear(said("a"))
    claim, work = await scene.begin()
    await scene.store.release(claim, work.turn)
    scene.clock.tick(10_000)
    (again,) = await scene.store.claim("one", limit=1, ttl=30, idle=60)
    assert again.session_seq == 0
    await scene.store.finish(again, work.turn, (), (), End("done"))
    scene.clock.tick(1_000_000)
    await scene.hear(said("b"))
    (later,) = await scene.store.claim("one", limit=1, ttl=30)
    assert later.session_seq == 0


UNDER = BegunUnder(
    PolicySnapshot(
        ("Bash(ls:*)",), (), ("Read(./x)",), "plan", "ask", Path("/w"), ("/db*",), "steer"
    ),
    "user",
)


async def test_what_a_turn_began_under_is_kept_until_it_ends(scene: Scene) -> None:
    await scene.hear(said("one"))
    claim = await scene.claim()
    turn = ident("turn")
    work = await scene.store.work(claim, turn, collect=False, step=told, under=lambda _: UNDER)
    assert work is not None
    assert work.under == UNDER
    await scene.store.release(claim, turn)
    claim = await scene.claim()
    looser = replace(UNDER, role="owner")
    again = await scene.store.work(
        claim, ident("other"), collect=False, step=told, under=lambda _: looser
    )
    assert again is not None
    assert (again.turn, again.under) == (turn, UNDER)
