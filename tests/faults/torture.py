"""The long campaigns behind docs/torture.md: ``python -m tests.faults.torture --seed 7``, or one of them with ``--only kills``.

Each is made of pieces, and each finished piece is a line of ``--state``, so that a campaign that was interrupted goes on with ``--resume`` under
the same seed. The page is written anew after every piece. Exit code 1 when a piece broke the promise; its home is kept.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import shutil
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.faults.nemesis import campaign
from tests.faults.records import Records, section, spread, table
from tests.faults.scene import RIGS, Scene, scene

KILLS_OF_A_ROUND = 10
PARTS = ("kills",)


@dataclass(frozen=True, slots=True)
class Wish:
    """What the command line asked for."""

    seed: int
    platforms: tuple[str, ...]
    kills: int
    messages: int
    page: Path
    state: Path
    resume: bool

    def records(self, part: str) -> Records:
        found = Records(self.state / f"{self.seed}-{part}.jsonl")
        if not self.resume:
            found.forget()
        return found


@asynccontextmanager
async def stage(platforms: Sequence[str], **config: Any) -> AsyncIterator[Scene]:
    """A scene in a temp folder, which is kept when something broke in it."""
    place = Path(tempfile.mkdtemp(prefix="ohmo-torture-"))
    home = place / "home"
    home.mkdir(mode=0o700)
    (place / "workspace").mkdir()
    try:
        async with scene(home, {name: RIGS[name] for name in platforms if name != "web"}, web="web" in platforms, **config) as opened:
            opened.model.keep = False
            yield opened
    except AssertionError as error:
        raise AssertionError(f"{error} (home kept: {home})") from None
    shutil.rmtree(place)


# Random kills under load (faults.md row 18, figures G1 and G2)


async def kills(wish: Wish) -> int:
    """Rounds of ten kills, each with a home of its own. Returns how many broke the promise."""
    records = wish.records("kills")
    rounds = max(1, -(-wish.kills // KILLS_OF_A_ROUND))
    each, messages = min(wish.kills, KILLS_OF_A_ROUND), max(1, wish.messages // rounds)
    for number in range(len(records.all()), rounds):
        began, chance, problem, awoke = time.monotonic(), random.Random(f"{wish.seed}:{number}"), "", []
        try:
            async with stage(wish.platforms) as opened:
                awoke = await campaign(opened, chance, kills=each, messages=messages, pause=max(1.2, messages * 0.05 / each))
        except AssertionError as error:
            problem = str(error)
        print(f"kills, round {number + 1} of {rounds}: {problem or 'the promise held'}", flush=True)
        records.add(kills=each, messages=messages, seconds=round(time.monotonic() - began), awoke=awoke, problem=problem)
        section(wish.page, "Random kills under load", _kills_told(wish, records.all()))
    return sum(bool(one["problem"]) for one in records.all())


def _kills_told(wish: Wish, found: Sequence[dict[str, Any]]) -> str:
    def times(rounds: Sequence[dict[str, Any]], what: str) -> str:
        return spread([life[what] for one in rounds for life in one["awoke"] if life[what] is not None])

    def row(name: object, rounds: Sequence[dict[str, Any]]) -> list[object]:
        held = "; ".join(one["problem"].splitlines()[0][:160] for one in rounds if one["problem"]) or "0 lost, 0 unmarked repeats"
        sums = [sum(one[key] for one in rounds) for key in ("kills", "messages", "seconds")]
        return [name, *sums, times(rounds, "ready"), times(rounds, "work"), times(rounds, "connected"), times(rounds, "out"), held]

    head = ["round", "kills", "messages", "seconds", "ready, s", "CPU until then, s", "connected, s", "first words out, s", "result"]
    rows = [row(number, [one]) for number, one in enumerate(found, 1)]
    return f"""`python -m tests.faults.torture --only kills --seed {wish.seed}`: {", ".join(wish.platforms)}; 50 threads in every round. Each message is checked
against what its person sees (docs/faults.md, L1 to L7). Times are seconds from the start of the next life's process to: the house is ready,
every channel can speak, the first words are out (middle / 99th percentile / most of those lives that were not killed at once).

{table(head, [*rows, row("all", found)])}"""


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.faults.torture", description=__doc__)
    parser.add_argument("--seed", type=int, default=0, help="0: a new one")
    parser.add_argument("--only", default=",".join(PARTS), help=f"of {', '.join(PARTS)}")
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--messages", type=int, default=10_000)
    parser.add_argument("--platforms", default="telegram,slack,discord,matrix,feishu,web")
    parser.add_argument("--page", type=Path, default=Path("docs/torture.md"))
    parser.add_argument("--state", type=Path, default=Path("build/torture"))
    parser.add_argument("--resume", action="store_true", help="go on where a campaign with this --seed stopped")
    asked = parser.parse_args()
    platforms, parts = _names(parser, "--platforms", asked.platforms, (*RIGS, "web")), _names(parser, "--only", asked.only, PARTS)
    if asked.resume and not asked.seed:
        parser.error("--resume needs the --seed of the campaign that was interrupted")
    seed = asked.seed or random.SystemRandom().randrange(1, 10**6)
    print(f"seed {seed}: --seed {seed} --resume goes on with it", flush=True)
    wish = Wish(seed, platforms, asked.kills, asked.messages, asked.page, asked.state, asked.resume)
    return 1 if sum(asyncio.run(globals()[part](wish)) for part in parts) else 0


def _names(parser: argparse.ArgumentParser, option: str, text: str, known: Sequence[str]) -> tuple[str, ...]:
    names = tuple(name.strip() for name in text.split(","))
    if unknown := set(names) - set(known):
        parser.error(f"{option}: {', '.join(sorted(unknown))} is none of {', '.join(known)}")
    return names


if __name__ == "__main__":
    sys.exit(main())
