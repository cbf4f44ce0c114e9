"""Lists in pages, what was spent, where the owner put a conversation, and who hears that something a
person looks at has changed."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from store_words import CHAT, COMMAND, MESSAGE, OTHER, Scene, ident, model, row, said

from channels.contract import Address, ChatId
from ohmo.contracts.errors import LeaseLost
from ohmo.contracts.messages import Usage
from ohmo.contracts.provider import Payer
from ohmo.contracts.reports import Spender, Spot, spot_of
from ohmo.contracts.spending import Total
from ohmo.contracts.store import Hint
from ohmo.contracts.turns import End, ThreadSettings


async def pages(fetch: Callable[[Spot | None], Awaitable[list[Any]]]) -> list[Any]:
    """All pages, one after the other."""
    found: list[Any] = []
    while page := await fetch(spot_of(found[-1]) if found else None):
        found += page
    return found


async def test_pages_of_threads_show_each_once_newest_first(scene: Scene) -> None:
    for number in range(7):
        if number % 2:
            scene.clock.tick(1)  # some share their time
        await scene.hear(said(f"m{number}", at=Address("slack", "T1", ChatId(f"C{number}"))))
    whole = await scene.store.threads()
    paged = await pages(lambda after: scene.store.threads(limit=2, after=after))
    assert [one.thread for one in paged] == [one.thread for one in whole]
    assert len(whole) == 7
    assert whole[0].address.chat in ("C5", "C6")


async def test_pages_of_arrivals_and_posts_show_each_once_whatever_their_state(
    scene: Scene,
) -> None:
    scene.problems_allowed = True
    for number in range(5):
        await scene.hear(said(f"m{number}", at=Address("slack", "T1", ChatId(f"C{number}"))))
        if number == 2:
            scene.clock.tick(1)
    claim, work = await scene.begin()
    await scene.store.finish(
        claim, work.turn, [model("x")], [row("answer", at=claim.address)], End("done")
    )
    await scene.begin()
    await scene.store.post([row("a"), row("b", at=OTHER), row("c", at=OTHER)])
    await scene.deliver("a")
    whole = await scene.store.inbox()
    assert [one.state for one in whole] == ["waiting"] * 3 + ["taken", "ended"]
    for size in (1, 2, 3):
        assert await pages(lambda after, n=size: scene.store.inbox(limit=n, after=after)) == whole
        assert (
            await pages(
                lambda after, n=size: scene.store.inbox(state="waiting", limit=n, after=after)
            )
            == whole[:3]
        )
        posts = await pages(lambda after, n=size: scene.store.outbox(limit=n, after=after))
        assert posts == await scene.store.outbox()
        assert [post.state for post in posts] == ["ready"] * 3 + ["sent"]
    assert [post.row.id for post in await scene.store.outbox(state="sent")] == [ident("a")]
    assert whole[-1].ended is not None
    assert whole[0].ended is None


async def test_a_page_goes_on_where_it_ended_when_newer_things_arrive_between(scene: Scene) -> None:
    for name in ("a", "b", "c"):
        await scene.hear(said(name, at=Address("slack", "T1", ChatId(name))))
        scene.clock.tick(1)
    first = await scene.store.inbox(limit=2)
    await scene.hear(said("new", at=Address("slack", "T1", ChatId("new"))))
    rest = await scene.store.inbox(limit=2, after=spot_of(first[-1]))
    assert [one.arrival.text for one in [*first, *rest]] == ["c", "b", "a"]  # pyright: ignore


async def test_rows_are_read_again_by_their_ids_with_why_they_failed(scene: Scene) -> None:
    await scene.store.post([row("a"), row("b")])
    await scene.store.unsent(ident("a"), retry_after=None, error="the chat is gone")
    found = await scene.store.posts([ident("a"), ident("b"), ident("nobody")])
    assert [(one.state, one.error) for one in found] == [
        ("dead", "the chat is gone"),
        ("ready", None),
    ]
    assert found[0].ended is not None
    await scene.store.retry_post(ident("a"))
    (again,) = await scene.store.posts([ident("a")])
    assert (again.state, again.error, again.ended) == ("ready", None, None)


async def test_what_was_spent_is_told_by_person_and_by_turn(scene: Scene) -> None:
    await scene.hear(said("one"))
    claim, work = await scene.begin()
    await scene.store.record(
        claim, work.turn, [model("thinking")], usage=Usage("small", "turn", 10, 5, 1, 2, 300)
    )
    await scene.store.finish(
        claim,
        work.turn,
        [model("x")],
        [],
        End("done"),
        usage=Usage("small", "turn", 1, 0, 0, 1, 30),
    )
    (by_person,) = await scene.store.usage(by_person=True)
    assert (by_person.calls, by_person.input, by_person.micro_usd) == (2, 11, 330)
    assert by_person.person
    assert [total.person for total in await scene.store.usage()] == [""]
    (turn,) = await scene.store.thread_usage(claim.thread, since=scene.clock.now)
    assert (turn.turn, turn.model, turn.calls, turn.output, turn.micro_usd) == (
        work.turn,
        "small",
        2,
        3,
        330,
    )
    assert await scene.store.thread_usage("nowhere") == []
    await scene.hear(said("two", at=Address("slack", "T1", ChatId("C9"))))
    other, work = await scene.begin()
    await scene.store.finish(
        other, work.turn, [model("x")], [], End("done"), usage=Usage("big", "turn", 1, 0, 0, 1, 900)
    )
    totals = await scene.store.thread_totals()
    assert [(one.thread, one.calls, one.input, one.micro_usd) for one in totals] == [
        (other.thread, 1, 1, 900),
        (claim.thread, 2, 11, 330),
    ]
    assert [one.thread for one in await scene.store.thread_totals(limit=1)] == [other.thread]


async def test_people_with_one_id_in_two_channels_are_told_apart_and_named_as_they_spoke(
    scene: Scene,
) -> None:
    two = Address("telegram", "bot", ChatId("7"))
    for word, at, name in (
        ("one", CHAT, "Ada Lovelace"),
        ("two", two, "Adam"),
        ("three", CHAT, "Ada King"),
    ):
        heard = said(word, at=at)
        await scene.hear(replace(heard, person=replace(heard.person, name=name)))
        claim, work = await scene.begin()
        await scene.store.finish(
            claim,
            work.turn,
            [model("x")],
            [],
            End("done"),
            usage=Usage("small", "turn", 10, 0, 0, 1, 300),
        )
    by_person = await scene.store.usage(by_person=True)
    assert [(one.channel, one.account, one.person, one.calls) for one in by_person] == [
        ("slack", "T1", "ada", 2),
        ("telegram", "bot", "ada", 1),
    ]
    assert [(one.channel, one.person, one.calls) for one in await scene.store.usage()] == [
        ("", "", 3)
    ]
    ada, adam = Spender("slack", "T1", "ada"), Spender("telegram", "bot", "ada")
    nobody, elsewhere = Spender("slack", "T1", "eve"), Spender("slack", "T2", "ada")
    assert await scene.store.names([ada, adam, nobody, elsewhere]) == {
        ada: "Ada King",
        adam: "Adam",
    }
    assert await scene.store.names([adam]) == {adam: "Adam"}


async def test_every_call_counts_for_all_who_bear_it_and_days_begin_anew(scene: Scene) -> None:
    store = scene.store
    await scene.hear(said("one"))
    claim, work = await scene.begin()
    ada = Payer(work.turn, claim.thread, "slack:ada", "job-1")
    step = Usage("small", "turn", 10, 5, 1, 2, 300)
    await store.record(claim, work.turn, [model("thinking")], usage=step, payer=ada)
    await store.spend(ada, Usage("tiny", "compaction", 100, 0, 0, 10, None))
    await store.finish(claim, work.turn, [model("x")], [], End("done"), usage=step, payer=ada)
    both = Total(18 + 110 + 18, 600)
    assert await store.spent(ada) == dict.fromkeys(("turn", "thread", "person", "job", "day"), both)
    await store.spend(Payer(person="telegram:ada"), Usage("tiny", "memory", 1, 0, 0, 0, 5))
    assert await store.spent(Payer(person="slack:ada")) == {
        "person": both,
        "day": Total(both.tokens + 1, 605),
    }
    assert await store.spent(Payer(thread="nowhere", person="telegram:ada")) == {
        "thread": Total(),
        "person": Total(1, 5),
        "day": Total(both.tokens + 1, 605),
    }
    assert {total.model: total.calls for total in await store.usage()} == {"small": 2, "tiny": 2}
    purposes = [(share.name, share.calls) for share in await store.usage_by("purpose")]
    assert purposes == [("turn", 2), ("memory", 1), ("compaction", 1)]
    jobs = [(share.name, share.calls) for share in await store.usage_by("job")]
    assert jobs == [("job-1", 3), ("", 1)]
    (today,) = await store.usage_by("day", days=1)
    assert (today.calls, today.tokens, today.unpriced) == (4, both.tokens + 1, 1)
    assert [(one.thread, one.calls) for one in await store.thread_totals()] == [
        (claim.thread, 3),
        ("", 1),
    ]
    scene.clock.tick(86_400)
    tomorrow = await store.spent(ada)
    assert tomorrow == {
        "turn": both,
        "thread": both,
        "person": Total(),
        "job": Total(),
        "day": Total(),
    }


async def test_the_owner_is_one_person_at_the_keyboard_and_on_the_page(scene: Scene) -> None:
    await scene.store.spend(Payer(person="web:owner"), Usage("tiny", "turn", 1, 0, 0, 0, 5))
    await scene.store.spend(Payer(person="house:owner"), Usage("tiny", "turn", 1, 0, 0, 0, 5))
    spent = await scene.store.spent(Payer(person="house:owner"))
    assert spent["person"] == Total(2, 10)


async def test_a_call_that_may_not_be_written_counts_for_nobody(scene: Scene) -> None:
    await scene.hear(said("one"))
    claim, work = await scene.begin()
    lost = replace(claim, generation=claim.generation + 1)
    with pytest.raises(LeaseLost):
        await scene.store.record(
            lost, work.turn, [model("x")], usage=Usage("small", "turn", 1, 0, 0, 1, 1)
        )
    assert await scene.store.spent(Payer(work.turn, claim.thread)) == {
        "turn": Total(),
        "thread": Total(),
        "day": Total(),
    }


async def test_the_oldest_that_waits_is_known_by_channel(scene: Scene) -> None:
    await scene.hear(said("first"))
    scene.clock.tick(5)
    await scene.hear(said("second", at=OTHER))
    counts = await scene.store.counts()
    assert counts.oldest == {"slack": counts.oldest_waiting}
    assert counts.oldest_waiting is not None


@pytest.mark.parametrize("what", ["sent", "unsent", "ended"])
async def test_who_watches_hears_of_changes_that_nobody_has_to_act_on(
    scene: Scene, what: str
) -> None:
    await scene.store.post([row("a", at=CHAT)])
    (command,) = await scene.hear(said("/help"), seat=COMMAND)
    heard: list[Hint] = []
    end = scene.store.listen(heard.extend)
    match what:
        case "sent":
            await scene.deliver("a")
        case "unsent":
            await scene.store.unsent(ident("a"), retry_after=5, error="busy")
        case _:
            await scene.store.end_arrival(command.thread, command.seq, "answered")
    end()
    assert ("state", command.thread) in [(hint.kind, hint.thread) for hint in heard]


async def test_several_threads_are_asked_for_at_once_and_unknown_ones_are_left_out(
    scene: Scene,
) -> None:
    here = (await scene.hear(said("a")))[0].thread
    there = (await scene.hear(said("b", at=OTHER)))[0].thread
    found = await scene.store.threads_of([here, "", there, "nowhere"])
    assert found == {one: await scene.store.thread(one) for one in (here, there)}
    assert await scene.store.threads_of([]) == {}


async def test_conversations_are_listed_by_where_they_were_put(scene: Scene) -> None:
    (here, there) = await scene.hear(said("a"), said("b", at=OTHER))
    assert await scene.store.choose(
        here.thread, ThreadSettings(title='"shelf":"archived"', mode="plan")
    )  # a name is only a name
    assert [one.thread for one in await scene.store.threads(shelf="archived")] == []
    heard: list[Hint] = []
    end = scene.store.listen(heard.extend)
    assert await scene.store.choose(here.thread, ThreadSettings(shelf="pinned"))
    end()
    assert heard
    assert [one.thread for one in await scene.store.threads(shelf="pinned")] == [here.thread]
    assert [one.thread for one in await scene.store.threads(shelf="open")] == [there.thread]
    info = await scene.store.thread(here.thread)
    assert info is not None
    assert info.settings == ThreadSettings(title='"shelf":"archived"', mode="plan", shelf="pinned")
    assert await scene.store.choose(here.thread, ThreadSettings(shelf="open"))
    assert {one.thread for one in await scene.store.threads(shelf="open")} == {
        here.thread,
        there.thread,
    }
    assert not await scene.store.choose("nowhere", ThreadSettings(shelf="open"))


async def test_full_auto_is_found_by_its_end_and_taken_back_unless_another_was_chosen_meanwhile(
    scene: Scene,
) -> None:
    (here, there) = await scene.hear(said("a"), said("b", at=OTHER))
    soon, late = scene.clock() + timedelta(hours=1), scene.clock() + timedelta(hours=2)
    assert await scene.store.choose(
        here.thread, ThreadSettings(title='"free_until":', mode="full_auto", free_until=soon)
    )
    assert await scene.store.choose(
        there.thread, ThreadSettings(title='"free_until":', mode="full_auto")
    )
    assert [(one.thread, one.settings.free_until) for one in await scene.store.free_threads()] == [
        (here.thread, soon)
    ]
    assert not await scene.store.end_free(here.thread, late)
    assert not await scene.store.end_free("nowhere", soon)
    assert await scene.store.end_free(here.thread, soon)
    info = await scene.store.thread(here.thread)
    assert info is not None
    assert info.settings == ThreadSettings(title='"free_until":')
    assert await scene.store.free_threads() == []


async def test_a_deleted_conversation_leaves_nothing_that_was_said_and_its_numbers_go_on(
    scene: Scene,
) -> None:
    scene.problems_allowed = True
    await scene.hear(said("secret"))
    claim, work = await scene.begin()
    (kept,) = await scene.hear(said("kept", at=OTHER))
    thread = claim.thread
    assert not await scene.store.forget(thread)  # it is being answered
    await scene.store.finish(
        claim, work.turn, [model("the answer")], [row("answer", at=claim.address)], End("done")
    )
    assert not await scene.store.forget(thread)  # the answer is on its way
    await scene.deliver("answer")
    last = (await scene.store.history(thread))[-1].seq
    assert await scene.store.forget(thread)
    assert await scene.store.history(thread) == []
    assert await scene.store.steps(thread, 0) == []
    assert await scene.store.outbox(state="sent") == []
    assert [one.thread for one in await scene.store.inbox()] == [kept.thread]
    assert [one.thread for one in await scene.store.threads(shelf="open")] == [kept.thread]
    (again,) = await scene.store.accept([(said("secret"), MESSAGE)])
    assert again.duplicate  # the platform repeats it: it still counts once
    (new,) = await scene.hear(said("new", at=CHAT))
    assert new.thread == thread
    assert new.seq > last
