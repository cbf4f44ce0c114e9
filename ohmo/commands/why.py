"""``/why [number]``: what became of a message, what decided about each call it led to, and whose
words came in by them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from channels.text import code_span, literal
from ohmo.commands.contract import Command, Desk, Effect, Order, Reply
from ohmo.contracts.messages import CallResult, ModelStep, Step, ToolCall, UserStep

_ROOM = 300  # characters of a reason


async def run(order: Order, desk: Desk) -> Effect:
    number = order.argument
    if number and not (number.isascii() and number.isdigit() and len(number) <= 15):
        return Reply(f"`/why {number}`: a message has a number; `/inbox` shows them.")
    words, steps = await desk.why(order.thread, int(number) if number else None)
    return Reply("\n".join((words, *decisions(steps))))


def decisions(steps: Sequence[Step]) -> Iterator[str]:
    """A line for each call: the layer and the rule that let it run, or why it did not."""
    names: dict[str, str] = {}
    origins: dict[str, None] = {}
    for step in steps:
        if isinstance(step, UserStep):
            origins |= dict.fromkeys(step.taint)
        if isinstance(step, ModelStep):
            names |= {each.id: each.name for each in step.blocks if isinstance(each, ToolCall)}
        if not isinstance(step, CallResult):
            continue
        result = step.result
        origins |= dict.fromkeys(result.taint)
        name = code_span(names.get(result.call, result.call))
        if result.refused is not None:
            why = " ".join(result.text.split())[:_ROOM]
            yield f"- {name}: refused by {result.refused}. {literal(why)}"
        else:
            closed = ", ".join(map(code_span, result.unreached))
            beside = f"; nobody opened {closed} to it" if closed else ""
            yield f"- {name}: allowed by {literal(result.allowed or 'a rule not kept')}{beside}"
    if origins:
        whose = ", ".join(map(code_span, origins))
        yield (
            f"Words of {whose} came in: until `/new`, new hosts and what outlives the conversation"
            " are asked about in every mode."
        )


COMMAND = Command(
    "why",
    "what became of a message that was said here, and what decided about its calls",
    run,
    usage="[number]",
    place=170,
)
