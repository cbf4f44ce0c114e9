"""The hooks of a turn: asked about all calls of a step before any of them is judged, because which
waits for which is known by what they will touch, and about each when it has run; heard as a session
begins, and before an answer ends the turn."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from contextlib import aclosing
from dataclasses import replace
from typing import Any

from channels.errors import Unavailable
from channels.payloads import clean
from channels.record import record
from ohmo.contracts.agent import Ledger, OpenCall
from ohmo.contracts.errors import StoreError
from ohmo.contracts.hooks import Hooked, HookEvent, Hooks, HookWord, Spoken
from ohmo.contracts.messages import (
    Compaction,
    Layer,
    ModelStep,
    Text,
    ToolCall,
    ToolResult,
    UserStep,
)
from ohmo.contracts.tool import CallContext
from ohmo.engine.concurrency import Emit, merged
from ohmo.engine.preparing import Prepared, Refusal
from ohmo.lifecycle import outcome_of

_SHOWN = 2_000  # characters of rewritten arguments
#: Answers of a turn in a row that hooks may send back (code.claude.com/docs/en/hooks).
MOST_SENT_BACK = 8
_AT_FIRST = "Said as this conversation begins or goes on."
_UNSENT = "Nobody has read your answer yet. Do that first; what you say at the end is what is sent."
Prepare = Callable[[ToolCall, CallContext], Prepared | Refusal]


@record
class Asked:
    """A call with what the hooks say of it."""

    open: OpenCall  # as it is judged and run
    word: HookWord = HookWord()

    def after(self, prepared: Prepared | Refusal) -> Prepared | Refusal:
        """``prepared``, of the call as it is now, unless a hook stands against it."""
        word = self.word
        if word.block:
            return Refusal(Layer.HOOK, f"Not allowed (hook {word.by}): {word.block}")
        if isinstance(prepared, Refusal) and word.arguments is not None:
            why = f"the arguments it wrote do not fit: {prepared.why}"
            return replace(prepared, layer=Layer.HOOK, why=f"Not allowed (hook {word.by}): {why}")
        return prepared

    def told(self, spoken: Sequence[Spoken]) -> Asked:
        """And what they say of it when it has run."""
        return replace(self, word=replace(self.word, context=(*self.word.context, *spoken)))

    def allowed(self, layer: str) -> str:
        """By what it was allowed, and which agents looked at it before."""
        return f"{layer} (after hook {', '.join(self.word.looked)})" if self.word.looked else layer

    def noted(self, result: ToolResult) -> ToolResult:
        """With what the model is told beside it."""
        word = self.word
        lines = [_framed(one) for one in word.context]
        if word.arguments is not None:
            text = json.dumps(dict(word.arguments), ensure_ascii=False)[:_SHOWN]
            lines.insert(0, f"(The hook {word.by} changed the arguments to {text})")
        if not lines:
            return result
        taint = tuple(dict.fromkeys((*result.taint, *map(_origin, word.context))))
        return replace(result, text="\n\n".join((result.text, "\n".join(lines))), taint=taint)


async def ask_hooks(
    hooks: Hooks | None, calls: Sequence[OpenCall], prepare: Prepare, ledger: Ledger, width: int
) -> Sequence[Asked]:
    """``width`` at a time; whoever cannot run anyhow is not asked about. Raises StoreError."""
    asked = [Asked(each) for each in calls]
    if hooks is None:
        return asked

    def work(number: int, open_call: OpenCall) -> Callable[[Emit[None]], Any]:
        async def ask(_: Emit[None]) -> None:
            call = open_call.call
            context = ledger.call_context(call, lambda _: None)
            if hooks.none_in(context.cwd):
                return
            prepared = prepare(call, context)
            again = isinstance(prepared, Prepared) and prepared.footprint.effect == "once"
            if isinstance(prepared, Refusal) or (open_call.started and again):
                return
            word = await _word(hooks, hooked("pre_tool_use", call, context))
            if word.arguments is not None:
                call = replace(call, arguments=word.arguments)
            asked[number] = Asked(replace(open_call, call=call), word)

        return ask

    works = [work(number, open_call) for number, open_call in enumerate(calls)]
    async with aclosing(merged(works, width=width)) as nothing:
        async for _ in nothing:
            pass
    return asked


async def _word(hooks: Hooks, what: Hooked) -> HookWord:
    """What cannot be asked about is not run."""
    word = await outcome_of(hooks.before(what))
    if isinstance(word, StoreError | Unavailable):
        raise word
    return word if isinstance(word, HookWord) else HookWord(_unasked(word), by="(all)")


async def told_after(hooks: Hooks, what: Hooked) -> Sequence[Spoken]:
    """The call has been run: nothing that a hook does takes its result away."""
    spoken = await outcome_of(hooks.after(what))
    return [Spoken("(all)", _unasked(spoken))] if isinstance(spoken, Exception) else spoken


def _unasked(error: Exception) -> str:
    return f"they cannot be asked ({type(error).__name__}: {error})"


async def begin_session(hooks: Hooks | None, turn: str, ledger: Ledger) -> None:
    """Before a call of the model: writes what hooks say of a session that begins, goes on in
    another life of the house or was summed up; what stands there word for word is not said
    again."""
    context = _of_turn(turn, ledger)
    if hooks is None or hooks.none_in(context.cwd):
        return
    sent = ledger.visible()
    front = next((step for step in sent if isinstance(step, Compaction)), None)
    goes_on = front is not None or any(isinstance(step, ModelStep) for step in sent)
    what = hooked("session_start", None, context)
    what = replace(what, detail="resume" if goes_on else "startup")
    spoken = await hooks.beginning(what, front.keeps_from if front is not None else 0)
    steps = [_told(one, _AT_FIRST) for one in spoken]
    if new := [step for step in steps if step not in sent]:
        await ledger.record(*new)


async def sent_back(hooks: Hooks | None, turn: str, ledger: Ledger) -> bool:
    """Whether hooks want the model to go on although it answered; it is told why."""
    context = _of_turn(turn, ledger)
    if hooks is None or hooks.none_in(context.cwd):
        return False
    before = answers_sent_back(ledger)
    if len(before) >= MOST_SENT_BACK:
        return False
    what = hooked("turn_end", None, context)
    what = replace(what, detail="answered", text=ledger.final_text(), again=bool(before))
    spoken = await hooks.ending(what)
    if spoken:
        await ledger.record(*(_told(one, _UNSENT) for one in spoken))
    return bool(spoken)


def _of_turn(turn: str, ledger: Ledger) -> CallContext:
    """Where it stands, between two calls."""
    return ledger.call_context(ToolCall(turn, "", {}, ""), lambda _: None)


def answers_sent_back(ledger: Ledger) -> Sequence[ModelStep]:
    """Of the present turn, the newest first: those that something came after."""
    found: list[ModelStep] = []
    for later, step in enumerate(reversed(ledger.visible())):
        if isinstance(step, UserStep) and step.source in ("message", "wake"):
            break
        if isinstance(step, ModelStep) and later:
            calls = any(isinstance(block, ToolCall) for block in step.blocks)
            found += [] if calls else [step]
    return found


def _told(one: Spoken, why: str) -> UserStep:
    return UserStep((Text(f"{_framed(one)}\n({why})"),), _origin(one), "hook")


def _framed(one: Spoken) -> str:
    """Further lines are indented, so that none of it can pass for a person's words or the
    house's."""
    words = "\n    ".join(clean(one.words).splitlines())
    return f"(A hook says: {one.hook}: {words})"


def _origin(one: Spoken) -> str:
    """Of foreign words."""
    return f"hook:{one.hook}"


def hooked(event: HookEvent, call: ToolCall | None, context: CallContext) -> Hooked:
    """What hooks are told of a call, or of its turn."""
    return Hooked(
        event,
        context.turn,
        context.thread,
        context.cwd,
        call,
        person=context.person,
        session=context.session,
        mode=context.mode,
        role=context.role,
    )
