"""Which steps of a thread belong to which conversation of it."""

from __future__ import annotations

from datetime import timedelta

import pytest
from store_words import BIRTH, COMMAND, Scene, ask, card, closing, ident, model, said

from ohmo.contracts.messages import ModelStep, Text, UserStep
from ohmo.contracts.outbox import Grant, Ruling
from ohmo.contracts.reports import StepInfo
from ohmo.contracts.turns import NO_SESSION, SESSIONS, STRETCHES, End, Stretch, ThreadSettings


async def talk(scene: Scene, words: str) -> str:
    await scene.hear(said(words))
    claim, work = await scene.begin()
    await scene.store.finish(claim, work.turn, [model(f"to {words}")], [], End("done"))
    scene.clock.tick(1)
    return claim.thread


async def stop(scene: Scene, key: str, resumes: int | None = None) -> None:
    (command,) = await scene.hear(said(key), seat=COMMAND)
    where = (command.thread, command.seq)
    await scene.store.stop(
        *where, person="ada", fresh=True, posts=[], closing=closing, resumes=resumes
    )


async def sent(scene: Scene, thread: str) -> list[str]:
    """What the model is sent: of both, people and itself."""
    info = await scene.store.thread(thread)
    steps = await scene.store.steps(thread, info.session_seq)
    return [
        block.text
        for seq, step in steps
        if info.settings.holds(info.session_seq, seq) and isinstance(step, UserStep | ModelStep)
        for block in step.blocks
        if isinstance(block, Text)
    ]


async def test_an_earlier_conversation_goes_on_and_the_present_one_is_kept(scene: Scene) -> None:
    store = scene.store
    thread = await talk(scene, "roof")
    await talk(scene, "tiles")
    assert await store.sessions(thread) == []  # only the present one
    await stop(scene, "new 1")
    await talk(scene, "fence")
    (roof,) = await store.sessions(thread)
    assert roof.words == "roof"
    assert await sent(scene, thread) == ["fence", "to fence"]

    await stop(scene, "resume 1", roof.session)
    assert await sent(scene, thread) == ["roof", "to roof", "tiles", "to tiles"]
    await talk(scene, "gutter")
    assert await sent(scene, thread) == [
        "roof", "to roof", "tiles", "to tiles", "gutter", "to gutter",
    ]  # fmt: skip
    (fence,) = await store.sessions(thread)
    assert fence.words == "fence"

    await stop(scene, "resume 2", fence.session)
    assert await sent(scene, thread) == ["fence", "to fence"]
    await stop(scene, "new 2")
    assert await sent(scene, thread) == []
    await talk(scene, "door")
    listed = await store.sessions(thread)
    assert [one.words for one in listed] == ["roof", "fence"]  # who spoke last first
    assert listed[0].last - listed[1].last == timedelta(seconds=1)
    await stop(scene, "resume 3", listed[0].session)
    assert (await sent(scene, thread))[-1] == "to gutter"


async def test_what_was_allowed_for_a_conversation_is_asked_again_when_it_goes_on(
    scene: Scene,
) -> None:
    store = scene.store
    (roof,) = await scene.hear(said("roof"))
    claim, work = await scene.begin()
    questions = [ask("ask", "c")]
    await store.park(claim, work.turn, questions, timeout=300, card=card, closing=closing)
    grant = Grant("g1", f"{roof.thread}.0", "r", "p", BIRTH)
    ruling = Ruling(ident("ask"), "allowed", "p", grant=grant)
    await store.answer(ruling, card=card, closing=closing)
    claim, work = await scene.begin()
    await scene.finish(claim, work.turn)
    await stop(scene, "new")
    await talk(scene, "fence")
    assert await store.grants() == [grant]  # nobody has tidied up
    (earlier,) = await store.sessions(roof.thread)
    assert earlier.session == 0
    await stop(scene, "resume", 0)
    assert await store.grants() == []


async def test_a_silence_ends_a_conversation_that_can_be_gone_on_with(scene: Scene) -> None:
    thread = await talk(scene, "roof")
    scene.clock.tick(100)
    await scene.hear(said("fence"))
    (claim,) = await scene.store.claim("one", limit=1, ttl=30, idle=60)
    assert claim.settings.holds(claim.session_seq, claim.session_seq)
    await scene.store.release(claim)
    await scene.begin()
    (roof,) = await scene.store.sessions(thread)
    assert (roof.session, roof.words) == (0, "roof")
    assert await sent(scene, thread) == ["fence"]


async def test_a_choice_keeps_the_boundaries(scene: Scene) -> None:
    thread = await talk(scene, "roof")
    await stop(scene, "new")
    before = (await scene.store.thread(thread)).settings.stretches
    await scene.store.choose(thread, ThreadSettings(title="x"))
    after = (await scene.store.thread(thread)).settings
    assert after.title == "x"
    assert after.stretches == before != ()


@pytest.mark.parametrize("present", [0, 7])
def test_steps_of_a_thread_without_boundaries_belong_to_the_present_session(present: int) -> None:
    settings = ThreadSettings()
    assert settings.holds(present, present)
    assert settings.holds(present, present + 5)
    known = settings.begun(present, 50)
    assert known.holds(50, 60)
    assert not known.holds(50, present)
    assert known.holds(present, 49)
    if present:  # what was before it is one conversation
        assert known.session_of(3) == 0


def test_the_oldest_boundaries_go_and_those_of_the_session_stay() -> None:
    settings = ThreadSettings()
    present = 0
    for at in range(10, 10 * SESSIONS * 2, 10):
        settings = settings.begun(present, at)
        present = at
    assert len(settings.stretches) == SESSIONS
    assert settings.session_of(0) is None
    oldest = settings.stretches[0].session
    back = settings.begun(present, 10_000, oldest)
    assert back.stretches[0] == Stretch(oldest, oldest)  # one more than kept otherwise
    assert back.holds(oldest, oldest)
    assert back.holds(oldest, 10_001)
    assert not back.holds(oldest, present)


def test_a_session_gone_on_with_often_keeps_its_beginning_and_others_go_as_a_whole() -> None:
    settings = ThreadSettings()
    at = 0
    while len(settings.stretches) < STRETCHES:  # /new, something is said, /resume of the first one
        settings = settings.begun(0, at + 10).begun(at + 10, at + 20, 0)
        at += 20
        assert settings.holds(0, 5)
        assert settings.holds(0, at + 5)
    kept = {each.session for each in settings.stretches} - {0, NO_SESSION}
    assert kept == set(range(at - 10 - 20 * (SESSIONS - 2), at, 20))  # those used last
    for step in range(5, at, 10):
        owner = 0 if step // 10 % 2 == 0 else step - 5
        assert settings.session_of(step) == (owner if owner in {0, *kept} else None)

    present = 0
    for _ in range(SESSIONS):  # none is gone on with any more
        at += 10
        settings = settings.begun(present, at)
        present = at
        assert len(settings.stretches) <= STRETCHES + SESSIONS
    assert len(settings.stretches) == SESSIONS
    assert settings.session_of(5) is None


async def test_a_conversation_that_is_not_kept_apart_is_not_listed(scene: Scene) -> None:
    thread = await talk(scene, "roof")
    for number in range(SESSIONS):
        await stop(scene, f"new {number}")
        await talk(scene, f"m{number}")
        if number == 0:
            await stop(scene, "resume", 0)
    words = [one.words for one in await scene.store.sessions(thread)]
    assert len(words) == SESSIONS - 1
    assert words[-1] == "roof"  # and not what was said between its stretches


async def test_what_was_said_between_the_stretches_of_a_resumed_conversation_is_pruned(
    scene: Scene,
) -> None:
    store = scene.store
    thread = await talk(scene, "roof")
    await stop(scene, "new")
    await talk(scene, "fence")
    await stop(scene, "resume", 0)
    await talk(scene, "tiles")
    scene.clock.tick(10 * 86_400)
    await stop(scene, "new 2")
    await talk(scene, "door")
    await stop(scene, "resume 2", 0)
    await store.prune(scene.clock.now - timedelta(days=1))
    assert await sent(scene, thread) == ["roof", "to roof", "tiles", "to tiles"]
    assert [one.words for one in await store.sessions(thread)] == ["door"]
    steps = await store.steps(thread, 0)
    assert len(steps) == 6  # of what is kept for a day, and of the present one
    scene.clock.tick(2 * 86_400)
    await store.prune(scene.clock.now - timedelta(days=1))
    assert len(await store.steps(thread, 0)) == 4
    turns = {item.turn for item in await store.history(thread) if isinstance(item, StepInfo)}
    assert len(turns) == 2
