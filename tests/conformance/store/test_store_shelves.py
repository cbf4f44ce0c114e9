"""Where the owner put a conversation, and that a deleted one leaves nothing of what was said."""

from __future__ import annotations

from datetime import timedelta

from store_words import CHAT, MESSAGE, OTHER, Scene, model, row, said

from ohmo.contracts.store import Hint
from ohmo.contracts.turns import End, ThreadSettings


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
