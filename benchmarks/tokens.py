"""How long the first request of a plain "hi" is, how much of it the next requests repeat, and what
a tool that is looked for changes: ``python -m benchmarks.tokens --table FOLDER``.

``--table``: a folder in which ``npm install gpt-tokenizer`` was run; without it characters are
counted and divided by four."""

from __future__ import annotations

import argparse
import asyncio
import json
import subprocess
from itertools import takewhile
from pathlib import Path
from typing import Any

from benchmarks.rig import FIRST_CHAT, Daemon, dumped, home, show, telegram
from tests.platforms.model.script import Call, Turn
from tests.platforms.model.server import ModelServer, serving

COUNT = (
    "const {encode} = require('gpt-tokenizer/encoding/o200k_base');"
    " process.stdout.write(String(encode(require('fs').readFileSync(0, 'utf8')).length))"
)


def tokens(text: str, table: Path | None) -> int:
    """In o200k_base, which peers.md counts in."""
    if table is None:
        return len(text) // 4
    done = subprocess.run(
        ["node", "-e", COUNT], cwd=table, input=text.encode(), capture_output=True, check=True
    )
    return int(done.stdout)


def marks(body: object) -> int:
    """Cache breakpoints."""
    if isinstance(body, dict):
        return ("cache_control" in body) + sum(map(marks, body.values()))
    return sum(map(marks, body)) if isinstance(body, list) else 0


def kept(old: bytes, new: bytes) -> float:
    """Share of the older request's bytes, up to the end of its conversation, that the newer one
    begins with; breakpoints may move."""
    plain = b',"cache_control":{"type":"ephemeral"}'
    old, new = old.replace(plain, b""), new.replace(plain, b"")
    old = old[: -len(b"]}")]
    same = next(
        (index for index, (one, other) in enumerate(zip(old, new, strict=False)) if one != other),
        min(len(old), len(new)),
    )
    return same / len(old)


def tools_kept(old: bytes, new: bytes) -> float:
    """Share of the older request's tools that the newer one begins with."""
    one, other = (json.loads(each)["tools"] for each in (old, new))
    return len(
        list(takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False)))
    ) / len(one)


async def asked(turns: int) -> list[bytes]:
    """The requests of a short chat, as they came over the wire."""
    async with telegram() as chats, serving(ModelServer()) as model:
        with home(model.url, chats.server) as root:
            daemon = Daemon(root)
            await daemon.start()
            try:
                await daemon.ready()
                for number in range(turns):
                    text = "hi" if number == 0 else f"and what about {number}?"
                    chats.says(FIRST_CHAT, text)
                    await chats.answered(FIRST_CHAT, text)
                model.next(Turn(calls=(Call("ToolSearch", {"query": "select:CronCreate"}),)))
                chats.says(FIRST_CHAT, "remind me")
                async with asyncio.timeout(60):
                    while (
                        len(model.asked) < turns + 2
                    ):  # its answer has a footnote, because a tool ran
                        await asyncio.sleep(0.01)
            finally:
                await daemon.stop()
        return [one.raw for one in model.asked]


def main(table: Path | None, turns: int) -> None:
    requests = asyncio.run(asked(turns))
    first: dict[str, Any] = json.loads(requests[0])
    system, tools = dumped(first["system"]), dumped(first["tools"])
    words = "tokens" if table is not None else "~tok"
    show("system, first request", tokens(system, table), words)
    show(f"{len(first['tools'])} tools, first request", tokens(tools, table), words)
    show("system + tools", tokens(system, table) + tokens(tools, table), words, "<= 3500")
    for tool in first["tools"]:
        show(f"    {tool['name']}", tokens(dumped(tool), table), words)
    show(
        "cache breakpoints, first / last request",
        marks(first),
        "",
        f"/ {marks(json.loads(requests[-1]))}",
    )
    *plain, asks, knows = requests
    show(
        f"byte prefix kept between turns, least of {turns}",
        100 * min(map(kept, plain, [*plain[1:], asks])),
        "%",
        ">= 99",
    )
    show("tools kept when one is found, by appending it", 100 * tools_kept(asks, knows), "%")
    show("request kept when a tool is found", 100 * kept(asks, knows), "%", "once for each tool")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--table", type=Path)
    parser.add_argument("--turns", type=int, default=12)
    given = parser.parse_args()
    main(given.table, given.turns)
