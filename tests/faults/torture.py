"""The long campaign: ``python -m tests.faults.torture --seed 7 --kills 100 --messages 10000`` kills a daemon under load and checks the ledger.

It runs in rounds of ten kills, each with a home of its own; after every round a line is appended to the table, so that a campaign that was
interrupted goes on with ``--resume`` at its next round under the same seed. Exit code 1 when a round broke the promise; its home is kept.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import shutil
import sys
import tempfile
import time
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.faults.nemesis import campaign
from tests.faults.scene import scene
from tests.platforms.discord.rig import rig as discord
from tests.platforms.feishu.rig import rig as feishu
from tests.platforms.matrix.rig import rig as matrix
from tests.platforms.slack.rig import rig as slack
from tests.platforms.telegram.rig import rig as telegram

RIGS = {"telegram": telegram, "slack": slack, "discord": discord, "matrix": matrix, "feishu": feishu}
KILLS_OF_A_ROUND = 10
HEAD = "| seed | round | platforms | kills | messages | seconds | result |\n|--:|--:|---|--:|--:|--:|---|\n"


@dataclass(frozen=True, slots=True)
class Plan:
    seed: int
    rounds: int
    kills: int
    messages: int  # of one round
    platforms: tuple[str, ...]
    table: Path


async def one_round(plan: Plan, number: int) -> str:
    """Empty when the promise held; else what broke it and where the home lies."""
    place = Path(tempfile.mkdtemp(prefix="ohmo-torture-"))
    home = place / "home"
    home.mkdir(mode=0o700)
    rigs = {name: RIGS[name] for name in plan.platforms if name != "web"}
    chance = random.Random(f"{plan.seed}:{number}")
    stage: AbstractAsyncContextManager[Any] = scene(home, rigs, web="web" in plan.platforms)
    try:
        async with stage as opened:
            opened.model.keep = False
            await campaign(opened, chance, kills=plan.kills, messages=plan.messages, pause=max(1.2, plan.messages * 0.08 / plan.kills))
    except AssertionError as error:
        return f"{error} (home kept: {home})"
    shutil.rmtree(place)
    return ""


def done_before(plan: Plan) -> int:
    """Rounds of this seed that the table has already."""
    if not plan.table.exists():
        return 0
    return sum(line.startswith(f"| {plan.seed} |") for line in plan.table.read_text().splitlines())


async def run(plan: Plan, first: int) -> int:
    broken = 0
    if not plan.table.exists():
        plan.table.write_text(HEAD)
    for number in range(first, plan.rounds):
        began = time.monotonic()
        problem = await one_round(plan, number)
        broken += bool(problem)
        result = "0 lost, 0 unmarked repeats" if not problem else problem.splitlines()[0][:200]
        cells = (plan.seed, number + 1, " ".join(plan.platforms), plan.kills, plan.messages, round(time.monotonic() - began), result)
        with plan.table.open("a") as table:
            table.write("| " + " | ".join(map(str, cells)) + " |\n")
        print(f"round {number + 1} of {plan.rounds}: {problem or 'the promise held'}", flush=True)
    return 1 if broken else 0


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.faults.torture", description=__doc__)
    parser.add_argument("--seed", type=int, default=0, help="0: a new one")
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--messages", type=int, default=10_000)
    parser.add_argument(
        "--platforms", default="telegram,slack,discord,web,matrix,feishu", help="of telegram, slack, discord, web, matrix, feishu"
    )
    parser.add_argument("--table", type=Path, default=Path("docs/torture.md"))
    parser.add_argument("--resume", action="store_true", help="go on where a campaign with this --seed stopped")
    wanted = parser.parse_args()
    platforms = tuple(name.strip() for name in wanted.platforms.split(","))
    if unknown := set(platforms) - {*RIGS, "web"}:
        parser.error(f"--platforms: {', '.join(sorted(unknown))} is none of telegram, slack, discord, web, matrix, feishu")
    if wanted.resume and not wanted.seed:
        parser.error("--resume needs the --seed of the campaign that was interrupted")
    seed = wanted.seed or random.SystemRandom().randrange(1, 10**6)
    rounds = max(1, -(-wanted.kills // KILLS_OF_A_ROUND))
    plan = Plan(seed, rounds, min(wanted.kills, KILLS_OF_A_ROUND), max(1, wanted.messages // rounds), platforms, wanted.table)
    print(f"seed {seed}: --seed {seed} --resume goes on with it", flush=True)
    return asyncio.run(run(plan, done_before(plan) if wanted.resume else 0))


if __name__ == "__main__":
    sys.exit(main())
