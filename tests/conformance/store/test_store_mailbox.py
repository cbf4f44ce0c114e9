"""Arrivals: once, in order, one ending."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest
from store_words import (
    ANSWER,
    BIRTH,
    CHAT,
    COMMAND,
    EDIT,
    MESSAGE,
    OTHER,
    REACTION,
    WAKE,
    Scene,
    edited,
    ident,
    model,
    pressed,
    reacted,
    row,
    said,
    told,
    wake,
)

from ohmo.contracts.errors import LeaseLost
from ohmo.contracts.messages import Usage
from ohmo.contracts.provider import Payer
from ohmo.contracts.reports import StepInfo
from ohmo.contracts.spending import Total
from ohmo.contracts.turns import NO_SESSION, PRESENT, CursorSave, PersonRow, Seat, ThreadSettings


async def test_a_batch_is_numbered_in_the_given_order(scene: Scene) -> None:
    accepted = await scene.hear(said("a"), said("b", at=OTHER), said("c"))
    assert [a.seq for a in accepted] == [1, 1, 2]
    assert accepted[0].thread == accepted[2].thread != accepted[1].thread
    assert not any(a.duplicate for a in accepted)


async def test_any_known_name_makes_a_duplicate_of_the_first(scene: Scene) -> None:
    first = (await scene.hear(said("a", key="C1:1", aliases=("client-1",))))[0]
    twins = await scene.hear(said("b", key="C1:2", aliases=("client-1",)), said("a", key="C1:1"))
    assert [(t.thread, t.seq, t.duplicate) for t in twins] == [(first.thread, first.seq, True)] * 2
    assert len(await scene.store.inbox()) == 1


async def test_twins_within_one_batch_are_stored_once(scene: Scene) -> None:
    accepted = await scene.hear(
        said("a", key="1", aliases=("x",)), said("b", key="2", aliases=("x",)), said("c", key="3")
    )
    assert [(a.seq, a.duplicate) for a in accepted] == [(1, False), (1, True), (2, False)]


async def test_the_cursor_is_saved_with_its_batch(scene: Scene) -> None:
    await scene.store.accept([(said("a"), MESSAGE)], CursorSave("slack", "T1", "C1", "17", 1))
    assert await scene.store.cursor("slack", "T1", "C1") == "17"
    assert await scene.store.cursor("slack", "T1", "C2") is None


async def test_a_cursor_of_an_older_generation_writes_nothing(scene: Scene) -> None:
    await scene.store.accept([], CursorSave("slack", "T1", "C1", "17", 5))
    with pytest.raises(LeaseLost):
        await scene.store.accept(
            [(said("zombie"), MESSAGE)], CursorSave("slack", "T1", "C1", "18", 4)
        )
    assert await scene.store.cursor("slack", "T1", "C1") == "17"
    assert await scene.store.inbox() == []
    await scene.store.accept([], CursorSave("slack", "T1", "C1", "19"))  # no lease in use
    assert await scene.store.cursor("slack", "T1", "C1") == "19"


async def test_texts_no_engine_likes_survive(scene: Scene) -> None:
    nasty = "NUL \0 lone \ud800 ok 🜁 \x1b"
    place = replace(CHAT, chat="chat\0\udfff")
    await scene.store.accept(
        [(said(nasty, key="k\0\ud800", at=place), MESSAGE)],
        CursorSave("slack", "T1", "c\0", "v\ud800"),
    )
    claim, work = await scene.begin()
    assert claim.address == place
    assert work.arrivals[0].text == nasty
    assert (await scene.hear(said("again", key="k\0\ud800", at=place)))[0].duplicate
    assert await scene.store.cursor("slack", "T1", "c\0") == "v\ud800"
    await scene.finish(claim, work.turn, state="failed", reason="broke at \0 \ud800")
    assert (await scene.store.arrival(claim.thread, 1)).reason == "broke at \0 \ud800"


async def test_a_noted_or_refused_arrival_wakes_nobody(scene: Scene) -> None:
    await scene.hear(said("a"), seat=Seat("", "message", ending="noted", reason="not addressed"))
    assert await scene.store.claim("one", limit=5, ttl=30) == []
    info = (await scene.store.inbox())[0]
    assert (info.state, info.ending, info.reason) == ("ended", "noted", "not addressed")


async def test_commands_and_answers_wait_beside_the_mailbox(scene: Scene) -> None:
    accepted = await scene.store.accept(
        [(said("/status"), COMMAND), (pressed("yes", key="p"), ANSWER)]
    )
    assert await scene.store.claim("one", limit=5, ttl=30) == []
    pending = await scene.store.unhandled()
    assert [(p.kind, p.accepted.seq) for p in pending] == [("command", 1), ("answer", 2)]
    assert await scene.store.end_arrival(accepted[0].thread, 1, "answered", posts=[row("reply")])
    assert not await scene.store.end_arrival(
        accepted[0].thread, 1, "answered", posts=[row("reply2")]
    )
    assert await scene.heads() == ["reply"]
    assert [p.accepted.seq for p in await scene.store.unhandled()] == [2]


async def test_an_arrival_ends_with_its_effect(scene: Scene) -> None:
    thread = (await scene.hear(said("/mode plan"), seat=COMMAND))[0].thread
    ada = PersonRow("slack", "T1", "ada", "Ada", "asking", "hash", BIRTH + timedelta(hours=1))
    await scene.store.end_arrival(
        thread, 1, "answered", person=ada, settings=ThreadSettings(mode="plan", title="T")
    )
    assert await scene.store.people() == [ada]
    info = await scene.store.thread(thread)
    assert (info.settings, info.title) == (ThreadSettings(mode="plan", title="T"), "T")
    await scene.hear(said("next"))
    assert (await scene.claim()).settings.mode == "plan"


async def test_settings_that_come_with_an_arrival_hold_before_its_turn_and_keep_older_choices(
    scene: Scene,
) -> None:
    thread = (await scene.hear(said("/mode plan"), seat=COMMAND))[0].thread
    await scene.store.end_arrival(
        thread, 1, "answered", settings=ThreadSettings(mode="plan", title="T")
    )
    await scene.hear(
        said("go"),
        seat=Seat("", "message", settings=ThreadSettings(mode="full_auto", model="small")),
    )
    assert (await scene.claim()).settings == ThreadSettings(
        mode="full_auto", model="small", title="T"
    )


async def test_a_person_of_a_thread_has_a_thread_of_its_own(scene: Scene) -> None:
    first = (await scene.hear(said("a"), seat=Seat("ada", "message")))[0]
    second = (await scene.hear(said("b"), seat=Seat("bob", "message")))[0]
    assert first.thread != second.thread
    assert await scene.store.find_thread(CHAT, "ada") == first.thread
    assert await scene.store.find_thread(CHAT) is None


async def test_waiting_messages_are_taken_in_platform_order(scene: Scene) -> None:
    await scene.hear(said("late", order="2"), said("early", order="1"))
    _, work = await scene.begin()
    assert [a.text for a in work.arrivals] == ["early"]


async def test_a_wake_goes_behind_what_waits_already(scene: Scene) -> None:
    await scene.hear(said("b", order="9"))
    await scene.hear(wake("w"), seat=WAKE)
    await scene.hear(said("a", order="1"))
    _, work = await scene.begin(collect=True)
    assert [getattr(a, "text", "wake") for a in work.arrivals] == ["a", "b", "wake"]


async def test_an_occurrence_is_stored_once(scene: Scene) -> None:
    first = await scene.hear(wake("job@1", due=BIRTH), seat=WAKE)
    second = await scene.hear(wake("job@1", due=BIRTH), seat=WAKE)
    assert [first[0].duplicate, second[0].duplicate] == [False, True]


# edits


async def test_an_edit_of_a_waiting_message_is_applied_when_it_is_taken(scene: Scene) -> None:
    await scene.hear(said("a"))
    await scene.hear(
        edited("a", "b", key="e1", order="1"), edited("a", "c", key="e2", order="2"), seat=EDIT
    )
    claim, work = await scene.begin()
    assert [a.text for a in work.arrivals] == ["c"]
    await scene.store.release(claim, work.turn)
    _, again = await scene.begin()
    assert (again.resumed, again.arrivals) == (True, work.arrivals)
    assert await scene.endings(claim.thread) == {"k-a": "taken", "e1": "merged", "e2": "merged"}


async def test_an_edit_may_come_before_its_original(scene: Scene) -> None:
    thread = (await scene.hear(edited("a", "b", key="e"), seat=EDIT))[0].thread
    assert await scene.store.claim("one", limit=5, ttl=30) == []
    await scene.hear(said("a"))
    _, work = await scene.begin()
    assert [a.text for a in work.arrivals] == ["b"]
    assert (await scene.endings(thread))["e"] == "merged"


async def test_a_deleted_message_is_superseded_and_the_next_one_taken(scene: Scene) -> None:
    thread = (await scene.hear(said("a"), said("b")))[0].thread
    await scene.hear(edited("a", None, key="e"), seat=EDIT)
    _, work = await scene.begin()
    assert [a.text for a in work.arrivals] == ["b"]
    assert await scene.endings(thread) == {"k-a": "superseded", "e": "merged", "k-b": "taken"}


async def test_a_mailbox_of_deleted_messages_gives_the_lease_back(scene: Scene) -> None:
    thread = (await scene.hear(said("a")))[0].thread
    await scene.hear(edited("a", None, key="e"), seat=EDIT)
    assert await scene.store.work(await scene.claim(), ident("t"), collect=False, step=told) is None
    assert (await scene.store.thread(thread)).state == "idle"
    assert (await scene.endings(thread))["k-a"] == "superseded"


async def test_an_edit_of_a_running_message_becomes_a_message(scene: Scene) -> None:
    await scene.hear(said("a"))
    claim, work = await scene.begin()
    await scene.hear(
        edited("a", "b", key="e1", order="1"), edited("a", None, key="e2", order="2"), seat=EDIT
    )
    await scene.hear(edited("a", "c", key="e3", order="3"), seat=EDIT)
    await scene.finish(claim, work.turn)
    _, second = await scene.begin()
    assert [a.text for a in second.arrivals] == ["c"]
    assert await scene.endings(claim.thread) == {
        "k-a": "answered",
        "e1": "taken",
        "e2": "merged",
        "e3": "merged",
    }


async def test_a_deletion_of_a_running_message_is_noted(scene: Scene) -> None:
    await scene.hear(said("a"))
    claim, work = await scene.begin()
    await scene.hear(edited("a", None, key="e"), seat=EDIT)
    await scene.finish(claim, work.turn)
    assert await scene.endings(claim.thread) == {"k-a": "answered", "e": "noted"}
    assert await scene.store.claim("one", limit=5, ttl=30) == []


async def test_an_edit_of_an_answered_message_is_noted(scene: Scene) -> None:
    await scene.hear(said("a"))
    claim, work = await scene.begin()
    await scene.finish(claim, work.turn)
    await scene.hear(edited("a", "b", key="e"), seat=EDIT)
    assert (await scene.endings(claim.thread))["e"] == "noted"


async def test_a_reaction_is_noted(scene: Scene) -> None:
    thread = (await scene.hear(reacted("a", key="r"), seat=REACTION))[0].thread
    assert await scene.endings(thread) == {"r": "noted"}
    assert await scene.store.claim("one", limit=5, ttl=30) == []


async def test_an_edit_without_an_original_is_noted_after_ten_minutes(scene: Scene) -> None:
    thread = (await scene.hear(edited("gone", "b", key="e"), seat=EDIT))[0].thread
    await scene.store.prune(BIRTH - timedelta(days=1))
    assert await scene.endings(thread) == {"e": "waiting"}
    scene.clock.tick(601)
    assert await scene.store.prune(BIRTH - timedelta(days=1)) == 1
    assert await scene.endings(thread) == {"e": "noted"}


# albums


async def test_an_album_waits_for_its_parts_and_is_taken_whole(scene: Scene) -> None:
    held = Seat("", "message", hold=0.6)
    await scene.hear(said("one", order="1", album="x"), seat=held)
    assert await scene.store.claim("one", limit=5, ttl=30) == []
    scene.clock.tick(0.4)
    await scene.hear(said("two", order="2", album="x"), seat=held)
    await scene.hear(said("after", order="3"))
    scene.clock.tick(0.4)
    for claim in await scene.store.claim("one", limit=5, ttl=30):
        assert await scene.store.work(claim, ident("early"), collect=False, step=told) is None
    scene.clock.tick(0.3)
    _, work = await scene.begin()
    assert [a.text for a in work.arrivals] == ["one", "two"]


async def test_an_album_that_comes_in_during_a_turn_is_still_taken_whole(scene: Scene) -> None:
    held = Seat("", "message", hold=0.6)
    await scene.hear(said("first"))
    claim, work = await scene.begin()
    await scene.hear(said("one", order="x1", album="x"), seat=held)
    assert await scene.store.steer(claim, work.turn, told) == ()
    await scene.finish(claim, work.turn)
    assert await scene.store.claim("one", limit=5, ttl=30) == []
    await scene.hear(said("two", order="x2", album="x"), seat=held)
    scene.clock.tick(0.7)
    _, second = await scene.begin()
    assert [a.text for a in second.arrivals] == ["one", "two"]


# dead letters and pruning


async def test_an_owner_brings_a_dead_arrival_back(scene: Scene) -> None:
    await scene.hear(said("a"))
    claim, work = await scene.begin()
    assert not await scene.store.retry_arrival(claim.thread, 1)
    await scene.finish(claim, work.turn, state="failed", reason="poison")
    assert await scene.store.retry_arrival(claim.thread, 1)
    assert await scene.store.inbox(state="dead") == []
    assert not await scene.store.retry_arrival(claim.thread, 1), (
        "who presses twice is answered once"
    )
    old = await scene.store.arrival(claim.thread, 1)
    assert old is not None
    assert (old.ending, old.reason) == ("superseded", "tried again as number 4")
    claim, second = await scene.begin(collect=True)
    assert [(a.key, a.text) for a in second.arrivals] == [(f"retry:{claim.thread}.1.1", "a")]
    await scene.finish(claim, second.turn, state="failed", reason="poison")
    assert [one.seq for one in await scene.store.inbox(state="dead")] == [4], (
        "what fails again is a dead letter of its own"
    )
    assert await scene.store.retry_arrival(claim.thread, 4)


async def test_pruning_keeps_names_longer_than_bodies(scene: Scene) -> None:
    await scene.hear(said("a"))
    claim, work = await scene.begin()
    await scene.store.post([row("note")])
    await scene.finish(claim, work.turn, row("final"))
    for name in ("note", "final"):
        await scene.deliver(name)
    await scene.hear(said("b"))
    scene.clock.tick(10 * 86_400)
    assert await scene.store.prune(scene.clock.now - timedelta(days=7)) >= 3
    assert [i.arrival.key for i in await scene.store.inbox()] == ["k-b"]
    assert await scene.store.outbox() == []
    assert (await scene.hear(said("a")))[0].duplicate
    # the present session is what the model knows
    assert len(await scene.store.steps(claim.thread, 0)) == 2
    scene.clock.tick(21 * 86_400)
    await scene.store.prune(scene.clock.now - timedelta(days=7))
    assert not (await scene.hear(said("a")))[0].duplicate


async def test_steps_of_a_former_session_are_pruned(scene: Scene) -> None:
    await scene.hear(said("a"))
    claim, work = await scene.begin()
    usage = Usage("m", "turn", 10, 0, 0, 1, 5)
    await scene.store.record(claim, work.turn, [model("x")], usage=usage)
    await scene.finish(claim, work.turn)
    command = (await scene.hear(said("/new"), seat=COMMAND))[0]
    await scene.store.stop(
        command.thread, command.seq, person="ada", fresh=True, posts=[], closing=None
    )
    await scene.hear(said("b"))
    after, going_on = await scene.begin()
    await scene.store.record(after, going_on.turn, [model("x")], usage=usage)
    scene.clock.tick(10 * 86_400)
    await scene.store.prune(scene.clock.now)
    kept = [item for item in await scene.store.history(claim.thread) if isinstance(item, StepInfo)]
    assert {step.turn for step in kept} == {going_on.turn}
    spent = await scene.store.spent(Payer(work.turn, claim.thread))
    assert (spent["turn"], spent["thread"]) == (Total(), Total(22, 10))
    assert (await scene.store.spent(Payer(going_on.turn)))["turn"] == Total(11, 5)


async def test_a_post_and_what_replaced_it_are_pruned_together(scene: Scene) -> None:
    await scene.store.post([row("first")])
    await scene.deliver("first")
    await scene.store.post([row("second", kind="edit", target="first")])
    await scene.deliver("second")
    scene.clock.tick(86_400)
    assert await scene.store.prune(scene.clock.now) == 2
    assert await scene.store.outbox() == []


async def test_pruning_reaches_behind_its_first_stretch_of_turns_and_of_names(scene: Scene) -> None:
    count = 401  # more than two stretches
    for number in range(count):
        await scene.hear(said(f"m{number}"))
        claim, work = await scene.begin()
        await scene.finish(claim, work.turn)
    command = (await scene.hear(said("/new"), seat=COMMAND))[0]
    await scene.store.stop(
        command.thread, command.seq, person="ada", fresh=True, posts=[], closing=None
    )
    assert (await scene.hear(said("m0"), said("m400")))[1].duplicate
    scene.clock.tick(40 * 86_400)
    await scene.store.prune(scene.clock.now)
    assert await scene.store.inbox() == []
    assert await scene.store.steps(command.thread, 0) == []
    assert [one.duplicate for one in await scene.hear(said("m0"), said("m200"), said("m400"))] == [
        False
    ] * 3


async def test_plan_mode_is_stored_with_what_begins_and_what_ends_it(scene: Scene) -> None:
    chosen = ThreadSettings(mode="full_auto", planning=PRESENT)
    await scene.hear(said("plan it"), seat=Seat("", "message", settings=chosen))
    claim, work = await scene.begin()
    assert claim.settings == ThreadSettings(mode="full_auto", planning=claim.session_seq)
    await scene.store.record(claim, work.turn, [], plans=False)
    info = await scene.store.thread(claim.thread)
    assert info is not None
    assert info.settings == ThreadSettings(mode="full_auto", planning=NO_SESSION)
    await scene.store.record(claim, work.turn, [], plans=True)
    info = await scene.store.thread(claim.thread)
    assert info is not None
    assert info.settings.planning == claim.session_seq


def test_a_mode_that_was_plan_is_left_when_the_plan_is_allowed() -> None:
    settings = ThreadSettings(mode="plan", model="m").plans(7, plans=False)
    assert settings == ThreadSettings(model="m", planning=NO_SESSION)
    assert settings.plans(7, plans=None) == settings
