"""All platforms at once: start to connected, memory, and what an idle house costs. ``python -m
benchmarks.platforms``."""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.rig import ROOT, Daemon, cores, cpu, middle, model_server, pss, show, tree
from tests.platforms.discord.rig import rig as discord
from tests.platforms.feishu.rig import rig as feishu
from tests.platforms.matrix.rig import rig as matrix
from tests.platforms.slack.rig import rig as slack
from tests.platforms.telegram.rig import rig as telegram

RIGS = {
    "slack": slack,
    "discord": discord,
    "telegram": telegram,
    "matrix": matrix,
    "feishu": feishu,
}
FOUR = ("slack", "discord", "telegram", "matrix")
SDKS = (
    "slack_sdk.web.async_client, slack_sdk.socket_mode.aiohttp, discord, telegram.ext,"
    " mautrix.client"
)
HEARD = {  # as the platforms see it: the app can be spoken to from here on
    "slack": lambda rig: rig.server.opened,
    "discord": lambda rig: rig.server.gateway.identified,
    "telegram": lambda rig: int(rig.server.methods.polling),
    "matrix": lambda rig: sum(path.endswith("/sync") for _, path in rig.proxy.requests),
    "feishu": lambda rig: rig.server.kept.opened,
}


@asynccontextmanager
async def house(
    rigs: Mapping[str, Any],
    names: Sequence[str],
    model: str,
    core: int | None,
    python: Sequence[str] = (sys.executable,),
    checkout: Path = ROOT,
) -> AsyncGenerator[tuple[Daemon, float]]:
    """A daemon on ``names``; seconds from its start until every platform has heard of it.
    ``python``: what runs ``-m ohmo run`` of ``checkout``."""
    with tempfile.TemporaryDirectory(
        prefix="ohmo-bench-", dir=os.environ.get("OHMO_BENCH_DIR"), ignore_cleanup_errors=True
    ) as folder:
        profile = {
            "provider": "anthropic",
            "base_url": model,
            "api_key": "sk-ant-loopback",
            "models": ["claude-sonnet-4-5"],
        }
        channels = {
            name: {**rigs[name].settings(), "enabled": True, "dm": "open"} for name in names
        }
        wanted = {
            "profiles": {"default": profile},
            "workspace": f"{folder}/work",
            "control": {"listen": "127.0.0.1:0"},
            "channels": channels,
        }
        root = Path(folder) / "home"
        root.mkdir(mode=0o700)
        config = root / "config.yaml"
        config.touch(mode=0o600)
        config.write_text(json.dumps(wanted))  # JSON is YAML
        before = {name: HEARD[name](rigs[name]) for name in names}
        before["telegram"] = 0  # nobody polls
        daemon = Daemon(root, core, python, checkout)
        await daemon.start()
        try:
            async with asyncio.timeout(120):
                while any(HEARD[name](rigs[name]) <= before[name] for name in names):
                    await asyncio.sleep(0.002)
            yield daemon, time.perf_counter() - daemon.started
        finally:
            await daemon.stop()


def imports(core: int | None) -> float:
    """Seconds of a Python that imports the four SDKs and ends; pinned as the daemon is."""
    pinned = ["taskset", "-c", str(core)] if core is not None else []
    began = time.perf_counter()
    env = {**os.environ, "PYTHONDONTWRITEBYTECODE": ""}
    subprocess.run([*pinned, sys.executable, "-c", f"import {SDKS}"], check=True, cwd=ROOT, env=env)
    return time.perf_counter() - began


@dataclass(frozen=True, slots=True)
class Rest:
    """Of a house that is left alone. ``idle``: share of one core; ``wakes``: voluntary context
    switches a second."""

    connected: float
    idle: float
    wakes: float
    used: float = 0.0


def switches(pid: int) -> int:
    """Voluntary context switches of all threads so far (proc(5), /proc/PID/status)."""
    found = 0
    for task in Path(f"/proc/{pid}/task").iterdir():
        found += int(
            (task / "status").read_text().partition("\nvoluntary_ctxt_switches:")[2].split()[0]
        )
    return found


async def rested(
    daemon: Daemon, rigs: Mapping[str, Any], names: Sequence[str], seconds: float
) -> Rest:
    await asyncio.sleep(10)  # certificates, catch-up, the model's library
    connected = pss(daemon.pid)
    spent, woken, began = sum(map(cpu, tree(daemon.pid))), switches(daemon.pid), time.perf_counter()
    await asyncio.sleep(seconds)
    past = time.perf_counter() - began
    idle, wakes = (
        (sum(map(cpu, tree(daemon.pid))) - spent) / past,
        (switches(daemon.pid) - woken) / past,
    )
    for name in names:
        await rigs[name].says(f"hello {name}")
        async with asyncio.timeout(60):
            while not any(
                one.by_bot and f"hello {name}" in one.text for one in await rigs[name].visible()
            ):
                await asyncio.sleep(0.05)
    await asyncio.sleep(3)
    return Rest(connected, idle, wakes, pss(daemon.pid))


async def main(rounds: int, seconds: float) -> None:
    core, _ = cores()
    async with AsyncExitStack() as stack:
        model = await stack.enter_async_context(model_server())
        rigs = {
            name: await stack.enter_async_context(open_rig()) for name, open_rig in RIGS.items()
        }
        starts, alone = [], []
        for _ in range(rounds):
            alone.append(await asyncio.to_thread(imports, core))
            async with house(rigs, FOUR, model, core) as (_, took):
                starts.append(took)
        async with house(rigs, FOUR, model, core) as (daemon, _):
            four = await rested(daemon, rigs, FOUR, seconds)
        async with house(rigs, tuple(RIGS), model, core) as (daemon, _):
            five = await rested(daemon, rigs, tuple(RIGS), seconds)
    told(starts, alone, four, five, seconds)


def told(
    starts: Sequence[float], alone: Sequence[float], four: Rest, five: Rest, seconds: float
) -> None:
    of = f"median of {len(starts)}"
    show(
        f"start until Slack, Discord, Telegram, Matrix hear us, {of}",
        middle(starts),
        "s",
        f"best {min(starts):.2f}",
    )
    show(
        f"importing the four SDKs and nothing else, {of}",
        middle(alone),
        "s",
        f"best {min(alone):.2f}",
    )
    show(
        "the ratio of both",
        middle(starts) / middle(alone),
        "x",
        f"<= 1.5    of the best {min(starts) / min(alone):.2f}",
    )
    show("memory of the process tree, four connected (PSS)", four.connected, "MiB", "<= 150")
    show("after a message on each and its answer", four.used, "MiB", "<= 150")
    show("Feishu adds, connected", five.connected - four.connected, "MiB", "<= 60")
    show("five, after a message on each", five.used, "MiB", "<= 210")
    for count, rest in (("four", four), ("five", five)):
        show(
            f"idle CPU over {seconds:.0f} s, {count} connected",
            100 * rest.idle,
            "%",
            f"< 1    {rest.wakes:.1f} wake-ups a second",
        )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--idle", type=float, default=60.0, help="seconds to look at")
    wanted = parser.parse_args()
    asyncio.run(main(wanted.rounds, wanted.idle))
