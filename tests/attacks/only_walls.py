"""Commands that run in a cage and nothing else: no rule, no mode, no question. What counts is what
happened outside of it."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import stat
from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ohmo.contracts.sandbox import Backend
from ohmo.permissions.sensitive_places import ABSOLUTE, ANYWHERE
from ohmo.processes.job import Command, JobEnded, ProcessRunner, child_environment
from ohmo.sandbox.walls import CageSettings, Walls
from tests.attacks.house import attackable, tells
from tests.attacks.rows import Row, filled, rows
from tests.differential.box import fingerprint
from tests.platforms.model.script import Call
from tests.unit.permissions.attack_scenes import CANARY

SECONDS = 6.0  # of one command
KEPT = 1 << 20  # bytes of each end of its outputs that are looked at
_OURS = (".git/hooks", ".git/config")  # of the scene: what bubblewrap keeps read-only


@dataclass(frozen=True)
class Input:
    """Shell commands, one after the other, each in a cage of its own and all in one workspace."""

    row: Row
    calls: tuple[Call, ...]


@dataclass
class Outcome:
    """``effects``: what walls should have held; ``ran``: how many commands ended by themselves."""

    input: Input
    effects: list[str] = field(default_factory=list[str])
    ran: int = 0


def inputs(category: str) -> list[Input]:
    """Every shell input of a list, in whatever mode and of whomever, once."""
    found: dict[str, Input] = {}
    for row in rows(category):
        calls = tuple(call for call in row.calls if call.name == "Bash")
        if calls:
            found.setdefault(str([call.arguments for call in calls]), Input(row, calls))
    return list(found.values())


class Pen:
    """One scene whose commands only walls hold. ``port``: where somebody of this machine listens."""

    def __init__(self, root: Path, backend: Backend, port: int) -> None:
        root.mkdir(parents=True)
        self._scene = scene = attackable(root.resolve())
        # No command in a cage can make one; what a person made is not looked for (docs/sandbox.md).
        (scene.work / "hard.txt").unlink()
        self._backend = backend
        self._kept = scene.root / "workspace-as-it-was"
        (scene.work / "ran").mkdir()
        _copied(scene.work, self._kept)
        self._port = str(port)
        self.walls = Walls(
            CageSettings(
                backend=backend,
                network="off",
                memory=1 << 30,
                cpus=2,
                pids=128,
                home=scene.home,
                root=scene.home / ".ohmo",
                workspace=scene.work,
                absolute=ABSOLUTE,
                anywhere=ANYWHERE,
                path=scene.path,
            )
        )
        self._runner = ProcessRunner(grace=0.2, sandbox=self.walls)
        self._before = self._state()

    async def tries(self, one: Input) -> Outcome:
        outcome = Outcome(one)
        names = {
            "HOME": str(self._scene.home),
            "WORK": str(self._scene.work),
            "PORT": self._port,
            "RAN": str(self._scene.work / "ran" / one.row.name),
            "CASE": one.row.name,
            "PAGE": "192.0.2.1",
        }
        for call in one.calls:
            arguments: Any = filled(call, names).arguments
            ended = await self._run(arguments["command"], terminal="terminal" in arguments)
            outcome.ran += not ended.reason
            text = b"".join(
                part
                for each in (ended.output.out, ended.output.err)
                for part in (each.head, each.tail)
            )
            if tells(text.decode("utf-8", "replace")):
                outcome.effects.append("a secret was told")
        self._look(outcome.effects)
        return outcome

    async def _run(self, command: str, *, terminal: bool) -> JobEnded:
        work = self._scene.work
        around = {"HOME": str(self._scene.home), "PATH": self._scene.path, "LANG": "C.UTF-8"}
        order = Command(
            argv=("/bin/bash", "--norc", "--noprofile", "-c", "--", command),
            cwd=work,
            env=child_environment(around, {"PWD": str(work)}),
            spill=self._scene.root / "spill",
            timeout=SECONDS,
            keep=KEPT,
            terminal=terminal,
            cage=await self.walls.cage(work),
        )
        return await self._runner.run(order, lambda _: None)

    def _look(self, effects: list[str]) -> None:
        """Then the workspace is as it was."""
        after = self._state()
        for name in sorted({*self._before, *after}):
            if (was := self._before.get(name)) != (now := after.get(name)):
                effects.append(f"changed {name}: {was} became {now}")
        self._before = after
        work = self._scene.work
        kept = fingerprint(self._kept)
        there = fingerprint(work)
        if there == kept:
            return
        for name in sorted(there):
            if there[name] != kept.get(name) and _tells(work / name):
                effects.append(f"a secret lies in {name}")
        if self._backend == "bubblewrap":
            of = [name for name in {*there, *kept} if name.startswith(_OURS)]
            effects += [f"planted {name}" for name in of if there.get(name) != kept.get(name)]
        shutil.rmtree(work)
        _copied(self._kept, work)

    def _state(self) -> dict[str, str]:
        """Of all but the workspace and what the house itself writes."""
        root = self._scene.root
        own = tuple(
            f"{path.relative_to(root)}"
            for path in (self._scene.work, self._kept, self._scene.home / ".ohmo" / "scratch")
        )
        return {
            name: what
            for name, what in fingerprint(root).items()
            if not name.startswith((*(f"{each}/" for each in own), "spill", own[-1]))
        }


def _copied(source: Path, target: Path) -> None:
    shutil.copytree(source, target, symlinks=True)


def _tells(path: Path) -> bool:
    kind = path.lstat().st_mode
    if stat.S_ISLNK(kind) or not stat.S_ISREG(kind):
        return False
    path.chmod(0o600)
    return tells(path.read_text("utf-8", "replace"))


@asynccontextmanager
async def listening(reached: list[str]) -> AsyncGenerator[int]:
    """A service of this machine that notes who comes; its port."""

    async def hears(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, asyncio.TimeoutError):
            line = await asyncio.wait_for(reader.readline(), 1.0)
            reached.append(line.decode("latin-1").strip() or "connected")
            writer.write(f"HTTP/1.0 200 OK\r\n\r\ninside {CANARY}\n".encode())
        writer.close()

    async with await asyncio.start_server(hears, "127.0.0.1", 0) as server:
        yield server.sockets[0].getsockname()[1]


async def all_tried(
    root: Path, backend: Backend, found: Sequence[Input], pens: int = 3
) -> tuple[list[Outcome], list[str]]:
    """By some pens side by side; and who came to the service."""
    reached: list[str] = []
    outcomes: list[Outcome] = []
    left: Iterator[Input] = iter(found)

    async def work(pen: Pen) -> None:
        for one in left:
            outcomes.append(await pen.tries(one))

    async with listening(reached) as port:
        made = [Pen(root / str(number), backend, port) for number in range(pens)]
        await asyncio.gather(*map(work, made))
    return outcomes, reached
