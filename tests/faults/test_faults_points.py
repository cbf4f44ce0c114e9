"""What the long campaigns do, in samples: ``make torture`` (figure G3) where no other test asks, row
48 (``python -m tests.faults.mutations``), and the weather of the platforms' shared door."""

from __future__ import annotations

import asyncio
import os
import random
from pathlib import Path

import aiohttp
import pytest

from tests.faults.conftest import Stage
from tests.faults.mutations import campaign
from tests.faults.points import ASKING, CONFIG, SAYING, at_points
from tests.platforms.discord.rig import rig as discord
from tests.platforms.feishu.rig import rig as feishu
from tests.platforms.slack.rig import rig as slack
from tests.platforms.telegram.rig import rig as telegram
from tests.platforms.weather import KINDS, Acks, Weather

SYNAPSE = pytest.param(
    "matrix", marks=(pytest.mark.needs("synapse"), pytest.mark.xdist_group("synapse"))
)


@pytest.mark.parametrize("on", ["feishu", SYNAPSE])
async def test_kills_at_random_points_and_around_a_question_are_survived(
    stage: Stage, work: Path, on: str
) -> None:
    seed = int(os.environ.get("OHMO_FAULTS_SEED", "0")) or random.SystemRandom().randrange(1, 10**6)
    print(f"seed {seed}: OHMO_FAULTS_SEED={seed} repeats this")
    chance = random.Random(f"{on}:{seed}")
    async with stage(on, **CONFIG) as scene:
        await at_points(scene, on, [*ASKING, *chance.sample(SAYING, 2)], work, chance)


@pytest.mark.parametrize("backup", [False, True])
def test_a_ruined_store_never_loses_a_message_in_silence(backup: bool) -> None:
    found = campaign(range(40), backup=backup)
    assert not {key: count for key, count in found.items() if key[1].isupper()}
    assert ("told, whole" if backup else "told") in {outcome for _, outcome in found}


RIGS = {
    "slack": (slack, "/api/auth.test"),
    "discord": (discord, "/api/v10/users/@me"),
    "telegram": (telegram, "/bot1/getMe"),
    "feishu": (feishu, "/open-apis/bot/v3/info"),
}


@pytest.mark.parametrize("on", RIGS)
async def test_every_kind_of_fault_reaches_the_caller(on: str) -> None:
    factory, path = RIGS[on]
    async with factory() as rig, aiohttp.ClientSession() as http:
        url = f"http://127.0.0.1:{rig.server.port}{path}"
        async with http.get(url) as response:
            usual = response.status
        for kind in KINDS:
            rig.server.door.weather = weather = Weather(
                random.Random(7), 1.0, (kind,), slowest=0.01
            )
            if kind in {"reset", "cut", "lose"}:
                with pytest.raises((aiohttp.ClientError, ConnectionError)):
                    await http.get(url)
            else:
                async with http.get(url) as response:
                    seen = response.status
                assert {
                    "status": seen in (500, 502, 503),
                    "limit": seen == 429,
                    "delay": seen == usual,
                }[kind], (kind, seen)
            assert weather.met[kind] >= 1


def test_the_same_seed_gives_the_same_weather_and_about_its_share() -> None:
    first, second = (Weather(random.Random(11)) for _ in range(2))
    kinds = [first.next(socket=False) for _ in range(4000)]
    assert kinds == [second.next(socket=False) for _ in range(4000)]
    assert 120 < sum(first.met.values()) < 280
    assert set(first.met) == set(KINDS)
    assert {Weather(random.Random(3), 1.0).next(socket=True) for _ in range(9)} <= {
        "status",
        "reset",
        "delay",
    }


async def test_a_repeated_delivery_starts_the_watch_anew_and_a_lost_one_does_not_count() -> None:
    acks = Acks()
    acks.handed("a", 3)
    await asyncio.sleep(0)
    acks.handed("b")
    acks.lost("b")
    acks.settled("b")
    acks.settled("a")
    assert len(acks.took) == 3
    assert acks.open == ()
