"""Answers put right where there is no doubt; where there is, a model that gets help is asked once
more."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import replace

from ohmo.ambient import NewId
from ohmo.contracts.errors import Empty, ProviderError
from ohmo.contracts.messages import ModelStep, Text, ToolCall
from ohmo.contracts.provider import (
    Call,
    Delta,
    ModelEvent,
    ModelRequest,
    Notice,
    Queued,
    Reply,
    Restarted,
)
from ohmo.providers.middleware.judgement import Judged, judge, once_more, tool_name
from ohmo.providers.middleware.link import LinkManifest
from ohmo.providers.middleware.recovery import Fault
from ohmo.providers.wire_parts import says_something, streaming

DECLINED = "The model declined to answer this."
LENGTH = "The answer did not fit into the allowed length."
REPAIRS = 2  # times that one answer is asked for once more


class Repair:
    """Every call gets an id of the house, unique for ever (models reuse theirs); the model's stays
    in ``foreign``. An empty answer raises Empty, so that it is asked again.

    ``helped``: the models whose words are read as calls, too, and who are asked once more with the
    exact fault. From others a call that cannot be run stays and ends as an error result."""

    def __init__(self, new_id: NewId, helped: Callable[[str], bool] = lambda _: False) -> None:
        self._new_id = new_id
        self._helped = helped

    async def __call__(self, request: ModelRequest, ask: Call) -> AsyncIterator[ModelEvent]:
        said = False
        async with streaming(ask, request) as events:
            async for event in events:
                if not isinstance(event, Reply):
                    yield event
                    said = said or says_something(event)
                    continue
                names = [tool.name for tool in request.every]
                reply = replace(event, step=whole(event.step, names, self._new_id))
                if not (names and self._helped(request.model)):
                    yield reply
                    continue
                async for further in self._mended(request, ask, reply, said):
                    yield further

    async def _mended(
        self, request: ModelRequest, ask: Call, reply: Reply, said: bool
    ) -> AsyncIterator[ModelEvent]:
        judged, usage = judge(reply.step, request, self._new_id), reply.usage
        asked = request
        for _ in range(REPAIRS):
            if judged.fault is None:
                break
            yield Notice(f"{request.model}: {judged.fault}; it is asked once more.")
            asked = once_more(asked, judged)
            again: Reply | None = None
            try:
                async with streaming(ask, asked) as events:
                    async for event in events:
                        if isinstance(event, Reply):
                            usage = event.usage  # the till counts what is thrown away
                            names = [tool.name for tool in request.every]
                            step = whole(event.step, names, self._new_id)
                            again = replace(event, step=step)
                        elif isinstance(event, Notice | Queued):
                            yield event
            except ProviderError:  # what there is must do
                judged = replace(judged, fault=None)
                break
            if again is None:
                break
            judged = settled(judged, judge(again.step, request, self._new_id))
        # What was sent for the ledger's own request is what a replay compares.
        step = replace(judged.step, request=reply.step.request)
        if words(step) != words(reply.step):
            if said:
                yield Restarted()
            if words(step):
                yield Delta(words(step))
        yield Reply(step, usage, judged.fault or "")


def settled(before: Judged, after: Judged) -> Judged:
    """Words that were for the person stay when the model does not make a call of them; who insists
    on the same call may have it."""
    calls = any(isinstance(block, ToolCall) for block in after.step.blocks)
    if before.fault is Fault.PROSE and not calls and after.fault in (None, Fault.PROSE):
        return replace(before, fault=None)
    if before.fault is Fault.LOOP and after.fault is Fault.LOOP:
        return replace(after, fault=None)
    return after


def whole(step: ModelStep, tools: Sequence[str], new_id: NewId) -> ModelStep:
    """The step with names and ids put right. Raises Empty when it says nothing and calls
    nothing."""
    blocks = list(step.blocks)
    says_nothing = True
    for at, block in enumerate(blocks):
        if isinstance(block, ToolCall):
            blocks[at] = replace(block, id=new_id(), name=tool_name(block.name, tools))
            says_nothing = False
        elif isinstance(block, Text) and block.text.strip():
            says_nothing = False
    if says_nothing:
        if step.stop == "end":
            raise Empty(f"{step.model} gave an empty answer.")
        blocks.append(Text(DECLINED if step.stop == "refusal" else LENGTH))
    return replace(step, blocks=tuple(blocks))


def words(step: ModelStep) -> str:
    return "".join(block.text for block in step.blocks if isinstance(block, Text))


LINK = LinkManifest(
    "repair",
    lambda parts: Repair(parts.new_id, parts.helped),
    after=("fallback", "tiers", "retry"),
    required=True,
)
