"""A turn that waits for a person leaves its words standing."""

from __future__ import annotations

import asyncio

from pool_rig import PLACE, Rig

from channels.contract import MessageId, Outbound, Part, Receipt
from ohmo.contracts.outbox import PartState, PostRow
from ohmo_testing.house import eventually
from ohmo_testing.scripted import Says


async def test_a_parked_turn_leaves_the_words_of_its_step_where_the_draft_was() -> None:
    rig = Rig()
    rig.gate.ask = {"Once"}
    looking = asyncio.Event()
    rig.look.gate = looking.wait
    rig.model.next(
        Says(
            "Let me look first; then I would do it.",
            calls=(("Once", {"name": "a"}), ("Look", {"name": "b"})),
        )
    )
    accepted = await rig.says("go")
    draft = PostRow(rig.new_id(), "draft", Outbound(PLACE, "Let me"))
    async with rig.life() as pool:
        await eventually(lambda: rig.look.begun["b"] == 1)
        turn = pool.running_turn(accepted.thread)
        assert turn is not None
        assert await pool.draft(accepted.thread, turn, draft)
        await rig.store.sending(draft.id, [PartState(Part("post", "{}"))])
        await rig.store.sent(draft.id, [PartState(Part("post", "{}"), Receipt(MessageId("1")))])
        looking.set()
        await eventually(lambda: rig.outcomes() == ["parked"])
    (standing,) = [row.row for row in await rig.store.outbox() if row.row.target == draft.id]
    assert (standing.kind, standing.outbound.text) == (
        "edit",
        "Let me look first; then I would do it.",
    )
