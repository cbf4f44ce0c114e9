"""The long campaigns behind docs/evidence/torture.md: ``python -m tests.faults.torture --seed 7``,
or one of them with ``--only kills``.

Each is made of pieces, and each finished piece is a line of ``--state``, so that a campaign that
was interrupted goes on with ``--resume`` under the same seed. The page is written anew after every
piece. Exit code 1 when a piece broke the promise; its home is kept.
"""

from __future__ import annotations

import argparse
import asyncio
import importlib
import itertools
import logging
import os
import random
import shutil
import sys
import tempfile
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import structlog

from tests.faults.great_home import awakened, checked, grown
from tests.faults.nemesis import campaign
from tests.faults.points import CONFIG, POINTS, at_points
from tests.faults.records import Records, section, spread, table
from tests.faults.scene import RIGS, Scene, scene

KILLS_OF_A_ROUND = 10
SEEDS = 20  # of every cell of platform and point
WAITING, AWAKENINGS = 50, 10  # people who wait when an old store is killed, and how often it is
INTERRUPTED, PIECE = 100_000, 1_000  # turns, all and of one piece


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
async def stage(platforms: Sequence[str], **config: Any) -> AsyncGenerator[Scene]:
    """A scene in a temp folder, which is kept when something broke in it."""
    place = Path(tempfile.mkdtemp(prefix="ohmo-torture-"))
    home = place / "home"
    home.mkdir(mode=0o700)
    (place / "workspace").mkdir()
    try:
        async with scene(
            home,
            {name: RIGS[name] for name in platforms if name != "web"},
            web="web" in platforms,
            **config,
        ) as opened:
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
        began, chance, problem, awoke = (
            time.monotonic(),
            random.Random(f"{wish.seed}:{number}"),
            "",
            [],
        )
        try:
            async with stage(wish.platforms) as opened:
                awoke = await campaign(
                    opened,
                    chance,
                    kills=each,
                    messages=messages,
                    pause=max(1.2, messages * 0.05 / each),
                )
        except AssertionError as error:
            problem = str(error)
        print(f"kills, round {number + 1} of {rounds}: {problem or 'the promise held'}", flush=True)
        records.add(
            kills=each,
            messages=messages,
            seconds=round(time.monotonic() - began),
            awoke=awoke,
            problem=problem,
        )
        section(wish.page, "Random kills under load", _kills_told(wish, records.all()))
    return sum(bool(record["problem"]) for record in records.all())


def _kills_told(wish: Wish, found: Sequence[dict[str, Any]]) -> str:
    def times(rounds: Sequence[dict[str, Any]], what: str) -> str:
        return spread(
            [life[what] for one in rounds for life in one["awoke"] if life[what] is not None]
        )

    def row(name: object, rounds: Sequence[dict[str, Any]]) -> list[object]:
        held = (
            "; ".join(one["problem"].splitlines()[0][:160] for one in rounds if one["problem"])
            or "0 lost, 0 unmarked repeats"
        )
        sums = [sum(one[key] for one in rounds) for key in ("kills", "messages", "seconds")]
        return [
            name,
            *sums,
            times(rounds, "ready"),
            times(rounds, "work"),
            times(rounds, "connected"),
            times(rounds, "out"),
            held,
        ]

    head = [
        "round",
        "kills",
        "messages",
        "seconds",
        "ready, s",
        "CPU until then, s",
        "connected, s",
        "first words out, s",
        "result",
    ]
    rows = [row(number, [one]) for number, one in enumerate(found, 1)]
    return f"""`python -m tests.faults.torture --only kills --seed {wish.seed}`: {", ".join(wish.platforms)}; 50 threads in every round. Each message is checked
against what its person sees (docs/evidence/faults.md, L1 to L7). Times are seconds from the start of the next life's process to: the house is ready,
every channel can speak, the first words are out (middle / 99th percentile / most of those lives that were not killed at once).

{table(head, [*rows, row("all", found)])}"""


# Kills at every named failpoint (figure G3)


async def points(wish: Wish) -> int:
    """One piece for each platform, group of points and seed. Returns how many broke the promise."""
    records = wish.records("points")
    done = {(record["on"], record["group"], record["seed"]) for record in records.all()}
    for number, on, (group, names) in itertools.product(
        range(SEEDS), wish.platforms, POINTS.items()
    ):
        if (on, group, number) in done:
            continue
        problem = ""
        try:
            async with stage([on], **CONFIG) as opened:
                work = opened.daemon.home.parent / "workspace"
                await at_points(
                    opened, on, names, work, random.Random(f"{wish.seed}:{number}:{on}:{group}")
                )
        except AssertionError as error:
            problem = str(error)
        print(
            f"points, seed {number + 1}, {group} on {on}: {problem or 'the promise held'}",
            flush=True,
        )
        records.add(on=on, group=group, seed=number, problem=problem)
        section(
            wish.page, "Kills at every step of a message's way", _points_told(wish, records.all())
        )
    return sum(bool(one["problem"]) for one in records.all())


def _points_told(wish: Wish, found: Sequence[dict[str, Any]]) -> str:
    def cell(on: str, group: str) -> str:
        there = [one for one in found if (one["on"], one["group"]) == (on, group)]
        broken = "; ".join(one["problem"].splitlines()[0][:160] for one in there if one["problem"])
        return (
            f"{len(there)} held"
            if not broken
            else f"{sum(not one['problem'] for one in there)} of {len(there)} held: {broken}"
        )

    rows = [
        [f"{group}: {', '.join(names)}", *(cell(on, group) for on in wish.platforms)]
        for group, names in POINTS.items()
    ]
    return f"""`python -m tests.faults.torture --only points --seed {wish.seed}`: seeds that held, of {SEEDS} for every cell.
In each the daemon dies at every named point of the row, at a random hit of it, with one to three messages on their way; at the end everything is delivered once more.

{table(["points", *wish.platforms], rows)}"""


# A store that has grown old (figure G5)


async def home(wish: Wish) -> int:
    """All or nothing: the store is made and killed in one go."""
    records = wish.records("home")
    if not records.all():
        awoke: list[dict[str, Any]] = []
        problem = ""
        try:
            async with stage(["telegram"]) as opened:
                await grown(opened, sessions=1_000, messages=100_000)
                for number in range(AWAKENINGS):
                    awoke.append(asdict(await awakened(opened, waiting=WAITING)))
                    print(f"old store, kill {number + 1} of {AWAKENINGS}: {awoke[-1]}", flush=True)
                await checked(opened)
        except AssertionError as error:
            problem = str(error)
        print(f"old store: {problem or 'the promise held'}", flush=True)
        records.add(
            awoke=awoke, problem=problem, load=round(os.getloadavg()[1], 1), cores=os.cpu_count()
        )
    (found,) = records.all()
    rows = [
        [what, spread([life[key] for life in found["awoke"] if life[key] is not None])]
        for what, key in TIMES
    ]
    held = found["problem"].splitlines()[:1] or ["Nothing was lost, nothing said twice."]
    machine = (
        f"The machine had {found['cores']} cores and a load of {found['load']} meanwhile: times are"
        " long by that, processor time is not."
    )
    text = f"""`python -m tests.faults.torture --only home`: Telegram, 1 000 sessions with 100 messages each;
{len(found["awoke"])} times `kill -9` while {WAITING} people wait for the model. {held[0]}
{machine}

{table(["seconds from the start of the process", "middle / 99th percentile / most"], rows)}"""
    section(wish.page, "A store of 100 000 messages", text)
    return bool(found["problem"])


TIMES = (
    ("processor time until ready", "work"),
    ("ready (wanted: 2)", "ready"),
    ("the channel can speak", "connected"),
    ("first answer out (wanted: 5)", "out"),
)


# Interrupted turns (figure G8)


async def turns(wish: Wish) -> int:
    """Pieces of a thousand interrupted turns, in this process, in memory."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    sys.path.insert(0, str(Path(__file__).parents[1] / "unit" / "sessions"))
    stories = importlib.import_module("interrupted")
    records = wish.records("turns")
    while (done := sum(one["interrupted"] for one in records.all())) < INTERRUPTED:
        chance, interrupted, problem = random.Random(f"{wish.seed}:{done}"), 0, ""
        while interrupted < PIECE and not problem:
            story = stories.drawn(chance)
            try:
                interrupted += await asyncio.to_thread(asyncio.run, stories.told(story))
            except AssertionError as error:
                problem, interrupted = f"{story}: {error}", interrupted + 1
        records.add(interrupted=interrupted, problem=problem)
        found = records.all()
        broken = [one["problem"].splitlines()[0] for one in found if one["problem"]]
        print(f"turns, {done + interrupted} of {INTERRUPTED}: {problem or 'all valid'}", flush=True)
        text = f"""`python -m tests.faults.torture --only turns --seed {wish.seed}`: {done + interrupted} turns interrupted
anywhere, up to four times each, by a kill, `/stop`, a graceful stop, a store that is away, or another message.
Every request was held against the rules of Anthropic's and OpenAI's endpoints, every log against L6,
and no effect came twice: {len(broken)} violations. {" ".join(broken)}"""
        section(wish.page, "Interrupted turns", text)
    return sum(bool(record["problem"]) for record in records.all())


PARTS: Mapping[str, Callable[[Wish], Awaitable[int]]] = {
    "kills": kills,
    "points": points,
    "home": home,
    "turns": turns,
}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.faults.torture", description=__doc__)
    parser.add_argument("--seed", type=int, default=0, help="0: a new one")
    parser.add_argument("--only", default=",".join(PARTS), help=f"of {', '.join(PARTS)}")
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--messages", type=int, default=10_000)
    parser.add_argument("--platforms", default="telegram,slack,discord,matrix,feishu,web")
    parser.add_argument("--page", type=Path, default=Path("docs/evidence/torture.md"))
    parser.add_argument("--state", type=Path, default=Path("build/torture"))
    parser.add_argument(
        "--resume", action="store_true", help="go on where a campaign with this --seed stopped"
    )
    asked = parser.parse_args()
    platforms, parts = (
        _names(parser, "--platforms", asked.platforms, (*RIGS, "web")),
        _names(parser, "--only", asked.only, PARTS),
    )
    if asked.resume and not asked.seed:
        parser.error("--resume needs the --seed of the campaign that was interrupted")
    seed = asked.seed or random.SystemRandom().randrange(1, 10**6)
    print(f"seed {seed}: --seed {seed} --resume goes on with it", flush=True)
    wish = Wish(seed, platforms, asked.kills, asked.messages, asked.page, asked.state, asked.resume)
    return 1 if sum(asyncio.run(_broken(PARTS[part], wish)) for part in parts) else 0


async def _broken(part: Callable[[Wish], Awaitable[int]], wish: Wish) -> int:
    return await part(wish)


def _names(
    parser: argparse.ArgumentParser, option: str, text: str, known: Iterable[str]
) -> tuple[str, ...]:
    names = tuple(name.strip() for name in text.split(","))
    if unknown := set(names) - set(known):
        parser.error(f"{option}: {', '.join(sorted(unknown))} is none of {', '.join(known)}")
    return names


if __name__ == "__main__":
    sys.exit(main())
