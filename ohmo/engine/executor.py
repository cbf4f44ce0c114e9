"""Tool calls: prepare, gate, execute, finish. Every exit is a value."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, aclosing
from dataclasses import replace
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Literal
from weakref import WeakValueDictionary

from pydantic import BaseModel, ValidationError

from channels.errors import Unavailable
from channels.record import record
from ohmo.contracts.agent import Ledger, OpenCall, Parked
from ohmo.contracts.errors import StoreError
from ohmo.contracts.events import PlanUpdated, ToolDone, ToolProgress, ToolRefused, ToolStarted
from ohmo.contracts.messages import CallStarted, Json, ToolCall, ToolResult
from ohmo.contracts.tool import (
    Allow,
    Ask,
    CallContext,
    Decision,
    Deny,
    Footprint,
    Gate,
    Question,
    Tool,
    ToolOutput,
    Verdict,
)
from ohmo.engine.guard import LoopGuard
from ohmo.engine.order import Order
from ohmo.engine.stream import Emit, merged
from ohmo.providers.arguments import UNREADABLE

NOT_EXECUTED = (
    "Interrupted by a restart before it ran: not executed. Ask for it again if it is still wanted."
)
UNKNOWN = (
    "Interrupted by a restart while it ran: its effect is unknown. It was not run again. Look at"
    " what it left behind before going on, and tell the person."
)
FEW_TOOLS = 30  # so many are all named to a model that asks for one that is not there
ToolEvent = ToolStarted | ToolRefused | ToolProgress | ToolDone | PlanUpdated
Explain = Callable[[str, ValidationError], str]


@record
class _Prepared:
    call: ToolCall
    tool: Tool[Any]
    arguments: BaseModel
    footprint: Footprint


@record
class _Place:
    """Of an open call in its step."""

    one: OpenCall
    order: Order
    number: int


class Executor:
    """``explain`` turns a validation error into one line for the model; ``failpoint`` is hit as
    tool.before, tool.running, tool.after. ``redact`` takes secrets out of what a tool says: the
    model, the transcript and whoever watches read it without them."""

    def __init__(
        self,
        tools: Mapping[str, Tool[Any]],
        gate: Gate,
        *,
        width: int = 8,
        explain: Explain,
        failpoint: Callable[[str], None],
        redact: Callable[[str], str] = str,
    ) -> None:
        self._tools = tools
        self._gate = gate
        self._width = width
        self._explain = explain
        self._failpoint = failpoint
        self._redact = redact
        self._writing: WeakValueDictionary[Path, asyncio.Lock] = WeakValueDictionary()

    async def execute(
        self, turn: str, calls: Sequence[OpenCall], ledger: Ledger, guard: LoopGuard
    ) -> AsyncGenerator[ToolEvent | Parked]:
        """Runs what may run, ``width`` at a time and each after what it needs the effect of; what
        needs a person is returned as one Parked at the end, and what only reads behind that stays
        open."""
        questions: dict[str, tuple[ToolCall, Question]] = {}
        known = [
            self._prepare(one.call, ledger.call_context(one.call, lambda _: None)) for one in calls
        ]
        order = Order([one.footprint if isinstance(one, _Prepared) else None for one in known])

        def work(place: int, one: OpenCall) -> Callable[[Emit[ToolEvent]], Any]:
            async def run(emit: Emit[ToolEvent]) -> None:
                over = False
                try:
                    question = await self._one(turn, _Place(one, order, place), ledger, guard, emit)
                    over = question is None
                    if isinstance(question, Question):
                        questions[one.call.id] = (one.call, question)
                finally:
                    order.left(place, held=not over)

            return run

        async with aclosing(
            merged([work(place, one) for place, one in enumerate(calls)], width=self._width)
        ) as events:
            async for event in events:
                yield event
        if questions:
            yield Parked(tuple(questions[one.call.id] for one in calls if one.call.id in questions))

    async def _one(
        self, turn: str, place: _Place, ledger: Ledger, guard: LoopGuard, emit: Emit[ToolEvent]
    ) -> Question | Literal["held"] | None:
        one, call = place.one, place.one.call
        context = ledger.call_context(
            call, lambda text: emit(ToolProgress(turn, call.id, self._redact(text)))
        )

        async def end(output: ToolOutput) -> None:
            hint = guard.note(call, output.result)
            text = self._redact(output.result.text)
            output = replace(
                output,
                result=replace(output.result, text=text if hint is None else f"{text}\n\n{hint}"),
            )
            await ledger.result(output)
            emit(ToolDone(turn, call.id, output.result))
            if (plan := output.plan) is not None:
                emit(PlanUpdated(turn, call.id, plan.step, plan.total, self._redact(plan.title)))

        async def refuse(why: str) -> None:
            emit(ToolRefused(turn, call.id, call.name, summary(call)))
            await end(_error(call, why))

        prepared = self._prepare(call, context)
        if one.started and (isinstance(prepared, str) or prepared.footprint.effect == "once"):
            await refuse(UNKNOWN)
        elif isinstance(prepared, str):
            await refuse(prepared)
        else:
            return await self._gated(turn, prepared, place, ledger, context, emit, end, refuse)
        return None

    async def _gated(
        self,
        turn: str,
        prepared: _Prepared,
        place: _Place,
        ledger: Ledger,
        context: CallContext,
        emit: Emit[ToolEvent],
        end: Callable[[ToolOutput], Any],
        refuse: Callable[[str], Any],
    ) -> Question | Literal["held"] | None:
        one, call, approved = place.one, place.one.call, False
        said: Verdict | None = None

        async def answered(digest: str) -> Verdict | None:
            nonlocal approved, said
            said = said or await ledger.answered(
                call.id, digest
            )  # it is used once, and the call may be judged twice
            approved = said is not None and said.state == "allowed"
            return said

        decision = await self._judge(prepared, context, answered)
        if (
            one.interrupted
            and not one.started
            and not approved
            and prepared.footprint.effect != "none"
            and not isinstance(decision, Deny)
        ):
            # Its absence in the log proves that it did not run; what the person saw in between may
            # have made it unwanted.
            await refuse(NOT_EXECUTED)
            return None
        if isinstance(decision, Allow) and not place.order.free(place.number):
            if not await place.order.reached(place.number) and prepared.footprint.effect == "none":
                return "held"  # it runs when the answer is there
            after = self._prepare(call, context)  # what the others did may make it another call
            if isinstance(after, str):
                await refuse(after)
                return None
            prepared, decision = after, await self._judge(after, context, answered)
        match decision:
            case Deny(layer, reason):
                await refuse(f"Not allowed ({layer}): {reason}")
            case Ask(_, question):
                return question
            case Allow(_, arguments, word, judged):
                if arguments is not None:
                    rewritten = self._prepare(replace(call, arguments=arguments), context)  # pyright: ignore[reportArgumentType]
                    if isinstance(rewritten, str):
                        await refuse(rewritten)
                        return None
                    prepared = rewritten
                emit(ToolStarted(turn, call.id, call.name, summary(call, self._redact)))
                allowed = replace(context, word=word, judged=judged)
                await end(await self._run(prepared, one, ledger, allowed))
        return None

    async def _judge(
        self,
        prepared: _Prepared,
        context: CallContext,
        answered: Callable[[str], Awaitable[Verdict | None]],
    ) -> Decision:
        try:
            return await self._gate.judge(prepared.call, prepared.footprint, context, answered)
        except (StoreError, Unavailable):
            raise
        except Exception as error:  # noqa: BLE001 - what cannot be judged is not run
            return Deny("gate", f"the call could not be judged ({type(error).__name__}: {error})")

    def _prepare(self, call: ToolCall, context: CallContext) -> _Prepared | str:
        tool = self._tools.get(call.name)
        allowed = {spec.name: spec for spec in context.tools}
        if tool is None or (allowed and call.name not in allowed):
            return _unknown(call.name, sorted(allowed or self._tools))
        # A tool may be called before ToolSearch brought it; whoever guessed its arguments wrong is
        # told what they are.
        schema = (
            f"\nIts arguments: {_compact(allowed[call.name].schema)}"
            if call.name in context.hidden
            else ""
        )
        if set(call.arguments) == {UNREADABLE}:
            return (
                f"{call.name}: arguments are not valid JSON:"
                f" {str(call.arguments[UNREADABLE])[:500]}{schema}"
            )
        try:
            arguments = tool.input.model_validate(dict(call.arguments))
        except ValidationError as error:
            return self._explain(call.name, error) + schema
        try:
            return _Prepared(call, tool, arguments, tool.footprint(arguments, context.cwd))
        except Exception as error:  # noqa: BLE001 - a footprint reads the arguments and the disk, both of which may be anything
            return f"{call.name}: {error}"

    async def _run(
        self, prepared: _Prepared, one: OpenCall, ledger: Ledger, context: CallContext
    ) -> ToolOutput:
        call, footprint = prepared.call, prepared.footprint
        async with AsyncExitStack() as stack:
            for path in _written(footprint):  # calls that write the same path never overlap
                await stack.enter_async_context(self._writing.setdefault(path, asyncio.Lock()))
            self._failpoint("tool.before")
            if footprint.effect in ("once", "repeatable") and not one.started:
                await ledger.record(CallStarted(call.id, digest(call)))
            self._failpoint("tool.running")
            output = await _contained(prepared, context)
            self._failpoint("tool.after")
            return output


async def _contained(prepared: _Prepared, context: CallContext) -> ToolOutput:
    call, limit = prepared.call, asyncio.timeout_at(context.deadline)
    try:
        async with limit:
            output = await prepared.tool.run(prepared.arguments, context)
    except asyncio.CancelledError:
        task = asyncio.current_task()
        if task is None or task.cancelling():
            raise
        return _error(call, f"{call.name} was cancelled from inside: its effect is unknown.")
    except Exception as error:  # noqa: BLE001 - a tool must not take the turn down; the model and the log are told
        if isinstance(error, TimeoutError) and limit.expired():
            return _error(
                call, f"{call.name} did not end before the turn's deadline and was stopped."
            )
        return _error(call, f"{call.name} failed: {type(error).__name__}: {error}")
    return replace(output, result=replace(output.result, call=call.id))


def _error(call: ToolCall, text: str) -> ToolOutput:
    return ToolOutput(ToolResult(call.id, text, error=True))


def _written(footprint: Footprint) -> list[Path]:
    """What is written, each file under its true name, in an order in which two calls never wait for
    each other."""
    return sorted({Path(os.path.realpath(path)) for path in footprint.writes})


def _unknown(name: str, there: Sequence[str]) -> str:
    if len(there) <= FEW_TOOLS:
        return f"There is no tool named {name}. Tools: {', '.join(there)}."
    near = get_close_matches(name, there, n=5, cutoff=0.5)
    meant = f" Nearest: {', '.join(near)}." if near else ""
    return f"There is no tool named {name}.{meant} ToolSearch finds others."


def _compact(schema: Mapping[str, Json]) -> str:
    return json.dumps(dict(schema), ensure_ascii=False, separators=(",", ":"))


def digest(call: ToolCall) -> str:
    """Canonical text of a call, for the log."""
    return json.dumps([call.name, dict(call.arguments)], sort_keys=True, ensure_ascii=True)[:4096]


def summary(call: ToolCall, redact: Callable[[str], str] = str) -> str:
    """One short line for whoever watches: the first telling argument, without secrets before it is
    cut: half a token has no shape."""
    for key in (
        "command",
        "file_path",
        "pattern",
        "url",
        "query",
        "question",
        "description",
        "path",
    ):
        value = call.arguments.get(key)
        if isinstance(value, str) and value:
            line = " ↵ ".join(redact(value).splitlines())
            return line if len(line) <= 120 else line[:119] + "…"
    return ""
