"""A loopback platform as a process: prints one line of JSON, then obeys POST /control/NAME until it
is ended."""

from __future__ import annotations

import argparse
import asyncio
import dataclasses
import json
import random
import signal
from collections.abc import Callable, Mapping
from typing import Any

from aiohttp import web

from tests.platforms.weather import KINDS, Weather

HELP = """POST /control/says      {text, chat = "dm:ada", person, topic, mention, count = 1} -> {messages}; "{n}" in the text counts
POST /control/edits     {message, text, chat}
POST /control/deletes   {message, chat}
POST /control/presses   {message, choice, chat, person}
POST /control/redeliver {message, chat}
POST /control/cut       {}                every connection is reset
POST /control/down      {seconds}         connections are refused for so long
POST /control/lose      {}                the next send is carried out, its answer is lost
POST /control/limit     {seconds}         the next send is answered with the rate limit
POST /control/reject    {}                the next send is refused for its content
POST /control/revoke    {revoked = true}
POST /control/weather   {share, seed, kinds = KINDS}   share of all calls meet a fault; share 0 ends it
GET  /control/visible?chat=dm:ada         messages of a chat, newest text
GET  /control/log?after=N                 what was called
""".replace("KINDS", json.dumps(KINDS))
Doors = Mapping[str, Callable[[dict[str, Any]], Any]]
Log = Callable[[], dict[str, Any]]


class Control:
    """The doors, over a server and its rig. ``log``: what was called; ``more``: doors of this
    platform only."""

    def __init__(self, server: Any, rig: Any, log: Log, more: Doors) -> None:
        self.server = server
        self.rig = rig
        self.log = log
        self.more = more

    def add(self, app: web.Application) -> None:
        app.router.add_get("/control", self._help)
        app.router.add_get("/control/visible", self._visible)
        app.router.add_get("/control/log", self._log)
        app.router.add_post("/control/{name}", self._obey)

    async def _help(self, _: web.Request) -> web.Response:
        return web.Response(text=HELP + "".join(f"POST /control/{name}\n" for name in self.more))

    async def _obey(self, request: web.Request) -> web.Response:
        name, body = (
            request.match_info["name"],
            await request.json() if request.can_read_body else {},
        )
        try:
            return web.json_response(await self._done(name, body))
        except (LookupError, TypeError, NotImplementedError) as error:
            return web.json_response({"error": f"{name}: {error}"}, status=404)

    async def _done(self, name: str, body: dict[str, Any]) -> Any:
        rig = self.rig
        match name:
            case "says":
                count, text = body.pop("count", 1), body.pop("text")
                return {
                    "messages": [
                        await rig.says(text.replace("{n}", str(number)), **body)
                        for number in range(count)
                    ]
                }
            case "edits" | "deletes" | "presses" | "redeliver":
                await getattr(rig, name)(**body)
            case "cut":
                await rig.cut()
            case "down":  # the control door is on the same port: it comes back by itself
                loop = asyncio.get_running_loop()
                loop.call_later(0.05, rig.down, True)
                loop.call_later(0.05 + float(body["seconds"]), rig.down, False)
            case "lose":
                rig.lose_next_response()
            case "limit":
                rig.limit_next(float(body["seconds"]))
            case "reject":
                rig.reject_next()
            case "revoke":
                rig.revoke(bool(body.get("revoked", True)))
            case "weather":
                chance = random.Random(body.get("seed", 0))
                self.server.door.weather = Weather(
                    chance, float(body["share"]), tuple(body.get("kinds", KINDS))
                )
            case _:
                return self.more[name](body)
        return {}

    async def _visible(self, request: web.Request) -> web.Response:
        return web.json_response(
            [
                dataclasses.asdict(row)
                for row in await self.rig.visible(request.query.get("chat", "dm:ada"))
            ]
        )

    async def _log(self, request: web.Request) -> web.Response:
        found, after = self.log(), int(request.query.get("after", "0"))
        told = {**found, "calls": found["calls"][after:], "next": len(found["calls"])}
        return web.Response(text=json.dumps(told, default=str), content_type="application/json")


async def _main(name: str, server: Any, rig: Any, log: Log, more: Doors) -> None:
    switches = [
        one.name
        for one in dataclasses.fields(server.rules)
        if isinstance(getattr(server.rules, one.name), bool)
    ]
    parser = argparse.ArgumentParser(
        prog=f"python -m tests.platforms.{name}",
        description=HELP,
        formatter_class=argparse.RawTextHelpFormatter,
    )
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument(
        "--rule", action="append", default=[], choices=switches, help="switch one rule on"
    )
    parser.add_argument(
        "--without", action="append", default=[], choices=switches, help="switch one rule off"
    )
    wanted = parser.parse_args()
    for rule in (*wanted.rule, *wanted.without):
        setattr(server.rules, rule, rule in wanted.rule)
    server.door.more = Control(server, rig, log, more).add
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    async with server.running(port=wanted.port):
        control = f"http://127.0.0.1:{server.port}/control"
        print(
            json.dumps({"port": server.port, "settings": rig.settings(), "control": control}),
            flush=True,
        )
        await stop.wait()


def run(name: str, build: Callable[[], tuple[Any, Any, Log, Doors]]) -> None:
    """``build``: server, rig, log (with ``calls``) and doors of its own, made inside the loop."""

    async def main() -> None:
        await _main(name, *build())

    asyncio.run(main())
