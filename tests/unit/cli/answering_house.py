"""Control's small house, but a message gets a turn: it may ask for permission, and ends with an
answer."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ohmo.approvals.answering import Answerer
from ohmo.commands.contract import Decide
from ohmo.contracts.agent import TurnEnded, TurnStarted
from ohmo.contracts.arrivals import Wake
from ohmo.contracts.messages import ModelStep, Text
from ohmo.contracts.reports import ArrivalInfo
from ohmo.contracts.tool import Question
from ohmo.contracts.turns import Accepted, ThreadSettings
from tests.programs import ohmo

# the small house belongs to the tests of control
sys.path.insert(0, str(Path(__file__).parents[1] / "control"))
from small_house import SmallHouse


class AnsweringHouse(SmallHouse):
    """``question``: asked before the answer. ``fails``: the reason instead of an answer.
    ``silent``: no event is sent, as when all were lost."""

    def __init__(
        self, *, question: Question | None = None, fails: str = "", silent: bool = False
    ) -> None:
        super().__init__()
        self.question = question
        self.fails = fails
        self.silent = silent
        self.running: list[asyncio.Task[None]] = []
        self.decided = asyncio.Event()

    async def publish_wake(self, wake: Wake, settings: ThreadSettings | None) -> Accepted:
        accepted = await super().publish_wake(wake, settings)
        self.change(accepted, state="taken", ending=None, turn="turn1")
        self.running.append(asyncio.create_task(self.think(accepted)))
        return accepted

    def change(self, accepted: Accepted, **fields: Any) -> None:
        items = self.history_of[accepted.thread]
        for number, item in enumerate(items):
            if isinstance(item, ArrivalInfo) and item.seq == accepted.seq:
                items[number] = replace(item, **fields)

    async def think(self, accepted: Accepted) -> None:
        thread = accepted.thread
        if not self.silent:
            self.emit(thread, TurnStarted("turn1", "owner"))
        if self.question is not None:
            await self.ask(thread, self.question)
            self.emit(thread, TurnEnded("turn1", "parked", ""))
            await self.decided.wait()
        if self.fails:
            self.change(accepted, state="ended", ending="dead", reason=self.fails)
            self.emit(thread, TurnEnded("turn1", "failed", self.fails))
            return
        self.change(accepted, state="ended", ending="answered")
        self.step(thread, "turn1", ModelStep((Text("It is "), Text("four.")), "small-model", "end"))
        if not self.silent:
            self.emit(thread, TurnEnded("turn1", "answered", "It is four."))

    async def answer(self, decision: Decide, by: Answerer) -> Any:
        found = await super().answer(decision, by)
        self.decided.set()
        return found


@dataclass(frozen=True, slots=True)
class Said:
    code: int
    out: str
    err: str


@dataclass(frozen=True, slots=True)
class Keyboard:
    """Runs the real command in a process of its own."""

    home: Path
    url: str = ""

    async def __call__(self, *arguments: str, stdin: str = "", **environ: str) -> Said:
        done = await asyncio.to_thread(ohmo, self.home, *arguments, stdin=stdin, **environ)
        return Said(done.returncode, done.stdout, done.stderr)


@asynccontextmanager
async def keyboard(house: SmallHouse, home: Path) -> AsyncGenerator[Keyboard]:
    """A keyboard beside a running house."""
    async with house.open(home / "run") as doors:
        yield Keyboard(home, doors.url or "")
