"""Between judgement and opening somebody exchanges what a path leads to, thousands of times:
nothing elsewhere is read or written.

``OHMO_SWAPS``: how many exchanges; 10 000 for a release, fewer in every run."""

from __future__ import annotations

import asyncio
import os
import random
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from channels.contract import Address, ChatId
from ohmo.contracts.messages import ToolCall, ToolResult
from ohmo.contracts.outbox import Grant
from ohmo.contracts.tool import Allow, Verdict
from ohmo.permissions.gate import LayeredGate
from ohmo.permissions.policy import Policy
from ohmo.permissions.rules import rule_set
from ohmo.permissions.sensitive_paths import SensitivePaths
from ohmo.shell.parsing import Shell
from ohmo.tools.catalogue import load_tools
from ohmo.tools.search.engine import find_ripgrep
from ohmo.tools.workbench import Limits, Workbench
from tests.makers import call_context

SWAPS = int(os.environ.get("OHMO_SWAPS", "2000"))
CANARY = "CANARY"
RULES = ("Read(~/vault/**)", "Edit(~/vault/**)")
ONE = {"file_path": "a/b/plain.txt"}
CALLS: dict[str, tuple[str, dict[str, Any]]] = {
    "Read": ("Read", ONE),
    "Write": ("Write", {**ONE, "content": "needle\n"}),
    "Write new": ("Write", {"file_path": "a/b/new/deep/er.txt", "content": "needle\n"}),
    "Edit": ("Edit", {**ONE, "old_string": "needle", "new_string": "needle"[::-1]}),
    "Brief": ("Brief", {"attachments": ["a/b/plain.txt"]}),
    "Grep in process": ("Grep", {"pattern": "needle", "output_mode": "content"}),
    "Grep by ripgrep": ("Grep", {"pattern": "need.*", "output_mode": "content"}),
    "Grep one": ("Grep", {"pattern": "need.*", "path": "a/b/plain.txt", "output_mode": "content"}),
    "Glob": ("Glob", {"pattern": "**"}),
    "Glob by ripgrep": ("Glob", {"pattern": "**/*"}),
}


async def nobody() -> Sequence[Grant]:
    return ()


async def unanswered(_: str) -> Verdict | None:
    return None


async def here(_: str) -> Address:
    return Address("slack", "T1", ChatId("1"))


@dataclass
class Scene:
    """A workspace, and beside it what no rule lets be opened. ``vault``: denied; ``home/.netrc``:
    sensitive; ``far``: allowed, but nobody asked for it."""

    root: Path

    def __post_init__(self) -> None:
        self.home = self.root / "home"
        self.work = self.root / "home" / "work"
        self.vault = self.home / "vault"
        for top, text in ((self.work / "a", "plain needle\n"), (self.vault, f"{CANARY} needle\n")):
            (top / "b").mkdir(parents=True)
            (top / "b" / "plain.txt").write_text(text)
        (self.vault / "b" / CANARY).write_text(f"{CANARY} needle\n")
        (self.home / ".netrc").write_text(f"{CANARY} needle\n")
        self.untouched = self.seen()
        rules = rule_set((), (), RULES, {"HOME": str(self.home), "WORKSPACE": str(self.work)})
        self.sensitive = SensitivePaths(self.home, self.home / ".ohmo")
        policy = Policy(rules, self.sensitive, Shell(self.home), self.work)
        self.gate = LayeredGate(lambda _: (policy,), nobody)
        bench = Workbench(
            self.root / "spill", self.sensitive, ripgrep=find_ripgrep(None), place=here
        )
        self.tools = load_tools(bench)
        self.big = load_tools(replace(bench, limits=Limits(small_tree=0)))
        self.spill = bench.spill

    def seen(self) -> list[tuple[str, str]]:
        """Everything that must stay as it is."""
        every = [self.home / ".netrc", *sorted(self.vault.rglob("*"))]
        return [(str(path), path.read_text() if path.is_file() else "") for path in every]

    async def call(
        self, kind: str, number: int, between: Callable[[], None] = lambda: None
    ) -> ToolResult | None:
        """As the engine does; None: the gate let it not through. ``between``: what happens after
        the judgement."""
        name, given = CALLS[kind]
        tool = (self.big if "ripgrep" in kind else self.tools)[name]
        call = ToolCall(f"t.{number}", name, given, "")
        arguments = tool.input.model_validate(given)
        deadline = time.monotonic() + 60
        context = call_context(
            self.work, deadline=deadline, call=call.id, thread=f"thread {number}", mode="full_auto"
        )
        try:
            decision = await self.gate.judge(
                call, tool.footprint(arguments, self.work), context, unanswered
            )
        except (
            OSError
        ):  # realpath(3) stumbles over what has just gone; the engine refuses what it cannot judge
            return None
        between()
        if not isinstance(decision, Allow):
            return None
        output = await tool.run(arguments, replace(context, judged=decision.judged))
        for post in output.posts:
            assert not [path for path in post.files if CANARY in path.read_text()]
        return output.result

    def whole(self) -> None:
        """As at the beginning, whatever was written into the workspace meanwhile."""
        (self.work / "a" / "b" / "plain.txt").write_text("plain needle\n")


def put(path: Path, what: str, scene: Scene) -> None:
    if what == "link":
        path.symlink_to(scene.vault / path.relative_to(scene.work / "a"))
    elif what == "netrc":
        path.symlink_to(scene.home / ".netrc")
    elif what == "twin":
        path.hardlink_to(scene.home / ".netrc")
    elif what == "pipe":
        os.mkfifo(path)


@contextmanager
def exchanged(scene: Scene, level: str, what: str) -> Iterator[Callable[[], None]]:
    """Gives what exchanges; takes it back in the end."""
    path, aside = scene.work / "a" / level, scene.home / "aside"

    def swap() -> None:
        path.rename(aside)
        put(path, what, scene)

    try:
        yield swap
    finally:
        if path.is_symlink() or not path.is_dir():
            path.unlink(missing_ok=True)
        aside.rename(path)


KINDS = [
    ("b/plain.txt", "link"),
    ("b", "link"),
    ("", "link"),
    ("b/plain.txt", "netrc"),
    ("b/plain.txt", "twin"),
    ("b/plain.txt", "pipe"),
]


@pytest.mark.needs("rg")
@pytest.mark.timeout(600)
async def test_what_was_exchanged_after_the_judgement_is_neither_read_nor_written(
    tmp_path: Path,
) -> None:
    scene, chance, ends = Scene(tmp_path.resolve()), random.Random(7), Counter[str]()
    for number in range(SWAPS // 2):
        kind, (level, what) = list(CALLS)[number % len(CALLS)], chance.choice(KINDS)
        with exchanged(scene, level, what) as swap:
            result = await scene.call(kind, number, swap)
        assert result is not None
        assert CANARY not in result.text, (kind, level, what)
        ends[f"{kind}: {'refused' if result.error else 'done'}"] += 1
        if "Write" in kind or kind == "Edit":
            scene.whole()
    assert scene.seen() == scene.untouched
    assert {f"{kind}: refused" for kind in ("Read", "Write", "Edit", "Brief")} <= set(ends)
    assert ends["Read: done"] == 0


FLIPPING = """
import mmap, os, random, shutil, sys
work, vault, counter = sys.argv[1:]
chance, count = random.Random(11), mmap.mmap(os.open(counter, os.O_RDWR), 8)
aside = work + "/../aside"
places = ((work + "/a", vault), (work + "/a/b", vault + "/b"), (work + "/a/b/plain.txt", vault + "/b/plain.txt"))
done = 0
while True:
    path, there = chance.choice(places)
    try:
        os.rename(path, aside)
        os.symlink(there, path)
        done += 1
        for _ in range(chance.randrange(300)):
            pass
    except OSError:
        pass  # somebody wrote a new one there just now
    while os.path.lexists(aside):
        try:
            os.unlink(path) if os.path.islink(path) else shutil.rmtree(path) if os.path.isdir(path) else None
            os.rename(aside, path)
        except OSError:
            continue
    count[:8] = done.to_bytes(8, "little")
"""


@contextmanager
def flipping(scene: Scene) -> Iterator[Callable[[], int]]:
    """A process that does nothing but exchange folders and files for links; how often it did."""
    counter = scene.root / "counter"
    counter.write_bytes(bytes(8))
    process = subprocess.Popen(
        [sys.executable, "-c", FLIPPING, str(scene.work), str(scene.vault), str(counter)]
    )
    try:
        yield lambda: int.from_bytes(counter.read_bytes(), "little")
        assert process.poll() is None  # it did not end by itself
    finally:
        process.kill()
        process.wait()


@pytest.mark.needs("rg")
@pytest.mark.timeout(600)
@pytest.mark.parametrize("kinds", [list(CALLS)[:5], list(CALLS)[5:]], ids=["files", "searches"])
async def test_a_process_that_exchanges_all_the_time_wins_nothing(
    tmp_path: Path, kinds: list[str]
) -> None:
    scene, number = Scene(tmp_path.resolve()), 0
    started = time.monotonic()
    with flipping(scene) as swaps:
        while swaps() < SWAPS or number < SWAPS // 4:
            assert time.monotonic() - started < 300, (swaps(), number)
            async with asyncio.timeout(60):
                results = await asyncio.gather(*(scene.call(kind, number) for kind in kinds))
            for kind, result in zip(kinds, results, strict=True):
                assert result is None or CANARY not in result.text, kind
            number += len(kinds)
    assert scene.seen() == scene.untouched
