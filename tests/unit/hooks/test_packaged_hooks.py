"""Hooks of installed packages: what is skipped, and one that hangs again and again."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import pytest

from ohmo.contracts.hooks import Hooked, PythonHook
from ohmo.contracts.messages import ToolCall
from ohmo.hooks.acting import Acting
from ohmo.hooks.desk import say
from ohmo.hooks.hook import Hook
from ohmo.hooks.packages import HANGING, packaged

Run = Callable[[dict[str, Any]], Mapping[str, Any] | None]


async def waits(event: dict[str, Any]) -> None:
    del event


def goes_on(event: dict[str, Any]) -> None:
    del event


GOOD = PythonHook("good", ("pre_tool_use",), goes_on)
BAD: dict[str, Any] = {
    "event": replace(GOOD, name="event", on=("pre_tool",)),  # type: ignore[arg-type]
    "events": replace(GOOD, name="events", on="pre_tool_use"),  # type: ignore[arg-type]
    "coroutine": replace(GOOD, name="coroutine", run=waits),  # type: ignore[arg-type]
    "nothing": replace(GOOD, name="nothing", run=None),  # type: ignore[arg-type]
    "late": replace(GOOD, name="late", timeout=61),
    "soon": replace(GOOD, name="soon", timeout="1"),  # type: ignore[arg-type]
    "pattern": replace(GOOD, name="pattern", match="("),
    "condition": replace(GOOD, name="condition", condition="rm -rf"),
    "other": GOOD,  # calls itself otherwise
    "string": "a hook",
}


def point(name: str) -> EntryPoint:
    return EntryPoint(
        name, f"{__name__}:{'GOOD' if name == 'good' else f'BAD_{name}'}", "ohmo.hooks"
    )


@pytest.mark.parametrize("name", sorted(BAD))
def test_a_broken_one_is_skipped_and_named_and_the_others_count(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(globals(), f"BAD_{name}", BAD[name])
    found = packaged([point(name), point("good")])
    assert [hook.name for hook in found.hooks] == ["good"]
    (line,) = found.broken
    assert name in line
    assert "skipped" in line
    assert "\n" not in line


def of(run: Run, timeout: float = 5.0) -> Hook:
    globals()["MADE"] = PythonHook("made", ("pre_tool_use",), run, timeout=timeout)
    (hook,) = packaged([EntryPoint("made", f"{__name__}:MADE", "ohmo.hooks")]).hooks
    return hook


def asked(folder: Path) -> tuple[Acting, Hooked]:
    call = ToolCall("t.1", "Bash", {"command": "ls"}, "")
    return Acting(folder, {}, None), Hooked("pre_tool_use", "t", "thread", folder, call)


async def test_what_hangs_holds_up_nobody_and_is_asked_no_more_while_it_hangs_too_often(
    tmp_path: Path,
) -> None:
    free = threading.Event()
    began = 0

    def hangs(event: dict[str, Any]) -> None:
        del event
        nonlocal began
        began += 1
        free.wait(60)

    hook = of(hangs, timeout=0.1)
    acting, what = asked(tmp_path)
    ticks = 0

    async def tick() -> None:
        nonlocal ticks
        while True:
            await asyncio.sleep(0.01)
            ticks += 1

    ticking = asyncio.create_task(tick())
    for _ in range(HANGING):
        assert "did not answer within 0.1 s" in (await say(acting, hook, what)).block
    assert ticks > HANGING  # the loop went on
    assert "hang; restart ohmo" in (await say(acting, hook, what)).block
    assert began == HANGING
    free.set()
    end = time.monotonic() + 10
    while (await say(acting, hook, what)).block:
        assert time.monotonic() < end, "it never came back"
        await asyncio.sleep(0.02)
    ticking.cancel()


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        ({"decision": "perhaps"}, "perhaps"),
        ("block", "it failed"),
        ({"context": object()}, "it failed (TypeError"),
        ({"context": "x" * 200_000}, "more than 128 KiB"),
    ],
)
async def test_an_answer_that_is_none_blocks(answer: Any, why: str, tmp_path: Path) -> None:
    acting, what = asked(tmp_path)
    assert why in (await say(acting, of(lambda _: answer), what)).block


async def test_one_that_ends_the_interpreter_only_blocks(tmp_path: Path) -> None:
    def leaves(event: dict[str, Any]) -> None:
        raise SystemExit(str(event["event"]))

    acting, what = asked(tmp_path)
    said = await say(acting, of(leaves), what)
    assert "SystemExit: pre_tool_use" in said.block
