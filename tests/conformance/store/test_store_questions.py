"""Questions: they park the turn, are answered once, used once, and end at their deadline."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from store_words import (
    ANSWER,
    BIRTH,
    COMMAND,
    OTHER,
    Scene,
    ask,
    card,
    closing,
    ident,
    model,
    pressed,
    row,
    said,
)

from ohmo.contracts.errors import Conflict, LeaseLost
from ohmo.contracts.outbox import Grant, Ruling
from ohmo.contracts.tool import Verdict
from ohmo.contracts.turns import Claim, Work


async def parked(scene: Scene, *calls: str, timeout: float = 300.0) -> tuple[Claim, Work]:
    await scene.hear(said("a"))
    claim, work = await scene.begin()
    await scene.store.record(claim, work.turn, [model("", calls)])
    await scene.store.park(
        claim,
        work.turn,
        [ask(f"q{c}", c) for c in calls],
        timeout=timeout,
        card=card,
        closing=closing,
    )
    return claim, work


async def reply(
    scene: Scene,
    name: str,
    verdict: Any = "allowed",
    *,
    posts: Any = (),
    late: Any = (),
    **more: Any,
) -> str:
    ruling = Ruling(ident(name), verdict, "ada", **more)
    return await scene.store.answer(ruling, posts=posts, late=late, card=card, closing=closing)


async def test_one_question_is_found_by_its_id_while_it_is_open(scene: Scene) -> None:
    await parked(scene, "1", "2")
    for asked in await scene.store.open_questions():
        assert await scene.store.question(asked.ask.id) == asked
    assert await reply(scene, "q1") == "ok"
    assert await scene.store.question(ident("q1")) is None
    assert await scene.store.question(ident("never")) is None


async def test_a_question_parks_the_turn_and_shows_its_card(scene: Scene) -> None:
    claim, work = await parked(scene, "1")
    asked = (await scene.store.open_questions())[0]
    assert (asked.state, asked.turn, asked.person, asked.ask, asked.address) == (
        "asked",
        work.turn,
        "ada",
        ask("q1", "1"),
        claim.address,
    )
    assert asked.deadline == BIRTH + timedelta(seconds=300) == await scene.store.next_deadline()
    assert await scene.heads() == ["q1"]
    assert (await scene.store.thread(claim.thread)).state == "parked"
    with pytest.raises(LeaseLost):
        await scene.store.record(claim, work.turn, [model("x")])


async def test_a_parked_thread_sleeps_whatever_arrives(scene: Scene) -> None:
    claim, _ = await parked(scene, "1")
    await scene.hear(said("b"))
    scene.clock.tick(100)
    assert await scene.store.claim("one", limit=5, ttl=30) == []
    assert await scene.store.reclaim("boot") == 0
    assert (await scene.store.thread(claim.thread)).state == "parked"


async def test_an_answer_wakes_the_turn_and_is_used_once(scene: Scene) -> None:
    _, work = await parked(scene, "1")
    await scene.hear(said("b"))
    assert await reply(scene, "q1", word="sure", scope="session", posts=[row("thanks")]) == "ok"
    claim, again = await scene.begin()
    assert (again.turn, again.resumed, again.starts, again.arrivals) == (
        work.turn,
        True,
        1,
        work.arrivals,
    )
    changed = await scene.store.consume(claim, work.turn, "1", "other digest")
    assert changed == Verdict("changed", "session", "sure", "ada")
    assert await scene.store.consume(claim, work.turn, "2", "d") is None
    assert await scene.store.consume(claim, work.turn, "1", "d") == Verdict(
        "allowed", "session", "sure", "ada"
    )
    assert await scene.store.consume(claim, work.turn, "1", "d") is None
    await scene.finish(claim, work.turn)
    assert await scene.endings(claim.thread) == {"k-a": "answered", "k-b": "waiting"}


async def test_a_question_is_answered_once(scene: Scene) -> None:
    await parked(scene, "1")
    assert await reply(scene, "q1", "denied") == "ok"
    assert await reply(scene, "q1", late=[row("late")]) == "late"
    assert await reply(scene, "q1", late=[row("late")]) == "late"
    assert await reply(scene, "nobody", late=[row("unknown")]) == "unknown"
    assert [i.row.id for i in await scene.store.outbox(state="ready")].count(ident("late")) == 1
    claim, work = await scene.begin()
    for digest in ("other digest", "d"):  # a no holds whatever became of the call
        assert (await scene.store.consume(claim, work.turn, "1", digest)).state == "denied"


async def test_questions_are_asked_one_after_the_other(scene: Scene) -> None:
    claim, _ = await parked(scene, "1", "2")
    assert [(q.ask.call, q.state) for q in await scene.store.open_questions(claim.thread)] == [
        ("1", "asked"),
        ("2", "queued"),
    ]
    assert await reply(scene, "q2", late=[row("l")]) == "late"
    scene.clock.tick(10)
    assert await reply(scene, "q1") == "ok"
    assert [(q.ask.call, q.state, q.deadline) for q in await scene.store.open_questions()] == [
        ("2", "asked", BIRTH + timedelta(seconds=310))
    ]
    assert await scene.store.claim("one", limit=5, ttl=30) == []
    assert await reply(scene, "q2", "denied") == "ok"
    claim, work = await scene.begin()
    assert (await scene.store.consume(claim, work.turn, "2", "d")).state == "denied"
    assert (await scene.store.consume(claim, work.turn, "1", "d")).state == "allowed"


async def test_a_deadline_is_kept_by_the_clock_of_the_store(scene: Scene) -> None:
    await parked(scene, "1", timeout=60)
    scene.clock.tick(60)
    assert await reply(scene, "q1", late=[row("l")]) == "late"
    assert await scene.store.expire(card, closing) == 1
    assert await scene.store.expire(card, closing) == 0
    assert await scene.store.next_deadline() is None
    claim, work = await scene.begin()
    assert (await scene.store.consume(claim, work.turn, "1", "d")).state == "expired"


async def test_a_permission_that_nobody_gave_in_time_is_found_with_its_call(scene: Scene) -> None:
    claim, _ = await parked(scene, "1", timeout=60)
    assert await scene.store.lapsed(ident("q1")) is None, "it can still be given"
    scene.clock.tick(61)
    await scene.store.expire(card, closing)
    found = await scene.store.lapsed(ident("q1"))
    assert (found.asked.ask.id, found.call.id, found.call.name) == (ident("q1"), "1", "Bash")
    assert await scene.store.lapsed(claim.thread) == found
    assert await scene.store.lapsed("another") is None


async def test_an_overdue_question_lets_the_next_one_be_asked(scene: Scene) -> None:
    await parked(scene, "1", "2", timeout=60)
    scene.clock.tick(61)
    assert await scene.store.expire(card, closing) == 1
    assert [(q.ask.call, q.state) for q in await scene.store.open_questions()] == [("2", "asked")]
    assert (await scene.store.next_deadline()) == BIRTH + timedelta(seconds=121)


async def test_a_card_that_was_shown_is_closed_and_one_that_was_not_is_dropped(
    scene: Scene,
) -> None:
    await parked(scene, "1", "2")
    await scene.deliver("q1", "r9")
    await reply(scene, "q1")
    head = (await scene.store.outgoing("slack", "T1"))[0]
    assert (head.row.id, head.row.target, [r.message for r in head.replaces]) == (
        ident("closeq1"),
        ident("q1"),
        ["r9"],
    )
    await reply(scene, "q2")
    states = {r.row.id: r.state for r in await scene.store.outbox()}
    assert states[ident("q2")] == "dropped"
    assert ident("closeq2") not in states


async def test_the_press_of_a_button_ends_with_its_effect(scene: Scene) -> None:
    claim, _ = await parked(scene, "1")
    first, second = await scene.hear(
        pressed("yes", key="p1"), pressed("yes", key="p2"), seat=ANSWER
    )
    grant = Grant(ident("g"), "*", "Bash(ls)", "ada", BIRTH)
    assert (
        await reply(scene, "q1", arrival=(first.thread, first.seq), grant=grant, posts=[row("ok")])
        == "ok"
    )
    assert (
        await reply(scene, "q1", arrival=(first.thread, first.seq), grant=grant, posts=[row("ok")])
        == "ok"
    )  # handled again after a crash
    assert (
        await reply(scene, "q1", arrival=(second.thread, second.seq), late=[row("late")]) == "late"
    )
    assert await scene.store.grants() == [grant]
    assert [
        await scene.store.revoke_grant(one) for one in (ident("other"), grant.id, grant.id)
    ] == [False, True, False]
    assert await scene.store.grants() == []
    assert await scene.endings(claim.thread) == {"k-a": "taken", "p1": "answered", "p2": "refused"}


async def test_an_answer_may_come_from_another_place(scene: Scene) -> None:
    await parked(scene, "1")
    command = (await scene.hear(said("/approve", at=OTHER), seat=COMMAND))[0]
    assert (
        await reply(
            scene, "q1", arrival=(command.thread, command.seq), posts=[row("done", at=OTHER)]
        )
        == "ok"
    )
    assert await scene.store.unhandled() == []
    assert await scene.heads([command.thread]) == ["done"]


async def test_stop_voids_what_is_open(scene: Scene) -> None:
    claim, _ = await parked(scene, "1", "2")
    await scene.deliver("q1")
    command = (await scene.hear(said("/stop"), seat=COMMAND))[0]
    assert (
        await scene.store.stop(
            command.thread, command.seq, person="ada", fresh=False, posts=[], closing=closing
        )
        == 1
    )
    assert await scene.store.open_questions() == []
    assert await scene.heads() == ["closeq1"]
    assert await reply(scene, "q1", late=[row("l")]) == "late"
    assert (await scene.store.thread(claim.thread)).state == "idle"
    await scene.hear(said("b"))
    assert [a.text for a in (await scene.begin())[1].arrivals] == ["b"]


async def test_parking_closes_the_draft(scene: Scene) -> None:
    await scene.hear(said("a"))
    claim, work = await scene.begin()
    await scene.store.draft(claim, work.turn, row("draft", kind="draft"))
    await scene.deliver("draft")
    await scene.store.park(
        claim, work.turn, [ask("q1", "1")], timeout=60, card=card, closing=closing
    )
    assert await scene.heads() == ["closedraft"]


async def test_the_same_call_may_be_asked_again_when_its_answer_did_not_fit(scene: Scene) -> None:
    _, work = await parked(scene, "1")
    await reply(scene, "q1")
    claim, _ = await scene.begin()
    await scene.store.park(
        claim, work.turn, [ask("q1b", "1", "d2")], timeout=60, card=card, closing=closing
    )
    await reply(scene, "q1b")
    claim, _ = await scene.begin()
    assert (await scene.store.consume(claim, work.turn, "1", "d2")).state == "allowed"


async def test_the_same_call_is_not_asked_twice_at_once(scene: Scene) -> None:
    await scene.hear(said("a"))
    claim, work = await scene.begin()
    with pytest.raises(Conflict):
        await scene.store.park(
            claim,
            work.turn,
            [ask("q1", "1"), ask("q2", "1")],
            timeout=60,
            card=card,
            closing=closing,
        )
    assert await scene.store.open_questions() == []
    assert await scene.store.outbox() == []
    await scene.store.record(claim, work.turn, [model("still mine")])
