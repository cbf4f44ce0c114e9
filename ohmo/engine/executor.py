"""Tool calls: prepare, gate, execute, finish. Every exit is a value."""

from __future__ import annotations

import asyncio
import json
import os
import time
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, aclosing
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal
from weakref import WeakValueDictionary

from channels.errors import Unavailable
from ohmo.contracts.agent import (
    Ledger,
    OpenCall,
    Parked,
    PlanUpdated,
    Status,
    ToolDone,
    ToolProgress,
    ToolRefused,
    ToolStarted,
)
from ohmo.contracts.errors import StoreError
from ohmo.contracts.hooks import Hooks
from ohmo.contracts.mcp import words_of
from ohmo.contracts.messages import CallStarted, Layer, ToolCall, ToolResult
from ohmo.contracts.tool import (
    Allow,
    Ask,
    CallContext,
    Decision,
    Deny,
    Footprint,
    Gate,
    Question,
    Toolbox,
    ToolOutput,
    Verdict,
)
from ohmo.engine.concurrency import Emit, Order, merged
from ohmo.engine.hooked import Asked, ask_hooks, hooked, told_after
from ohmo.engine.preparing import Prepared, Refusal, prepare

NOT_EXECUTED = (
    "Interrupted by a restart before it ran: not executed. Ask for it again if it is still wanted."
)
UNKNOWN = (
    "Interrupted by a restart while it ran: its effect is unknown. It was not run again. Look at"
    " what it left behind before going on, and tell the person."
)
HINT_AT = 3  # equal calls with equal results
STOP_AT = 5
ToolEvent = ToolStarted | ToolRefused | ToolProgress | ToolDone | PlanUpdated | Status
Before = Callable[[CallContext, Footprint], Awaitable[Sequence[str]]]
"""Awaited before a call that may change something; lines for whoever watches."""


async def nothing_before(context: CallContext, footprint: Footprint) -> Sequence[str]:
    """Nothing has to happen before it."""
    del context, footprint
    return ()


class LoopGuard:
    """Notices a model that does the same thing again and again: counts equal calls with equal
    results within one run of a turn."""

    def __init__(self) -> None:
        self._seen: Counter[tuple[str, str, str]] = Counter()
        self.stuck: str | None = None  # the tool of a call that was made ``STOP_AT`` times

    def note(self, call: ToolCall, result: ToolResult) -> str | None:
        """A hint to add to the result, or None."""
        arguments = json.dumps(dict(call.arguments), sort_keys=True, default=str)
        key = (call.name, arguments, result.text)
        self._seen[key] += 1
        if self._seen[key] >= STOP_AT:
            self.stuck = call.name
        if self._seen[key] >= HINT_AT:
            return (
                f"(This same call has now given this same result {self._seen[key]} times. Do"
                " something else, or say what stops you.)"
            )
        return None


class _Call:
    """One open call on its way to its result."""

    def __init__(
        self,
        turn: str,
        asked: Asked,
        ledger: Ledger,
        guard: LoopGuard,
        emit: Emit[ToolEvent],
        redact: Callable[[str], str],
    ) -> None:
        self.turn = turn
        self.asked = asked
        self.open = asked.open
        self.call = asked.open.call
        self.ledger = ledger
        context = ledger.call_context(self.call, self._progress)
        self.context = replace(context, asks=asked.word.ask)
        self.emit = emit
        self._guard = guard
        self._redact = redact
        self._verdict: Verdict | None = None
        self._digest = ""  # what the verdict is about

    async def answered(self, digest: str) -> Verdict | None:
        """What a person said about it: used once, although the call may be judged twice."""
        if self._verdict is None:
            self._verdict = await self.ledger.answered(self.call.id, digest)
            self._digest = digest
        elif self._verdict.state == "allowed" and digest != self._digest:
            return replace(self._verdict, state="changed")
        return self._verdict

    @property
    def approved(self) -> bool:
        """A person was asked about this very call, and allowed it."""
        return self._verdict is not None and self._verdict.state == "allowed"

    async def refuse(self, refusal: Refusal) -> None:
        """It ends without being run, or without being run again."""
        self.emit(ToolRefused(self.turn, self.call.id, self.call.name, summary(self.call)))
        await self.end(_error(self.call, refusal.why, refusal.layer, refusal.taint))

    async def end(self, output: ToolOutput) -> None:
        """Its result is recorded, then told."""
        hint = self._guard.note(self.call, output.result)
        result = self.asked.noted(output.result)
        text = self._redact(result.text)
        if hint is not None:
            text = f"{text}\n\n{hint}"
        result = replace(result, text=text)
        await self.ledger.result(replace(output, result=result))
        self.emit(ToolDone(self.turn, self.call.id, result))
        plan = output.plan
        if plan is not None:
            title = self._redact(plan.title)
            self.emit(PlanUpdated(self.turn, self.call.id, plan.step, plan.total, title))

    def _progress(self, text: str) -> None:
        self.emit(ToolProgress(self.turn, self.call.id, self._redact(text)))


class Executor:
    """``before``: keeps what a call may change. ``failpoint`` is hit as tool.before, tool.running,
    tool.after. ``redact`` takes secrets out of what a tool says: the model, the transcript and
    whoever watches read it without them. ``settled``: comes first."""

    def __init__(
        self,
        toolbox: Toolbox,
        gate: Gate,
        *,
        width: int = 8,
        failpoint: Callable[[str], None],
        redact: Callable[[str], str] = str,
        before: Before = nothing_before,
        hooks: Hooks | None = None,
        settled: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        self._toolbox = toolbox
        self._gate = gate
        self._width = width
        self._failpoint = failpoint
        self._redact = redact
        self._before = before
        self._hooks = hooks
        self._settled = settled
        self._writing: WeakValueDictionary[Path, asyncio.Lock] = WeakValueDictionary()

    async def execute(
        self, turn: str, calls: Sequence[OpenCall], ledger: Ledger, guard: LoopGuard
    ) -> AsyncGenerator[ToolEvent | Parked]:
        """Runs what may run, ``width`` at a time and each after what it needs the effect of; what
        needs a person is returned as one Parked at the end, and what only reads behind that stays
        open."""
        questions: dict[int, tuple[ToolCall, Question]] = {}
        footprints: list[Footprint | None] = []
        if self._settled is not None:
            await self._settled()
        asked = await ask_hooks(self._hooks, calls, self._prepare, ledger, self._width)
        for each in asked:
            context = ledger.call_context(each.open.call, lambda _: None)
            prepared = self._prepare(each.open.call, context)
            footprints.append(prepared.footprint if isinstance(prepared, Prepared) else None)
        order = Order(footprints)

        def work(number: int, each: Asked) -> Callable[[Emit[ToolEvent]], Any]:
            async def run(emit: Emit[ToolEvent]) -> None:
                over = False
                try:
                    call = _Call(turn, each, ledger, guard, emit, self._redact)
                    question = await self._carry_out(call, order, number)
                    over = question is None
                    if isinstance(question, Question):
                        questions[number] = (calls[number].call, question)
                finally:
                    order.left(number, held=not over)

            return run

        works = [work(number, each) for number, each in enumerate(asked)]
        async with aclosing(merged(works, width=self._width)) as events:
            async for event in events:
                yield event
        if questions:
            yield Parked(tuple(questions[number] for number in sorted(questions)))

    async def _carry_out(
        self, call: _Call, order: Order, number: int
    ) -> Question | Literal["held"] | None:
        """None: it has ended. A question: a person is asked. Held: it runs when they have
        answered."""
        prepared = self._prepare(call.call, call.context)
        started = call.open.started
        if started and (isinstance(prepared, Refusal) or prepared.footprint.effect == "once"):
            await call.refuse(Refusal(Layer.UNKNOWN, UNKNOWN))
            return None
        prepared = call.asked.after(prepared)
        if isinstance(prepared, Refusal):
            await call.refuse(prepared)
            return None
        decision = await self._judge(call, prepared)
        # A restart came before it ran, which its absence in the log proves. What the person saw in
        # between may have made it unwanted; what only reads is run all the same.
        interrupted = call.open.interrupted and not started
        unwanted = interrupted and not call.approved and prepared.footprint.effect != "none"
        if unwanted and not isinstance(decision, Deny):
            await call.refuse(Refusal(Layer.RESTART, NOT_EXECUTED))
            return None
        if isinstance(decision, Allow) and not order.free(number):
            if not await order.reached(number) and prepared.footprint.effect == "none":
                return "held"
            # What the others did may have made it another call.
            after = self._prepare(call.call, call.context)
            if isinstance(after, Refusal):
                await call.refuse(after)
                return None
            prepared = after
            decision = await self._judge(call, prepared)
        match decision:
            case Deny(source, reason, layer):
                await call.refuse(Refusal(layer, f"Not allowed ({source}): {reason}"))
            case Ask(_, question):
                return question
            case Allow():
                await self._run(call, prepared, decision)
        return None

    async def _run(self, call: _Call, prepared: Prepared, decision: Allow) -> None:
        name = call.call.name
        line = summary(call.call, self._redact)
        call.emit(ToolStarted(call.turn, call.call.id, name, line))
        context = replace(call.context, word=decision.word, judged=decision.judged)
        if prepared.footprint.effect in ("once", "repeatable"):
            for line in await self._kept(context, prepared.footprint):
                call.emit(Status(call.turn, line))
        async with AsyncExitStack() as stack:
            # Calls that write the same path never overlap.
            for path in _written(prepared.footprint):
                await stack.enter_async_context(self._writing.setdefault(path, asyncio.Lock()))
            self._failpoint("tool.before")
            if prepared.footprint.effect in ("once", "repeatable") and not call.open.started:
                await call.ledger.record(CallStarted(prepared.call.id, digest(prepared.call)))
            self._failpoint("tool.running")
            began = time.monotonic()
            limit = asyncio.timeout_at(context.deadline)
            try:
                async with limit:
                    output = await prepared.tool.run(prepared.arguments, context)
                declared = prepared.footprint.declared(output.result, context.media)
                allowed = call.asked.allowed(decision.layer)
                result = replace(declared, call=prepared.call.id, allowed=allowed)
                output = replace(output, result=result)
            except asyncio.CancelledError:
                task = asyncio.current_task()
                if task is None or task.cancelling():
                    raise
                why = f"{name} was cancelled from inside: its effect is unknown."
                output = _error(prepared.call, why)
            except (Exception, SystemExit) as error:  # noqa: BLE001 - a tool must not take the turn or the house down; the model and the log are told
                why = f"{name} failed: {type(error).__name__}: {error}"
                if isinstance(error, TimeoutError) and limit.expired():
                    why = f"{name} did not end before the turn's deadline and was stopped."
                output = _error(prepared.call, why, taint=words_of((name,)))
            self._failpoint("tool.after")
            if self._hooks is not None and not self._hooks.none_in(context.cwd):
                seconds = time.monotonic() - began
                shown = replace(output.result, text=self._redact(output.result.text))
                what = hooked("post_tool_use", prepared.call, context)
                what = replace(what, result=shown, approved=call.approved, seconds=seconds)
                call.asked = call.asked.told(await told_after(self._hooks, what))
        await call.end(output)

    async def _kept(self, context: CallContext, footprint: Footprint) -> Sequence[str]:
        try:
            return await self._before(context, footprint)
        except (StoreError, Unavailable):
            raise
        except Exception as error:  # noqa: BLE001 - what cannot be kept is said, and changed all the same
            return (f"No checkpoint ({type(error).__name__}: {error}): this cannot be undone.",)

    async def _judge(self, call: _Call, prepared: Prepared) -> Decision:
        try:
            return await self._gate.judge(
                prepared.call, prepared.footprint, call.context, call.answered
            )
        except (StoreError, Unavailable):
            raise
        except Exception as error:  # noqa: BLE001 - what cannot be judged is not run
            why = f"the call could not be judged ({type(error).__name__}: {error})"
            return Deny("gate", why, Layer.UNJUDGED)

    def _prepare(self, call: ToolCall, context: CallContext) -> Prepared | Refusal:
        try:
            return prepare(self._toolbox, call, context)
        except (Exception, SystemExit) as error:  # noqa: BLE001 - a footprint reads the arguments and the disk, both of which may be anything
            return Refusal(Layer.ARGUMENTS, f"{call.name}: {error}", words_of((call.name,)))


def _error(
    call: ToolCall, text: str, refused: Layer | None = None, taint: tuple[str, ...] = ()
) -> ToolOutput:
    return ToolOutput(ToolResult(call.id, text, error=True, refused=refused, taint=taint))


def _written(footprint: Footprint) -> list[Path]:
    """What is written, each file under its true name, in an order in which two calls never wait for
    each other."""
    return sorted({Path(os.path.realpath(path)) for path in footprint.writes})


def digest(call: ToolCall) -> str:
    """Canonical text of a call, for the log."""
    return json.dumps([call.name, dict(call.arguments)], sort_keys=True, ensure_ascii=True)[:4096]


def summary(call: ToolCall, redact: Callable[[str], str] = str) -> str:
    """One short line for whoever watches: the first telling argument, without secrets before it is
    cut: half a token has no shape."""
    for key in (
        "command",
        "file_path",
        "notebook_path",
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
            if len(line) <= 120:
                return line
            return line[:119] + "…"
    return ""
