"""The control endpoint of the server when it runs as a process of its own: people speak, faults come, the history is read."""

from __future__ import annotations

import json
from dataclasses import asdict, fields
from typing import Any

from aiohttp import web

from tests.platforms.telegram.server import Faults, Server
from tests.platforms.telegram.world import BOT, Body

HELP = """POST /control/says      {text, chat = "dm:ada" | "dm:N" | "group" | N, person?, topic?, mention = true, count = 1}  -> {messages}
POST /control/edits     {message, text, chat}
POST /control/presses   {message, choice, chat, person}
POST /control/redeliver {message, chat}
POST /control/update    any update body without update_id (malformed ones too)
POST /control/faults    {lose, reject, limit, garbage, fail, latency, conflicts, revoked}
POST /control/cut       {}
GET  /control/visible?chat=dm:ada    messages of a chat, newest text
GET  /control/history?after=N        {calls: [...], next}: every call but polls that were answered
GET  /control/state                  {pending, chats, answered_presses}
"""


def add(app: web.Application, server: Server) -> None:
    control = _Control(server)
    app.router.add_get("/control", _help)
    for name in ("says", "edits", "presses", "redeliver", "update", "faults", "cut"):
        app.router.add_post(f"/control/{name}", getattr(control, name))
    for name in ("visible", "history", "state"):
        app.router.add_get(f"/control/{name}", getattr(control, name))


async def _help(_: web.Request) -> web.Response:
    return web.Response(text=HELP)


def shown(body: Body, server: Server, chat: str | int) -> Body:
    place = server.world.chat(chat)
    number = body["message_id"]
    rows = body.get("reply_markup", {}).get("inline_keyboard", [])
    topic = body.get("message_thread_id") if body.get("is_topic_message") else None
    return {
        "id": str(number),
        "text": body.get("text") or body.get("caption") or "",
        "by_bot": body["from"]["id"] == BOT["id"],
        "topic": str(topic) if topic is not None else None,
        "edits": place.edits.get(number, 0),
        "choices": [button["callback_data"] for row in rows for button in row if "callback_data" in button],
        "files": [place.files[number]] if number in place.files else [],
    }


class _Control:
    def __init__(self, server: Server) -> None:
        self._server = server

    async def says(self, request: web.Request) -> web.Response:
        body: dict[str, Any] = await request.json()
        count = body.pop("count", 1)
        chat = body.pop("chat", "dm:ada")
        text = body.pop("text")
        made = [self._server.world.says(text.replace("{n}", str(index)), chat, **body) for index in range(count)]
        return web.json_response({"messages": [message["message_id"] for message in made]})

    async def edits(self, request: web.Request) -> web.Response:
        body = await request.json()
        self._server.world.edits(int(body["message"]), body["text"], body.get("chat", "dm:ada"))
        return web.json_response({})

    async def presses(self, request: web.Request) -> web.Response:
        body = await request.json()
        try:
            number = self._server.world.press(int(body["message"]), body["choice"], body.get("chat", "dm:ada"), body.get("person", "ada"))
        except LookupError as error:
            return web.json_response({"error": str(error)}, status=404)
        return web.json_response({"press": number})

    async def redeliver(self, request: web.Request) -> web.Response:
        body = await request.json()
        self._server.world.redeliver(int(body["message"]), body.get("chat", "dm:ada"))
        return web.json_response({})

    async def update(self, request: web.Request) -> web.Response:
        return web.json_response({"update_id": self._server.world.enqueue_raw(await request.json())})

    async def faults(self, request: web.Request) -> web.Response:
        for name, value in (await request.json()).items():
            if name not in {one.name for one in fields(Faults)}:
                return web.json_response({"error": f"no fault {name!r}"}, status=400)
            setattr(self._server.faults, name, value)
        return web.json_response(asdict(self._server.faults))

    async def cut(self, _: web.Request) -> web.Response:
        self._server.cut()
        return web.json_response({})

    async def visible(self, request: web.Request) -> web.Response:
        chat = request.query.get("chat", "dm:ada")
        return web.json_response([shown(body, self._server, chat) for body in self._server.world.chat(chat).messages.values()])

    async def history(self, request: web.Request) -> web.Response:
        after = int(request.query.get("after", "0"))
        calls = [asdict(call) for call in self._server.calls[after:]]
        return web.Response(text=json.dumps({"calls": calls, "next": after + len(calls)}, default=str), content_type="application/json")

    async def state(self, _: web.Request) -> web.Response:
        world = self._server.world
        return web.json_response({"pending": len(world.queue), "chats": list(world.chats), "answered_presses": world.presses})
