"""Interruptions (row 68, G8): /stop and /new at every step, a wait for a person; there is one ending,
no half state, every call has one result, and the next words are answered."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from interrupted import BUSY, ENDS, TOOLS, Story, faults, told
from pool_rig import PLACE, Rig, violations

from channels.contract import MessageId, Outbound, Part, Receipt
from ohmo.contracts.messages import Step, Text, UserStep
from ohmo.contracts.outbox import PartState, PostRow
from ohmo.contracts.provider import ModelRequest
from ohmo_testing.house import eventually
from ohmo_testing.scripted import Says

STEPS = """
    turn.claim model.chunk tool.before tool.running tool.after outbox.before outbox.committed
""".split()


def calls_once(request: ModelRequest) -> Says:
    """One command with an effect for the first words, then an answer."""
    last = request.steps[-1]
    told = (
        [block for block in last.blocks if isinstance(block, Text)]
        if isinstance(last, UserStep)
        else []
    )
    return (
        Says("", calls=(("Once", {"name": "x"}),))
        if any(block.text == "go" for block in told)
        else Says("done", chunks=3)
    )


def present(rig: Rig) -> list[Step]:
    """The steps of the present session: all that a model is ever sent again. What /new left open
    stays in the session it belongs to."""
    (row,) = rig.store.tables.threads.values()
    return [
        logged.step
        for (_, seq), logged in sorted(rig.store.tables.steps.items())
        if seq >= row.session_seq
    ]


class Interrupting:
    """A failpoint that lets somebody say the command at one hit of one step."""

    def __init__(self, step: str, hit: int, later: int) -> None:
        self._step = step
        self._left = hit
        self._later = later
        self.command: Coroutine[None, None, None] | None = None
        self.said: asyncio.Task[None] | None = None

    def __call__(self, name: str) -> None:
        self._left -= name == self._step
        if name == self._step and not self._left and self.command is not None:
            self.said = asyncio.get_running_loop().create_task(self._say(self.command))

    async def _say(self, command: Coroutine[None, None, None]) -> None:
        for _ in range(self._later):
            await asyncio.sleep(0)
        await command


@pytest.mark.parametrize("later", [0, 1, 3, 7])
@pytest.mark.parametrize("fresh", [False, True], ids=["stop", "new"])
@pytest.mark.parametrize("step", STEPS)
async def test_a_command_at_any_step_leaves_one_ending_and_no_half_state(
    step: str, fresh: bool, later: int
) -> None:
    point = Interrupting(step, 2 if step == "model.chunk" else 1, later)
    rig = Rig(failpoint=point)
    rig.model.default = calls_once
    await rig.says("go")
    async with rig.life() as pool:
        point.command = rig.stops(pool, fresh=fresh)
        await rig.quiet()
        async with asyncio.timeout(20):
            while point.said is None:
                await asyncio.sleep(0)
            await point.said
        answers, ended = rig.said().count("done"), rig.endings()
        assert (ended, answers) in ((["stopped"], 0), (["answered"], 1))
        assert ended == ["stopped"] or step.startswith("outbox") or later, (
            "it came before the answer was stored"
        )
        await rig.says("and now?")
        await rig.quiet()
    assert rig.endings()[-1] == "answered"
    assert rig.said().count("done") == answers + 1
    assert violations(present(rig)) == []
    assert [fault for request in rig.model.requests for fault in faults(request)] == []
    assert all(count == 1 for count in rig.once.begun.values())


STORIES = st.builds(
    Story,
    st.lists(st.lists(st.sampled_from(TOOLS), min_size=1, max_size=4), min_size=1, max_size=3),
    st.lists(st.tuples(st.sampled_from(ENDS), st.integers(0, 90)), max_size=4),
    st.sampled_from(BUSY),
)


@given(STORIES)
@settings(max_examples=500, deadline=None, suppress_health_check=list(HealthCheck))
def test_a_turn_interrupted_anywhere_leaves_a_valid_transcript(story: Story) -> None:
    asyncio.run(told(story))


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
