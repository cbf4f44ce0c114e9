"""What waits: albums until they are whole, unreadable rows not for ever, times as long as before
when the clock is set; and what is overheard."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from store_words import (
    BIRTH,
    CHAT,
    Scene,
    ask,
    card,
    closing,
    edited,
    ident,
    part,
    reacted,
    row,
    said,
    told,
)

from channels.contract import Inbound, Reacted, TopicId
from ohmo.contracts.messages import Text, UserStep
from ohmo.contracts.outbox import Grant, Ruling
from ohmo.contracts.turns import BY_A_BOT, NOT_ADDRESSED, Claim, Seat

NOTED = Seat("", "message", "noted", NOT_ADDRESSED)


def context(claim: Claim, heard: object) -> list[UserStep]:
    words = [
        one.text if isinstance(one, Inbound) else one.emoji
        for one in heard
        if isinstance(one, Inbound | Reacted)
    ]  # type: ignore[attr-defined]
    return [UserStep((Text("|".join(words)),), "house", "context")] if words else []


async def heard(scene: Scene, turn: str) -> list[str]:
    """What the next turn is told of; it ends at once."""
    claim = (await scene.store.claim("one", limit=1, ttl=30))[0]
    work = await scene.store.work(claim, ident(turn), collect=False, step=told, context=context)
    assert work is not None
    await scene.finish(claim, work.turn)
    first = work.steps[0][1]
    assert isinstance(first, UserStep)
    text = (
        first.blocks[0].text
        if first.source == "context" and isinstance(first.blocks[0], Text)
        else ""
    )
    assert [step.source for _, step in work.steps if isinstance(step, UserStep)][-1] == "message"
    return text.split("|") if text else []


async def test_what_was_overheard_is_handed_over_once_as_it_stands(scene: Scene) -> None:
    await scene.hear(said("a"), said("b"), said("c"), seat=NOTED)
    await scene.hear(said("x"), seat=Seat("", "message", "noted", "said by a bot"))
    await scene.hear(
        edited("b", "b2", key="e1"), edited("c", None, key="e2"), seat=Seat("", "edit")
    )
    await scene.hear(reacted("a", key="r"), seat=Seat("", "reaction"))
    await scene.hear(said("q"))
    found = await heard(scene, "t1")
    assert found[:2] == ["a", "b2"]
    assert len(found) == 3  # and the reaction
    await scene.hear(said("q2"))
    assert await heard(scene, "t2") == []


async def test_a_call_that_begins_a_thread_knows_what_was_said_above_it(scene: Scene) -> None:
    await scene.hear(said("above"), seat=NOTED)
    await scene.hear(said("beside", at=replace(CHAT, topic=TopicId("t9"))), seat=NOTED)
    question = said("q")
    assert isinstance(question, Inbound)
    await scene.hear(replace(question, address=replace(CHAT, topic=TopicId(question.message))))
    assert await heard(scene, "t1") == ["above"]


async def test_the_first_call_in_a_thread_knows_the_message_it_hangs_on_and_no_strangers(
    scene: Scene,
) -> None:
    bots, strangers = (
        Seat("", "message", "noted", BY_A_BOT),
        Seat("", "message", "noted", "eve is not in channels.fake.allow.people"),
    )
    for name, seat in (("alert", bots), ("obey me", strangers), ("seen before", NOTED)):
        await scene.hear(said(name), seat=seat)
    await scene.store.post([row("report", "all is green"), row("other", "something else")])
    for name in ("report", "other"):
        await scene.store.sent(ident(name), [part(name, f"m-{name}")])
    hung = {
        "m-alert": ["alert"],
        "m-obey me": [],
        "m-seen before": ["seen before"],
        "m-report": ["all is green"],
        "m-nothing": [],
    }
    for number, (root, expected) in enumerate(hung.items()):
        for again, known in enumerate((expected, [])):
            await scene.hear(said(f"q{number}.{again}", at=replace(CHAT, topic=TopicId(root))))
            assert await heard(scene, f"t{number}{again}") == known, (root, again)


async def test_a_thread_waits_until_the_last_part_of_an_album_is_due(scene: Scene) -> None:
    await scene.hear(said("a", album="x"), seat=Seat("", "message"))
    scene.clock.tick(0.1)
    await scene.hear(said("b", album="x"), seat=Seat("", "message", hold=5.0))
    claim = (await scene.store.claim("one", limit=1, ttl=30))[0]
    assert await scene.store.work(claim, ident("t"), collect=False, step=told) is None
    assert await scene.store.claim("one", limit=1, ttl=30) == []  # no spinning
    scene.clock.tick(5)
    _, work = await scene.begin()
    assert len(work.arrivals) == 2


async def test_what_cannot_be_read_ends_as_dead_and_the_next_one_goes_on(scene: Scene) -> None:
    await scene.hear(said("a", album="x"), said("b", album="x"), said("c"))
    claim = (await scene.store.claim("one", limit=1, ttl=30))[0]
    assert await scene.store.bury(claim, "unreadable", [row("sorry")])
    assert await scene.endings(claim.thread) == {"k-a": "dead", "k-b": "dead", "k-c": "waiting"}
    claim, work = await scene.begin()
    assert await scene.store.bury(claim, "unreadable", [])
    assert list((await scene.endings(claim.thread)).values()) == ["dead"] * 3
    assert await scene.store.claim("one", limit=1, ttl=30) == []
    assert work.turn
    assert await scene.heads() == ["sorry"]


async def test_a_clock_that_is_set_moves_along_what_waits(scene: Scene) -> None:
    await scene.hear(said("a"))
    claim, work = await scene.begin()
    await scene.store.park(
        claim, work.turn, [ask("ask", "c")], timeout=300, card=card, closing=closing
    )
    await scene.store.post([row("later", ttl=600)])
    year = timedelta(days=365)
    for by in (-year, year, timedelta(hours=1)):
        scene.clock.tick(by.total_seconds())
        assert await scene.store.rebase(by.total_seconds()) == by.total_seconds()
    assert await scene.store.next_deadline() == BIRTH + timedelta(hours=1, seconds=300)
    assert (await scene.store.outgoing("slack", "T1"))[0].ready_at <= scene.clock()
    await scene.hear(said("b"))
    scene.clock.tick(-year.total_seconds())
    moved = -year.total_seconds()  # while nobody ran: since the newest row
    assert [await scene.store.rebase(None), await scene.store.rebase(None)] == [moved, 0]
    assert await scene.store.next_deadline() == BIRTH + timedelta(hours=1, seconds=300) - year


async def test_permissions_of_a_session_go_when_it_is_over(scene: Scene) -> None:
    accepted = (await scene.hear(said("a")))[0]
    claim, work = await scene.begin()
    await scene.store.park(
        claim, work.turn, [ask("ask", "c")], timeout=300, card=card, closing=closing
    )
    grant = Grant("g1", f"{accepted.thread}.0", "r", "p", BIRTH)
    await scene.store.answer(
        Ruling(ident("ask"), "allowed", "p", grant=grant), card=card, closing=closing
    )
    claim, work = await scene.begin()
    await scene.finish(claim, work.turn)
    await scene.store.prune(BIRTH)
    assert [one.id for one in await scene.store.grants()] == ["g1"]
    stop = (await scene.hear(said("/new"), seat=Seat("", "command")))[0]
    await scene.store.stop(stop.thread, stop.seq, person="p", fresh=True, posts=[], closing=closing)
    assert await scene.store.prune(BIRTH) == 1
    assert await scene.store.grants() == []
