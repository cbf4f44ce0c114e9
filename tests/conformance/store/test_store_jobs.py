"""Jobs and the ledger of their occurrences: claimed once, ended with their arrival, passed over
with a reason."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

from store_words import BIRTH, CHAT, COMMAND, OTHER, WAKE, Scene, closing, model, row, said, wake

from channels.contract import Address
from ohmo.contracts.arrivals import Occurrence, Wake
from ohmo.contracts.cron import JobBody, JobRow, JobSpec, OccurrenceRow, Passed, Report
from ohmo.contracts.turns import End

NINE, TEN, NOON = (
    BIRTH + timedelta(hours=9),
    BIRTH + timedelta(hours=10),
    BIRTH + timedelta(hours=12),
)


def job(name: str = "brief", next_at: datetime | None = NINE) -> JobRow:
    spec = JobSpec(
        name,
        "what is new?",
        "Europe/Berlin",
        schedule="0 9 * * *",
        rules=("Bash(gh:*)",),
        secrets=(("T", "env:T"),),
    )
    return JobRow(
        f"id-{name}",
        name,
        "person",
        JobBody(spec, BIRTH, "hash", "T1"),
        1,
        True,
        next_at,
        "slack:ada",
    )


def due(
    at: datetime,
    *,
    place: Address = CHAT,
    revision: int = 1,
    following: datetime | None = TEN,
    **more: object,
) -> Wake:
    found = Occurrence("id-brief", at, revision, following, **more)  # pyright: ignore[reportArgumentType]
    return replace(wake(f"brief@{at.isoformat()}", place=place), occurrence=found)


async def states(scene: Scene) -> dict[datetime, str]:
    return {one.due: one.state for one in await scene.store.occurrences("id-brief")}


async def test_a_job_is_saved_and_read_as_it_was(scene: Scene) -> None:
    assert await scene.store.save_job(job())
    assert await scene.store.jobs() == [job()]
    assert not await scene.store.save_job(job())
    assert not await scene.store.save_job(replace(job(), job="other"))
    newer = replace(job(), revision=2, enabled=False, next_at=None)
    assert await scene.store.save_job(newer, over=1)
    assert not await scene.store.save_job(replace(job(), revision=2), over=1)
    assert await scene.store.jobs() == [newer]


async def test_a_slot_is_claimed_with_its_wake_and_moves_the_job_on(scene: Scene) -> None:
    await scene.store.save_job(job())
    first = (await scene.hear(due(NINE), seat=WAKE))[0]
    assert not first.duplicate
    assert (await scene.store.jobs())[0].next_at == TEN
    found = (await scene.store.claimed())[0]
    assert (found.due, found.state, found.thread, found.seq, found.attempts) == (
        NINE,
        "claimed",
        first.thread,
        first.seq,
        1,
    )
    assert (await scene.hear(due(NINE), seat=WAKE))[0].duplicate


async def test_a_second_scheduler_with_another_key_gets_a_duplicate(scene: Scene) -> None:
    await scene.store.save_job(job())
    await scene.hear(due(NINE), seat=WAKE)
    other = (await scene.hear(replace(due(NINE), key="by another"), seat=WAKE))[0]
    assert other.duplicate
    assert len(await scene.store.inbox()) == 1


async def test_a_job_that_was_edited_paused_or_removed_meanwhile_is_not_claimed(
    scene: Scene,
) -> None:
    await scene.store.save_job(job())
    await scene.store.save_job(replace(job(), revision=2), over=1)
    assert (await scene.hear(due(NINE), seat=WAKE))[0].duplicate
    await scene.store.remove_job("id-brief")
    assert (await scene.hear(due(NINE, revision=2), seat=WAKE))[0].duplicate
    assert (await scene.store.inbox(), await scene.store.claimed()) == ([], [])


async def test_a_run_by_hand_leaves_the_next_slot_alone(scene: Scene) -> None:
    await scene.store.save_job(job())
    assert not (await scene.hear(due(NOON, by="hand", following=None), seat=WAKE))[0].duplicate
    assert (await scene.store.jobs())[0].next_at == NINE
    claimed = (await scene.store.claimed())[0]
    assert (claimed.cause, claimed.reason) == ("by_hand", "run by hand")


async def test_an_occurrence_ends_with_its_turn(scene: Scene) -> None:
    await scene.store.save_job(job())
    await scene.hear(due(NINE), seat=WAKE)
    scene.clock.tick(5)
    claim, work = await scene.begin()
    assert (await scene.store.claimed())[0].turn == work.turn
    scene.clock.tick(60)
    await scene.store.finish(
        claim,
        work.turn,
        [model("all is well")],
        [row("p")],
        End("done", report=Report("", "all is well", "d1")),
    )
    begun = BIRTH + timedelta(seconds=5)
    ended = begun + timedelta(seconds=60)
    assert await scene.store.occurrences("id-brief") == [
        OccurrenceRow(
            "id-brief",
            NINE,
            "done",
            None,
            work.turn,
            BIRTH,
            begun,
            ended,
            "all is well",
            "d1",
            claim.thread,
            1,
            1,
        )
    ]
    assert await scene.store.claimed() == []


async def test_a_failed_or_stopped_run_is_a_failed_occurrence_with_its_reason(scene: Scene) -> None:
    await scene.store.save_job(job())
    await scene.hear(due(NINE), seat=WAKE)
    claim, work = await scene.begin()
    await scene.store.finish(
        claim, work.turn, (), (), End("failed", "no model", Report("no model", failed=True))
    )
    await scene.hear(due(TEN, following=NOON), seat=WAKE)
    stop = (await scene.hear(said("/stop"), seat=COMMAND))[0]
    await scene.store.stop(
        stop.thread, stop.seq, person="ada", fresh=False, posts=(), closing=closing
    )
    assert [
        (one.state, one.cause, one.reason) for one in await scene.store.occurrences("id-brief")
    ] == [("failed", "stopped", "stopped by ada"), ("failed", None, "no model")]


async def test_a_run_that_a_newer_message_or_the_removal_of_its_job_ended_says_so(
    scene: Scene,
) -> None:
    await scene.store.save_job(job())
    await scene.hear(due(NINE), seat=WAKE)
    claim, work = await scene.begin()
    await scene.store.interrupt(claim, work.turn, closing)
    await scene.hear(due(TEN, following=NOON), seat=WAKE)
    await scene.store.remove_job("id-brief")
    found = await scene.store.occurrences("id-brief")
    assert [(one.state, one.cause) for one in found] == [
        ("failed", "removed"),
        ("failed", "interrupted"),
    ]


async def test_a_run_whose_words_cannot_be_read_ends_and_holds_up_no_later_one(
    scene: Scene,
) -> None:
    await scene.store.save_job(job())
    await scene.hear(due(NINE), seat=WAKE)
    claim = (await scene.store.claim("one", limit=1, ttl=30))[0]
    assert await scene.store.bury(claim, "unreadable", ())
    assert await scene.store.claimed() == []
    found = await scene.store.occurrences("id-brief")
    assert [(one.state, one.reason) for one in found] == [("failed", "unreadable")]


async def test_a_dead_run_that_is_brought_back_is_the_same_occurrence(scene: Scene) -> None:
    await scene.store.save_job(job())
    await scene.hear(due(NINE), seat=WAKE)
    claim, work = await scene.begin()
    await scene.store.finish(
        claim, work.turn, (), (), End("failed", "no model", Report("no model", failed=True))
    )
    assert await scene.store.retry_arrival(claim.thread, 1)
    again = (await scene.store.claimed())[0]
    assert (again.due, again.attempts) == (NINE, 2)
    claim, work = await scene.begin()
    await scene.store.finish(
        claim, work.turn, [model("well")], (), End("done", report=Report("", "well", "d"))
    )
    assert await states(scene) == {NINE: "done"}


async def test_what_is_not_run_is_recorded_once_with_its_reason(scene: Scene) -> None:
    await scene.store.save_job(job())
    passed = [
        Passed(NINE, "missed", "not_running", "ohmo was off"),
        Passed(TEN, "skipped", "overlap", "still running"),
    ]
    assert await scene.store.pass_over(job(), passed, NOON)
    assert not await scene.store.pass_over(
        job(), [Passed(NINE, "skipped", "overlap", "again")], TEN
    )
    assert (await scene.store.jobs())[0].next_at == NOON
    found = await scene.store.occurrences("id-brief")
    assert [(one.due, one.state, one.reason) for one in found] == [
        (TEN, "skipped", "still running"),
        (NINE, "missed", "ohmo was off"),
    ]
    assert len(await scene.store.occurrences("id-brief", limit=1)) == 1


async def test_a_clock_that_comes_back_takes_back_what_had_not_happened(scene: Scene) -> None:
    await scene.store.save_job(job())
    await scene.store.pass_over(
        job(), [Passed(NINE, "missed", "too_late", "the clock said so")], NOON
    )
    assert await scene.store.rebase_job(job(next_at=NOON), NINE)
    assert await states(scene) == {}
    assert (await scene.store.jobs())[0].next_at == NINE
    assert not await scene.store.rebase_job(job(next_at=NOON), NINE)


async def test_removing_a_job_stops_what_waits_and_lets_run_what_runs(scene: Scene) -> None:
    await scene.store.save_job(job())
    await scene.hear(due(NINE), seat=WAKE)
    claim, work = await scene.begin()
    await scene.hear(due(TEN, place=OTHER, following=NOON), seat=WAKE)
    assert await scene.store.remove_job("id-brief")
    assert not await scene.store.remove_job("id-brief")
    assert await states(scene) == {NINE: "claimed", TEN: "failed"}
    await scene.store.finish(
        claim, work.turn, [model("ok")], (), End("done", report=Report("", "ok", "d"))
    )
    assert await states(scene) == {NINE: "done", TEN: "failed"}
    assert [(one.ending, one.reason) for one in await scene.store.inbox(state="stopped")] == [
        ("stopped", "the job was removed")
    ]


async def test_a_fresh_run_begins_a_new_session_of_its_thread(scene: Scene) -> None:
    await scene.store.save_job(job())
    await scene.hear(said("long ago"))
    claim, work = await scene.begin()
    await scene.finish(claim, work.turn)
    accepted = (await scene.hear(due(NINE, fresh=True), seat=WAKE))[0]
    claim = await scene.claim()
    assert (claim.thread, claim.session_seq) == (accepted.thread, accepted.seq)


async def test_old_occurrences_go_but_for_the_last_that_was_done(scene: Scene) -> None:
    await scene.store.save_job(job())
    await scene.hear(due(NINE), seat=WAKE)
    claim, work = await scene.begin()
    await scene.store.finish(
        claim, work.turn, [model("ok")], (), End("done", report=Report("", "ok", "d"))
    )
    await scene.store.pass_over(job(next_at=TEN), [Passed(TEN, "skipped", "overlap", "x")], NOON)
    scene.clock.tick(86_400)
    await scene.store.prune(scene.clock())
    assert await states(scene) == {NINE: "done"}
