"""The hooks of a step: asked about all its calls before any of them is judged, because which waits
for which is known by what they will touch; and about each when it has run."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from contextlib import aclosing
from dataclasses import replace
from typing import Any

from channels.errors import Unavailable
from channels.record import record
from ohmo.contracts.agent import Ledger, OpenCall
from ohmo.contracts.errors import StoreError
from ohmo.contracts.hooks import Hooked, HookEvent, Hooks, HookWord
from ohmo.contracts.messages import Layer, ToolCall, ToolResult
from ohmo.contracts.tool import CallContext
from ohmo.engine.concurrency import Emit, merged
from ohmo.engine.preparing import Prepared, Refusal
from ohmo.lifecycle import failure_of

_SHOWN = 2_000  # characters of rewritten arguments
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

    def told(self, lines: Sequence[str]) -> Asked:
        """And what they say of it when it has run."""
        return replace(self, word=replace(self.word, context=(*self.word.context, *lines)))

    def allowed(self, layer: str) -> str:
        """By what it was allowed, and which agents looked at it before."""
        return f"{layer} (after hook {', '.join(self.word.looked)})" if self.word.looked else layer

    def noted(self, result: ToolResult) -> ToolResult:
        """With what the model is told beside it."""
        word = self.word
        lines = [f"(A hook says: {line})" for line in word.context]
        if word.arguments is not None:
            text = json.dumps(dict(word.arguments), ensure_ascii=False)[:_SHOWN]
            lines.insert(0, f"(The hook {word.by} changed the arguments to {text})")
        if not lines:
            return result
        words = (f"hook:{line.partition(':')[0]}" for line in word.context)
        taint = tuple(dict.fromkeys((*result.taint, *words)))
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
    words: list[HookWord] = []

    async def ask() -> None:
        words.append(await hooks.before(what))

    error = await failure_of(ask())
    if isinstance(error, StoreError | Unavailable):
        raise error
    if error is not None:
        return HookWord(f"they cannot be asked ({type(error).__name__}: {error})", by="(all)")
    return words[0]


async def told_after(hooks: Hooks, what: Hooked) -> Sequence[str]:
    """The call has been run: nothing that a hook does takes its result away."""
    lines: list[str] = []

    async def tell() -> None:
        lines.extend(await hooks.after(what))

    error = await failure_of(tell())
    if error is not None:
        lines.append(f"(all): they cannot be asked ({type(error).__name__}: {error})")
    return lines


def hooked(event: HookEvent, call: ToolCall, context: CallContext) -> Hooked:
    """What hooks are told of a call."""
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
