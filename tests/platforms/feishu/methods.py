"""The methods of the open API, by verb and path."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any
from urllib.parse import unquote

from aiohttp import web

from tests.platforms.feishu.rules import Refusal, Rules
from tests.platforms.feishu.world import APP, BOT, Row, World

Found = Row | web.StreamResponse


class Methods:
    world: World
    rules: Rules

    def method(self, verb: str, path: str, body: Row, form: Row) -> Found:
        """What stands beside ``code`` and ``msg``. Raises Refusal."""
        for known, pattern, name in _ROUTES:
            found = re.fullmatch(pattern, path) if known == verb else None
            if found is not None:
                parts = {key: unquote(value) for key, value in found.groupdict().items()}
                return getattr(self, name)(body | parts, form)
        raise Refusal(99991404, f"no such method: {verb} {path}", 404)

    def _bot(self, body: Row, form: Row) -> Found:
        return {"bot": {"activate_status": 2, "app_name": "ohmo", "open_id": BOT}}

    def _person(self, body: Row, form: Row) -> Found:
        name = self.world.names.get(body["id"])
        if name is None:
            raise Refusal(41050, "no user authority")
        return {"data": {"user": {"open_id": body["id"], "name": name}}}

    def _chats(self, body: Row, form: Row) -> Found:
        chats = [
            chat
            for chat in self.world.rows
            if chat not in self.world.private or not self.rules.groups_only
        ]
        return {
            "data": {
                "items": [{"chat_id": chat, "name": chat} for chat in chats],
                "has_more": False,
                "page_token": "",
            }
        }

    def _create(self, body: Row, form: Row) -> Found:
        chat = body.get("receive_id", "")
        if body.get("receive_id_type") == "open_id":
            chat = next((one for one, person in self.world.private.items() if person == chat), "")
        elif body.get("receive_id_type") != "chat_id":
            raise Refusal(230001, "receive_id_type")
        return self._sent(
            self.world.post(chat, body["msg_type"], body["content"], body.get("uuid", ""))
        )

    def _reply(self, body: Row, form: Row) -> Found:
        chat = self.world.find(body["id"])["chat_id"]
        thread = bool(body.get("reply_in_thread"))
        return self._sent(
            self.world.post(
                chat,
                body["msg_type"],
                body["content"],
                body.get("uuid", ""),
                body["id"],
                thread=thread,
            )
        )

    def _sent(self, row: Row) -> Row:
        return {"data": self.world.shown(row)}

    def _patch(self, body: Row, form: Row) -> Found:
        self.world.patch(body["id"], body["content"])
        return {"data": {}}

    def _recall(self, body: Row, form: Row) -> Found:
        self.world.recall(body["id"])
        return {"data": {}}

    def _history(self, body: Row, form: Row) -> Found:
        return {
            "data": self.world.history(
                body.get("container_id_type", ""), body.get("container_id", ""), body
            )
        }

    def _message(self, body: Row, form: Row) -> Found:
        row = self.world.find(body["id"])
        inside = [
            {**one, "upper_message_id": row["message_id"]} for one in row.get("forwarded", ())
        ]
        return {"data": {"items": [self.world.shown(row), *inside]}}

    def _resource(self, body: Row, form: Row) -> Found:
        name, content = self.world.resource(body["id"], body["key"], body.get("type", ""))
        kind = "image/png" if name.endswith(".png") else "application/octet-stream"
        return web.Response(
            body=content,
            content_type=kind,
            headers={"Content-Disposition": f'attachment; filename="{name}"'},
        )

    def _image(self, body: Row, form: Row) -> Found:
        if body.get("image_type") != "message":
            raise Refusal(234001, "image_type")
        return {
            "data": {
                "image_key": self.world.keep(
                    "image", form["image"].filename, form["image"].file.read()
                )
            }
        }

    def _file(self, body: Row, form: Row) -> Found:
        types = "opus mp4 pdf doc xls ppt stream".split()
        if body.get("file_type") not in types or not body.get("file_name"):
            raise Refusal(234001, "file_type")
        return {
            "data": {
                "file_key": self.world.keep("file", body["file_name"], form["file"].file.read())
            }
        }

    def _react(self, body: Row, form: Row) -> Found:
        emoji = body.get("reaction_type", {}).get("emoji_type")
        return {
            "data": {
                "reaction_id": self.world.react(body["id"], emoji),
                "reaction_type": {"emoji_type": emoji},
            }
        }

    def _unreact(self, body: Row, form: Row) -> Found:
        if self.world.reactions.pop(body["reaction"], None) is None:
            raise Refusal(231011, "reaction not exist")
        return {"data": {}}

    def _reactions(self, body: Row, form: Row) -> Found:
        """List message reactions."""
        self.world.find(body["id"])
        items = [
            {
                "reaction_id": name,
                "operator": {"operator_id": APP, "operator_type": "app"},
                "action_time": "1",
                "reaction_type": {"emoji_type": row["emoji_type"]},
            }
            for name, row in self.world.reactions.items()
            if row["message_id"] == body["id"]
            and body.get("reaction_type") in (None, row["emoji_type"])
        ]
        return {"data": {"items": items, "has_more": False, "page_token": ""}}

    def _entity(self, body: Row, form: Row) -> Found:
        if body.get("type") != "card_json":
            raise Refusal(10002, "type")
        return {"data": {"card_id": self.world.entity(json.loads(body["data"]))}}

    def _stream(self, body: Row, form: Row) -> Found:
        self.world.stream(body["id"], body["element"], body["content"], body.get("sequence", 0))
        return {"data": {}}

    def _settings(self, body: Row, form: Row) -> Found:
        self.world.settings(body["id"], body["settings"], body.get("sequence", 0))
        return {"data": {}}

    def _update(self, body: Row, form: Row) -> Found:
        if body["card"].get("type") != "card_json":
            raise Refusal(10002, "type")
        self.world.update(body["id"], body["card"]["data"], body.get("sequence", 0))
        return {"data": {}}

    def _convert(self, body: Row, form: Row) -> Found:
        row = self.world.find(body.get("message_id"))
        if "card_id" not in row:
            raise Refusal(300001, "the message is no card")
        return {"data": {"card_id": row["card_id"]}}


_ID = r"(?P<id>[^/]+)"
_ROUTES: tuple[tuple[str, str, str], ...] = (
    ("GET", "bot/v3/info", "_bot"),
    ("GET", f"contact/v3/users/{_ID}", "_person"),
    ("GET", "im/v1/chats", "_chats"),
    ("POST", "im/v1/messages", "_create"),
    ("POST", f"im/v1/messages/{_ID}/reply", "_reply"),
    ("PATCH", f"im/v1/messages/{_ID}", "_patch"),
    ("DELETE", f"im/v1/messages/{_ID}", "_recall"),
    ("GET", "im/v1/messages", "_history"),
    ("GET", f"im/v1/messages/{_ID}", "_message"),
    ("GET", f"im/v1/messages/{_ID}/resources/(?P<key>[^/]+)", "_resource"),
    ("POST", "im/v1/images", "_image"),
    ("POST", "im/v1/files", "_file"),
    ("POST", f"im/v1/messages/{_ID}/reactions", "_react"),
    ("GET", f"im/v1/messages/{_ID}/reactions", "_reactions"),
    ("DELETE", f"im/v1/messages/{_ID}/reactions/(?P<reaction>[^/]+)", "_unreact"),
    ("POST", "cardkit/v1/cards", "_entity"),
    ("POST", "cardkit/v1/cards/id_convert", "_convert"),
    ("PUT", f"cardkit/v1/cards/{_ID}/elements/(?P<element>[^/]+)/content", "_stream"),
    ("PATCH", f"cardkit/v1/cards/{_ID}/settings", "_settings"),
    ("PUT", f"cardkit/v1/cards/{_ID}", "_update"),
)
Handler = Callable[[Row, Row], Any]
