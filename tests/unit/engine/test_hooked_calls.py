"""Calls with hooks before them: whatever those answer, each has exactly one result, and what is judged, approved and run
are the arguments as they were rewritten."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from ohmo.ambient import inert
from ohmo.contracts.agent import Parked
from ohmo.contracts.hooks import Hooked, HookWord, Spoken
from ohmo.contracts.messages import Layer, ToolCall, ToolResult
from ohmo.contracts.tool import Ask, CallContext, Decision, Footprint, ToolOutput, Verdict
from ohmo.engine.executor import Executor, LoopGuard
from ohmo.permissions.gate import LayeredGate, digest_of
from ohmo.permissions.policy import paths_of
from ohmo.permissions.rules import Ruling
from ohmo.tools.catalogue import Catalogue
from tests.unit.engine.test_executor_laws import Doing, Input, Notebook, fine, opened


class Answering:
    """Hooks that answer ``words`` in turn; an exception is raised."""

    def __init__(self, *words: HookWord | Exception) -> None:
        self.words = list(words)
        self.observed: list[Hooked] = []
        self.fails: Exception | None = None

    def none_in(self, _: Path) -> bool:
        return False

    async def before(self, what: Hooked) -> HookWord:
        word = self.words.pop(0)
        if isinstance(word, Exception):
            raise word
        return word

    async def after(self, what: Hooked) -> Sequence[Spoken]:
        self.observed.append(what)
        if self.fails is not None:
            raise self.fails
        return [Spoken("h", "it is long")]

    async def beginning(self, what: Hooked, summed_up: int) -> Sequence[Spoken]:
        raise AssertionError((what, summed_up))

    async def ending(self, what: Hooked) -> Sequence[Spoken]:
        raise AssertionError(what)


class Asking:
    """A policy that has everything asked about."""

    def rule(self, *_: object) -> Ruling:
        return Ruling("ask", "ask", "all", remember=False)

    def forbids(self, *_: object) -> bool:
        return False


class Watching:
    """The real gate, and what it was asked about."""

    def __init__(self) -> None:
        self._gate = LayeredGate(lambda _: [Asking()], no_grants)  # type: ignore[list-item]
        self.judged: list[tuple[ToolCall, str]] = []

    async def judge(
        self,
        call: ToolCall,
        footprint: Footprint,
        context: CallContext,
        answered: Callable[[str], Any],
    ) -> Decision:
        decision = await self._gate.judge(call, footprint, context, answered)
        digest = decision.question.digest if isinstance(decision, Ask) else ""
        self.judged.append((call, digest))
        return decision


async def no_grants() -> list[Any]:
    return []


words = st.one_of(
    st.builds(HookWord, block=st.sampled_from(["", "no"]), by=st.just("h")),
    st.builds(
        HookWord,
        ask=st.sampled_from(["", "look"]),
        arguments=st.one_of(
            st.none(),
            st.dictionaries(
                st.sampled_from(["path", "other"]), st.sampled_from(["/a", "/b", 7, None])
            ),
        ),
        context=st.sampled_from([(), (Spoken("h", "hello"),)]),
        by=st.just("h"),
    ),
    st.just(RuntimeError("broken")),
)


@given(st.lists(words, min_size=1, max_size=4), st.booleans())
def test_exactly_one_result_or_question_and_the_decision_is_about_what_was_rewritten(
    answers: list[HookWord | Exception], allowed: bool
) -> None:
    async def story() -> None:
        ran: list[str] = []

        async def run(arguments: Input, context: CallContext) -> ToolOutput:
            ran.append(arguments.path)
            return ToolOutput(ToolResult("", "fine"))

        class Saying(Notebook):
            async def answered(self, call: str, digest: str) -> Verdict | None:
                return Verdict("allowed") if allowed else None

        hooks, gate, ledger = Answering(*answers), Watching(), Saying()
        executor = Executor(Catalogue({"Do": Doing(run)}), gate, failpoint=inert, hooks=hooks)
        calls = [opened(number, values={"path": f"/{number}"}) for number in range(len(answers))]
        events = [event async for event in executor.execute("t", calls, ledger, LoopGuard())]  # type: ignore[arg-type]
        parked = [
            call.id for event in events if isinstance(event, Parked) for call, _ in event.questions
        ]
        assert sorted([*parked, *(result.call for result in ledger.results)]) == sorted(
            open_.call.id for open_ in calls
        )
        expected: list[str] = []
        for open_, word in zip(calls, answers, strict=True):
            result = next((each for each in ledger.results if each.call == open_.call.id), None)
            if isinstance(word, Exception) or word.block:
                assert result is not None
                assert result.refused is Layer.HOOK
                continue
            final = (
                open_.call
                if word.arguments is None
                else replace(open_.call, arguments=word.arguments)
            )
            path = final.arguments.get("path", "/x")
            if not isinstance(path, str) or "other" in final.arguments:
                assert result is not None
                assert result.refused is Layer.HOOK
                assert "h" in result.text
                continue
            judged = [(call, digest) for call, digest in gate.judged if call.id == final.id]
            assert all(call == final for call, _ in judged)
            if not allowed:
                context = ledger.call_context(final, lambda _: None)
                writes = Footprint(writes=(Path(path),))
                paths = paths_of(writes, context.cwd)
                assert judged[0][1] == digest_of(final, context, paths, writes)
                continue
            expected.append(path)
            assert result is not None
            assert ("changed the arguments" in result.text) is (word.arguments is not None)
        assert sorted(ran) == sorted(expected)
        assert sorted(
            str(what.call.arguments.get("path", "/x")) for what in hooks.observed if what.call
        ) == sorted(expected)
        assert all(what.approved for what in hooks.observed)

    asyncio.run(story())


async def test_what_a_hook_tells_the_model_stands_beside_the_result_and_is_foreign() -> None:
    ledger = Notebook()
    hooks = Answering(HookWord(context=(Spoken("lint", "two spaces"),)))
    gate = LayeredGate(lambda _: [Allowing()], no_grants)  # type: ignore[list-item]
    executor = Executor(Catalogue({"Do": Doing(fine)}), gate, failpoint=inert, hooks=hooks)
    async for _ in executor.execute("t", [opened()], ledger, LoopGuard()):  # type: ignore[arg-type]
        pass
    (result,) = ledger.results
    assert result.text == "fine\n\n(A hook says: lint: two spaces)\n(A hook says: h: it is long)"
    assert result.taint == ("hook:lint", "hook:h")
    assert hooks.observed[0].result == replace(result, text="fine", taint=())


async def test_a_call_that_was_run_keeps_its_result_whatever_becomes_of_its_hooks() -> None:
    ledger, hooks = Notebook(), Answering(HookWord())
    hooks.fails = RuntimeError("broken")
    gate = LayeredGate(lambda _: [Allowing()], no_grants)  # type: ignore[list-item]
    executor = Executor(Catalogue({"Do": Doing(fine)}), gate, failpoint=inert, hooks=hooks)
    async for _ in executor.execute("t", [opened()], ledger, LoopGuard()):  # type: ignore[arg-type]
        pass
    (result,) = ledger.results
    assert result.text.startswith("fine\n\n(A hook says: (all): they cannot be asked (RuntimeErr")
    assert not result.error


class Allowing(Asking):
    def rule(self, *_: object) -> Ruling:
        return Ruling("allow", "allow", "all")
