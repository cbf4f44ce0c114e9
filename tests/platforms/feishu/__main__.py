"""``python -m tests.platforms.feishu --port 0``: the loopback tenant as a process; prints one JSON line, then obeys POST /control/NAME.

Control doors take JSON: says {text, chat, person, topic, mention} -> {message}; deletes {message}; presses {message, choice}; redeliver {message};
cut {}; down {seconds}; lose {}; limit {seconds}; reject {}; revoke {revoked}. GET /control/visible?chat=NAME and GET /control/log read the history."""

from __future__ import annotations

import argparse
import asyncio
import dataclasses
import json

from aiohttp import web

from tests.platforms.feishu.rig import FeishuRig
from tests.platforms.feishu.server import Server


class Process(Server):
    def routes(self, app: web.Application) -> None:
        app.router.add_post("/control/{name}", self._control)
        app.router.add_get("/control/visible", self._visible)
        app.router.add_get("/control/log", self._log)

    async def _control(self, request: web.Request) -> web.Response:
        rig, name = FeishuRig(self), request.match_info["name"]
        body = await request.json() if request.can_read_body else {}
        match name:
            case "says":
                return web.json_response({"message": await rig.says(**body)})
            case "deletes" | "presses" | "redeliver":
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
            case _:
                return web.json_response({"error": f"unknown door {name}"}, status=404)
        return web.json_response({})

    async def _visible(self, request: web.Request) -> web.Response:
        return web.json_response([dataclasses.asdict(row) for row in await FeishuRig(self).visible(request.query.get("chat", "dm:ada"))])

    async def _log(self, request: web.Request) -> web.Response:
        calls = [f"{verb} {path}" for verb, path, _ in self.kept.calls]
        return web.json_response({"calls": calls, "answers": self.kept.answers, "sent": self.kept.sent, "dropped": self.kept.dropped})


async def main() -> None:
    arguments = argparse.ArgumentParser(prog="tests.platforms.feishu")
    arguments.add_argument("--port", type=int, default=0)
    async with Process().running(arguments.parse_args().port) as server:
        print(json.dumps({"port": server.port, "settings": FeishuRig(server).settings()}), flush=True)
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main())
