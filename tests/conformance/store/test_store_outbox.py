"""Posts: in order per thread, frozen before they are said, ended once; and the small tables beside
them."""

from __future__ import annotations

from datetime import timedelta

import pytest
from store_words import BIRTH, CHAT, OTHER, Scene, ident, part, row, said

from ohmo.contracts.errors import Conflict
from ohmo.contracts.outbox import OutRow
from ohmo.contracts.reports import ArrivalInfo, StepInfo
from ohmo.contracts.store import Hint
from ohmo.contracts.turns import PersonRow


async def test_only_the_oldest_open_row_of_a_thread_is_a_head(scene: Scene) -> None:
    await scene.store.post([row("a1"), row("b1", at=OTHER), row("a2")])
    assert sorted(await scene.heads()) == ["a1", "b1"]
    await scene.deliver("a1")
    assert sorted(await scene.heads()) == ["a2", "b1"]
    thread = await scene.store.find_thread(CHAT)
    assert await scene.heads([thread]) == ["a2"]
    assert await scene.heads([]) == []
    assert await scene.store.outgoing("telegram", "T1") == []


async def test_a_known_post_is_ignored(scene: Scene) -> None:
    await scene.store.post([row("a", "first")])
    await scene.store.post([row("a", "second"), row("b")])
    await scene.store.post([row("a")])
    assert [r.row.outbound.text for r in await scene.store.outgoing("slack", "T1")] == ["first"]
    assert len(await scene.store.outbox()) == 2


async def test_parts_are_frozen_with_their_progress(scene: Scene) -> None:
    await scene.store.post([row("a", ttl=60)])
    head = (await scene.store.outgoing("slack", "T1"))[0]
    assert (head.state, head.parts, head.attempts, head.ready_at, head.expires, head.started) == (
        "ready",
        (),
        0,
        BIRTH,
        BIRTH + timedelta(seconds=60),
        BIRTH,
    )
    parts = (part("one", "r1"), part("two"))
    await scene.store.sending(ident("a"), parts)
    head = (await scene.store.outgoing("slack", "T1"))[0]
    assert (head.state, head.parts) == ("sending", parts)
    await scene.store.sent(ident("a"), [part("one", "r1"), part("two", "r2")])
    assert await scene.heads() == []
    assert (await scene.store.outbox(state="sent"))[0].parts[1].receipt.message == "r2"
    with pytest.raises(Conflict):
        await scene.store.sending(ident("a"), parts)
    with pytest.raises(Conflict):
        await scene.store.sent(ident("nobody"), parts)


async def test_whoever_has_said_a_row_knows_whether_more_is_open(scene: Scene) -> None:
    await scene.store.post([row("a"), row("b"), row("c", at=OTHER)])
    await scene.store.sending(ident("a"), [part()])
    assert await scene.store.sent(ident("a"), [part(receipt="r1")])
    await scene.store.sending(ident("b"), [part()])
    assert not await scene.store.sent(ident("b"), [part(receipt="r2")])


async def test_nothing_is_begun_before_what_stands_before_it(scene: Scene) -> None:
    await scene.store.post([row("a"), row("b")])
    with pytest.raises(Conflict):
        await scene.store.sending(ident("b"), [part()])
    await scene.store.unsent(ident("a"), retry_after=None, error="refused")
    await scene.store.sending(ident("b"), [part()])
    # What was begun goes on, though a dead letter before it is tried again.
    assert await scene.store.retry_post(ident("a"))
    await scene.store.sending(ident("b"), [part(receipt="r")])
    assert await scene.store.sent(ident("b"), [part(receipt="r")])


async def test_the_hint_of_a_new_post_carries_it_as_it_can_be_read(scene: Scene) -> None:
    heard: list[Hint] = []
    scene.store.listen(heard.extend)
    await scene.store.post([row("a", ttl=60), row("b", at=OTHER)])
    carried = {hint.row.row.id: hint.row for hint in heard if hint.row is not None}
    assert carried == {head.row.id: head for head in await scene.store.outgoing("slack", "T1")}
    assert len(carried) == 2
    await scene.store.post([row("c", target="a")])  # what it replaces has to be read
    assert [hint.row for hint in heard if hint.kind == "post"][-1] is None


async def test_what_was_not_said_is_tried_again_later(scene: Scene) -> None:
    await scene.store.post([row("a")])
    await scene.store.sending(ident("a"), [part()])
    await scene.store.unsent(ident("a"), retry_after=7, error="429")
    head = (await scene.store.outgoing("slack", "T1"))[0]
    assert (head.state, head.attempts, head.ready_at, head.parts) == (
        "ready",
        1,
        BIRTH + timedelta(seconds=7),
        (part(),),
    )
    await scene.store.unsent(ident("a"), retry_after=0, error="rejected", parts=())
    assert (await scene.store.outgoing("slack", "T1"))[0].parts == ()


async def test_a_dead_post_frees_the_thread_and_may_be_brought_back(scene: Scene) -> None:
    await scene.store.post([row("a", ttl=100), row("b")])
    await scene.store.unsent(ident("a"), retry_after=None, error="gone")
    assert await scene.heads() == ["b"]
    assert not await scene.store.retry_post(ident("b"))
    scene.clock.tick(1000)
    assert await scene.store.retry_post(ident("a"))
    head = (await scene.store.outgoing("slack", "T1"))[0]
    assert (head.row.id, head.attempts, head.expires) == (
        ident("a"),
        0,
        scene.clock.now + timedelta(seconds=100),
    )
    assert await scene.store.drop_post(ident("a"))
    assert not await scene.store.drop_post(ident("a"))
    assert await scene.heads() == ["b"]


async def test_an_edit_knows_what_it_replaces(scene: Scene) -> None:
    await scene.store.post([row("a")])
    await scene.store.sent(
        ident("a"), [part("1", "r1"), part("2", "r2"), part("3", "gone", kind="delete")]
    )
    await scene.store.post([row("e", kind="edit", target="a")])
    assert [r.message for r in (await scene.store.outgoing("slack", "T1"))[0].replaces] == [
        "r1",
        "r2",
    ]


async def test_a_lease_is_held_by_one(scene: Scene) -> None:
    store = scene.store
    assert await store.lease("slack:T1", "one", 15) == 1
    assert await store.lease("slack:T1", "two", 15) is None
    scene.clock.tick(10)
    assert await store.lease("slack:T1", "one", 15) == 1
    scene.clock.tick(10)
    assert await store.lease("slack:T1", "two", 15) is None
    scene.clock.tick(10)
    assert await store.lease("slack:T1", "two", 15) == 2
    await store.unlease("slack:T1", "one")
    assert await store.lease("slack:T1", "one", 15) is None
    await store.unlease("slack:T1", "two")
    assert await store.lease("slack:T1", "one", 15) == 3


async def test_people_are_remembered(scene: Scene) -> None:
    ada = PersonRow("slack", "T1", "ada", "Ada \0", "owner", by="boot")
    await scene.store.save_person(PersonRow("slack", "T1", "ada", "A", "asking", "h", BIRTH))
    await scene.store.save_person(ada)
    assert await scene.store.people() == [ada]


async def test_the_audit_chain_holds(scene: Scene) -> None:
    for n in range(3):
        await scene.store.audit("start", f"{n} \0")
    assert (await scene.store.audit_report()).problems == ()


async def test_hints_follow_the_commit_and_end_when_asked(scene: Scene) -> None:
    heard: list[Hint] = []
    end = scene.store.listen(heard.extend)
    accepted = (await scene.hear(said("a")))[0]
    assert Hint("ready", accepted.thread, "slack", "T1") in heard
    await scene.store.post([row("p", at=OTHER)])
    assert Hint("post", await scene.store.find_thread(OTHER), "slack", "T1") in heard
    count = len(heard)
    end()
    await scene.hear(said("b"))
    assert len(heard) == count


# reports


async def test_history_is_one_line_of_numbers(scene: Scene) -> None:
    await scene.hear(said("a"))
    claim, work = await scene.begin()
    await scene.finish(claim, work.turn, row("final"))
    items = await scene.store.history(claim.thread)
    assert [type(i) for i in items] == [ArrivalInfo, StepInfo, StepInfo, OutRow]
    assert [i.seq for i in items] == [1, 2, 3, 4]
    assert [i.seq for i in await scene.store.history(claim.thread, since=2)] == [3, 4]
    assert [i.seq for i in await scene.store.history(claim.thread, limit=2)] == [1, 2]


async def test_counts_tell_depths_and_the_oldest(scene: Scene) -> None:
    await scene.hear(said("a"), said("b"))
    claim, work = await scene.begin()
    scene.clock.tick(5)
    await scene.hear(said("c"))
    counts = await scene.store.counts()
    assert (dict(counts.inbox), counts.oldest_waiting, counts.turns_open, counts.turns_parked) == (
        {("slack", "waiting"): 2, ("slack", "taken"): 1},
        BIRTH,
        1,
        0,
    )
    await scene.finish(claim, work.turn, row("x"))
    counts = await scene.store.counts()
    assert dict(counts.inbox) == {("slack", "waiting"): 2, ("slack", "answered"): 1}
    assert dict(counts.outbox) == {("slack", "ready"): 1}


async def test_the_last_delivery_of_an_account_is_known(scene: Scene) -> None:
    assert await scene.store.last_delivery("slack", CHAT.account) is None
    await scene.store.post([row("a", at=CHAT), row("b", at=CHAT), row("c", at=CHAT)])
    scene.clock.tick(5)
    await scene.store.sent(ident("a"), [])
    first = scene.clock.now
    scene.clock.tick(5)
    await scene.store.unsent(ident("b"), retry_after=None, error="refused")
    assert await scene.store.last_delivery("slack", CHAT.account) == first
    assert await scene.store.last_delivery("slack", "another") is None
    scene.clock.tick(5)
    await scene.store.sent(ident("c"), [])
    assert await scene.store.last_delivery("slack", CHAT.account) == scene.clock.now


async def test_threads_are_listed_by_their_last_sign_of_life(scene: Scene) -> None:
    await scene.hear(said("a"))
    scene.clock.tick(1)
    await scene.hear(said("b", at=OTHER))
    listed = await scene.store.threads()
    assert [(t.address, t.state, t.last_at) for t in listed] == [
        (OTHER, "ready", scene.clock.now),
        (CHAT, "ready", BIRTH),
    ]
    assert await scene.store.threads(channel="telegram") == []
    assert len(await scene.store.threads(limit=1)) == 1
    await scene.begin()
    assert {t.state for t in await scene.store.threads()} == {"running", "ready"}
    assert await scene.store.thread("nobody") is None


async def test_the_audit_counts_every_ending(scene: Scene) -> None:
    await scene.hear(said("a"), said("b"))
    claim, work = await scene.begin()
    await scene.finish(claim, work.turn, row("x"))
    report = await scene.store.audit_report()
    assert (
        report.accepted,
        dict(report.endings),
        report.waiting,
        report.taken,
        dict(report.posts),
    ) == (2, {"answered": 1}, 1, 0, {"ready": 1})
