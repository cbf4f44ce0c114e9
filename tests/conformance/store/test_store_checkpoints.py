"""Rows of checkpoints, and what the model is told behind a command, on every store."""

from __future__ import annotations

import pytest
from store_words import COMMAND, Scene, closing, model, row, said

from ohmo.contracts.messages import Text, UserStep
from ohmo.contracts.turns import Checkpoint, End

TOLD = UserStep((Text("(taken back)"),), "house", "notice")


async def test_rows_come_oldest_first_once_each_and_go(scene: Scene) -> None:
    await scene.hear(said("m1"))
    claim, work = await scene.begin()
    kept = [
        Checkpoint(f"k{n}", claim.thread, work.turn, f"/r/\udce9{n}", "tree", n, scene.clock())
        for n in (2, 1)
    ]
    for one in (*kept, kept[0]):
        await scene.store.keep_checkpoint(one)
    assert await scene.store.checkpoints(claim.thread) == kept[::-1]
    assert await scene.store.checkpoints() == kept[::-1]
    assert await scene.store.checkpoints("another") == []
    await scene.store.drop_checkpoints(["k1", "never"])
    assert await scene.store.checkpoints() == [kept[0]]


async def test_turns_of_the_present_session(scene: Scene) -> None:
    await scene.hear(said("m1"))
    claim, first = await scene.begin()
    assert await scene.store.session_turns(claim.thread) == {first.turn}
    await scene.store.finish(claim, first.turn, [model("x")], [], End("done"))
    accepted = (await scene.store.accept([(said("/new"), COMMAND)]))[0]
    await scene.store.stop(
        accepted.thread, accepted.seq, person="ada", fresh=True, posts=[row("ok")], closing=closing
    )
    assert await scene.store.session_turns(claim.thread) == set()
    await scene.hear(said("m2"))
    _, second = await scene.begin()
    assert await scene.store.session_turns(claim.thread) == {second.turn}
    assert await scene.store.session_turns("another") == set()


@pytest.mark.parametrize("open_turn", [False, True])
async def test_what_is_told_stands_behind_the_last_turn_and_never_in_an_open_one(
    scene: Scene, open_turn: bool
) -> None:
    await scene.hear(said("m1"))
    claim, work = await scene.begin()
    if not open_turn:
        await scene.store.finish(claim, work.turn, [model("x")], [], End("done"))
    accepted = (await scene.store.accept([(said("/undo"), COMMAND)]))[0]
    for ended in (True, False):
        done = await scene.store.end_arrival(
            accepted.thread, accepted.seq, "answered", posts=[row("reply")], told=TOLD
        )
        assert done is ended
    steps = [step for _, step in await scene.store.steps(claim.thread, 0)]
    assert (TOLD in steps) is not open_turn
    assert steps.count(TOLD) <= 1
    if open_turn:
        await scene.store.record(claim, work.turn, [model("x")])
        return
    assert steps[-1] == TOLD
    await scene.hear(said("m2"))
    again, _ = await scene.begin()
    assert again.generation > claim.generation + 1  # who has the steps in memory reads them anew
