"""The loopback Bot API as a process: ``python -m tests.platforms.telegram --port 0`` prints one line of JSON and serves until its end."""

from __future__ import annotations

import argparse
import asyncio
import json
import signal
from dataclasses import fields

from tests.platforms.telegram import control
from tests.platforms.telegram.rules import Rules
from tests.platforms.telegram.server import Server
from tests.platforms.telegram.world import TOKEN


async def main() -> None:
    rules = Rules()
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--token", default=TOKEN)
    parser.add_argument("--pace", action="store_true", help="keep Telegram's rate limits")
    parser.add_argument("--without", action="append", default=[], choices=[one.name for one in fields(Rules)], help="switch one rule off")
    arguments = parser.parse_args()
    rules.pace = arguments.pace
    for name in arguments.without:
        setattr(rules, name, False)
    server = Server(rules=rules, token=arguments.token, port=arguments.port)
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    async with server.running(lambda app: control.add(app, server)):
        print(
            json.dumps({"port": server.port, "api_url": server.url, "token": server.token, "control": f"{server.url}/control"}), flush=True
        )
        await stop.wait()


asyncio.run(main())
