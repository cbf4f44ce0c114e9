"""What MCP servers cost whoever talks: ``python -m benchmarks.mcp [--table FOLDER]``.

Without servers: what of MCP a start imports. With ten, one of which hangs: the first reply beside that of a daemon without
any, in turn, as a ratio: of a daemon that is up, and counted from the start of its process, when ten programs start beside
it. A server that comes late, and one of 300 tools: what is sent to the model. ``--table``: see ``benchmarks.tokens``."""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import time
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks.rig import (
    FIRST_CHAT,
    ROOT,
    Chats,
    Daemon,
    dumped,
    home,
    middle,
    model_server,
    show,
    telegram,
)
from benchmarks.start import polls
from benchmarks.tokens import kept, tokens
from tests.platforms.model.script import Call, Turn
from tests.platforms.model.server import ModelServer, serving

SERVER = ROOT / "tests" / "journeys" / "shop_server.py"
OF_MCP = ("mcp", "ohmo.mcp", "jsonschema_rs")
TEN = (*(f"shop{number}" for number in range(9)), "asleep")


def programs(folder: Path, **states: str) -> str:
    """The key ``mcp`` of a configuration: a server for each name, in this state."""
    made: dict[str, Any] = {}
    for name, state in states.items():
        (folder / name).write_text(state)
        made[name] = {"command": sys.executable, "args": [str(SERVER), str(folder / name)]}
    return json.dumps(made)


async def states(daemon: Daemon) -> dict[str, str]:
    async with daemon.client() as session:
        found = await daemon.get("/api/v1/mcp", session)
    return {row["name"]: row["state"] for row in found["servers"]}


async def connected(daemon: Daemon, *names: str) -> None:
    async with asyncio.timeout(60):
        while True:
            now = await states(daemon)
            if all(now.get(name) == "connected" for name in names):
                return
            await asyncio.sleep(0.05)


async def imported(chats: Chats, model: str) -> tuple[list[str], float]:
    """Modules of MCP that a start without servers imports, and the milliseconds of those that stand
    between it and the house (python -X importtime)."""
    with home(model, chats.server) as root:
        daemon = Daemon(root, python=(sys.executable, "-X", "importtime"))
        await daemon.start()
        try:
            await daemon.ready()
            chats.says(FIRST_CHAT, "imported")
            await chats.answered(FIRST_CHAT, "imported")
        finally:
            await daemon.stop()
        rows = [
            line.removeprefix("import time:").split("|")
            for line in (root / "stderr.txt").read_text().splitlines()
            if line.startswith("import time:") and "[us]" not in line
        ]
    spent = {name.strip(): int(own) for own, _, name in rows}
    names = [
        name for name in spent if any(name == one or name.startswith(f"{one}.") for one in OF_MCP)
    ]
    between = ("ohmo.contracts.mcp", "ohmo.assembly.servers", "ohmo.control.servers_api")
    return names, sum(spent.get(name, 0) for name in between) / 1_000


async def started(chats: Chats, model: str, text: str, **more: str) -> float:
    """Milliseconds from the start of the process to the reply to what is said at its first poll."""
    with home(model, chats.server, **more) as root, polls(chats) as polled:
        daemon = Daemon(root)
        await daemon.start()
        try:
            await asyncio.wait_for(polled.wait(), 60)
            chats.says(FIRST_CHAT, text)
            return 1e3 * (await chats.answered(FIRST_CHAT, text) - daemon.started)
        finally:
            await daemon.stop()


@asynccontextmanager
async def alive(model: str, **more: str) -> AsyncGenerator[tuple[Chats, Daemon]]:
    async with telegram() as chats:
        with home(model, chats.server, **more) as root:
            daemon = Daemon(root)
            await daemon.start()
            try:
                await daemon.ready()
                yield chats, daemon
            finally:
                await daemon.stop()


async def beside(rounds: int) -> None:
    ways = ("without", "with")
    with TemporaryDirectory() as place:
        ten = programs(Path(place), **dict.fromkeys(TEN[:-1], ""), asleep="hang")
        async with telegram() as chats, model_server() as model:
            names, spent = await imported(chats, model)
            show("modules of MCP that a start without servers imports", len(names), "", "0")
            show("what stands between: import", spent, "ms")
            took: dict[str, list[float]] = {way: [] for way in ways}
            for number in range(rounds):
                for way in ways if number % 2 else reversed(ways):
                    more = {"mcp": ten} if way == "with" else {}
                    took[way].append(await started(chats, model, f"{way} {number}", **more))
            told("first reply from the start of the process, ten beside none", took)
        async with model_server() as model, alive(model) as none, alive(model, mcp=ten) as some:
            await connected(some[1], *TEN[:-1])
            took = {way: [] for way in ways}
            for number in range(-3, 15 * rounds):
                for way, (chats, _) in zip(ways, (none, some), strict=True):
                    chat = FIRST_CHAT + 10 + number
                    began = chats.says(chat, f"{way} {number}")
                    came = await chats.answered(chat, f"{way} {number}")
                    if number >= 0:  # the first ones make what is made once
                        took[way].append(1e3 * (came - began))
            told("first reply of a conversation, ten servers beside none", took)
            show("memory that ten servers take in the daemon", own(some[1]) - own(none[1]), "MiB")


def own(daemon: Daemon) -> float:
    """MiB of the process alone, without the programs it started."""
    rollup = Path(f"/proc/{daemon.pid}/smaps_rollup").read_text().splitlines()
    return sum(int(line.split()[1]) for line in rollup if line.startswith("Pss:")) / 1024


def told(what: str, took: dict[str, list[float]]) -> None:
    ratio = middle(took["with"]) / middle(took["without"])
    best = min(took["with"]) / min(took["without"])
    both = f"{middle(took['with']):.0f} and {middle(took['without']):.0f} ms"
    show(what, ratio, "x", f"<= 1.05    best {best:.2f}; {both}")


async def asked(state: str, words: Sequence[str], found: str) -> list[bytes]:
    """What the model is sent by a house with one server: before it is there, and after."""
    with TemporaryDirectory() as place:
        mcp = programs(Path(place), shop=state)
        async with telegram() as chats, serving(ModelServer()) as model:
            with home(model.url, chats.server, mcp=mcp) as root:
                daemon = Daemon(root)
                await daemon.start()
                try:
                    await daemon.ready()
                    chats.says(FIRST_CHAT, words[0])
                    await chats.answered(FIRST_CHAT, words[0])
                    if state == "slow" and (await states(daemon))["shop"] == "connected":
                        raise SystemExit("the server was there too early: nothing was measured")
                    await connected(daemon, "shop")
                    for text in words[1:]:
                        chats.says(FIRST_CHAT, text)
                        await chats.answered(FIRST_CHAT, text)
                    model.next(Turn(calls=(Call("ToolSearch", {"query": f"select:{found}"}),)))
                    chats.says(FIRST_CHAT, "look for it")
                    async with asyncio.timeout(60):
                        while len(model.asked) < len(words) + 2:
                            await asyncio.sleep(0.01)
                finally:
                    await daemon.stop()
            return [one.raw for one in model.asked]


async def main(table: Path | None, rounds: int) -> None:
    await beside(rounds)
    requests = await asked("slow", ("before it", "after it"), "mcp__shop__stock")
    early, late, search, _ = requests
    show("byte prefix kept when a server comes late", 100 * kept(early, late), "%", ">= 99")
    show("and when its tool is looked for", 100 * kept(late, search), "%", ">= 99")
    many = await asked("many", ("hello", "you"), "mcp__shop__shelf_7_of_the_shop")
    first = json.loads(many[1])
    size = tokens(dumped(first["system"]), table) + tokens(dumped(first["tools"]), table)
    unit = "tokens" if table is not None else "~tok"
    show("system and tools of a request with 300 tools of a server", size, unit, "<= 3500")
    brought = json.loads(many[-1])["tools"]
    show(
        "tools sent before and after one of them is found",
        len(first["tools"]),
        "",
        f"{len(brought)}",
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--table", type=Path)
    parser.add_argument("--rounds", type=int, default=6)
    given = parser.parse_args()
    began = time.perf_counter()
    asyncio.run(main(given.table, given.rounds))
    show("all of it", time.perf_counter() - began, "s")
