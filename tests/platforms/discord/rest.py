"""The REST API of the loopback Discord: what it takes, what it refuses."""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Awaitable, Callable
from typing import Any

from aiohttp import web

from tests.platforms.discord.rules import Refusal, Rules, invalid
from tests.platforms.discord.world import APPLICATION, BOT, PEOPLE, Body, Channel, World

Result = Any
Handler = Callable[["Call"], Awaitable[Result]]
MIB = 1 << 20


class Call:
    """One request: its route's parameters, query, JSON and files."""

    def __init__(
        self, request: web.Request, body: Body, files: dict[int, tuple[str, bytes]]
    ) -> None:
        self.path = request.match_info
        self.query = request.query
        self.body = body
        self.files = files


async def decoded(request: web.Request) -> Call:
    if not request.content_type.startswith("multipart/"):
        try:
            found = json.loads(await request.text() or "{}")
        except ValueError:
            raise Refusal(400, 50109, "The request body contains invalid JSON.") from None
        return Call(request, found if isinstance(found, dict) else {"list": found}, {})
    body: Body = {}
    files: dict[int, tuple[str, bytes]] = {}
    for name, value in (await request.post()).items():
        if isinstance(value, web.FileField):
            found = re.fullmatch(r"files\[(\d+)\]", name)
            files[int(found.group(1)) if found else len(files)] = (
                value.filename,
                value.file.read(),
            )
        elif name == "payload_json":
            body = json.loads(value if isinstance(value, str | bytes | bytearray) else str(value))
    return Call(request, body, files)


class Rest:
    def __init__(self, world: World, rules: Rules) -> None:
        self.world = world
        self.rules = rules
        self.routes: list[tuple[str, str, Handler]] = [
            ("GET", "/users/@me", self.me),
            ("GET", "/applications/@me", self.application),
            ("GET", "/oauth2/applications/@me", self.application),
            ("POST", "/users/@me/channels", self.open_direct),
            ("GET", "/channels/{channel}", self.channel),
            ("PATCH", "/channels/{channel}", self.wake),
            ("GET", "/channels/{channel}/messages", self.history),
            ("POST", "/channels/{channel}/messages", self.create),
            ("GET", "/channels/{channel}/messages/{message}", self.message),
            ("PATCH", "/channels/{channel}/messages/{message}", self.edit),
            ("DELETE", "/channels/{channel}/messages/{message}", self.delete),
            ("POST", "/channels/{channel}/typing", self.typing),
            ("GET", "/channels/{channel}/threads/archived/public", self.archived),
            ("POST", "/interactions/{id}/{token}/callback", self.callback),
            ("POST", "/webhooks/{application}/{token}", self.followup),
            ("GET", "/applications/{application}/commands", self.commands),
            ("PUT", "/applications/{application}/commands", self.overwrite),
        ]

    async def me(self, call: Call) -> Result:
        return BOT

    async def application(self, call: Call) -> Result:
        return {
            "id": APPLICATION,
            "name": "ohmo",
            "flags": 0,
            "description": "",
            "bot_public": False,
        }

    # places

    def _channel(self, call: Call) -> Channel:
        channel = self.world.channels.get(call.path["channel"])
        if channel is None:
            raise Refusal(404, 10003, "Unknown Channel")
        if channel.hidden:
            raise Refusal(403, 50001, "Missing Access")
        return channel

    async def open_direct(self, call: Call) -> Result:
        number = call.body.get("recipient_id")
        found = next(
            (
                channel
                for channel in self.world.channels.values()
                if channel.type == 1 and channel.person == number
            ),
            None,
        )
        if found is None:
            raise Refusal(400, 50033, "Invalid Recipient(s)")
        return self.world.object(found)

    async def channel(self, call: Call) -> Result:
        return self.world.object(self._channel(call))

    async def wake(self, call: Call) -> Result:
        channel = self._channel(call)
        channel.asleep = bool(call.body.get("archived", channel.asleep))
        return self.world.object(channel)

    async def archived(self, call: Call) -> Result:
        parent = self._channel(call)
        threads = [
            channel
            for channel in self.world.channels.values()
            if channel.parent == parent.id and channel.asleep
        ]
        return {
            "threads": [self.world.object(thread) for thread in threads],
            "members": [],
            "has_more": False,
        }

    async def typing(self, call: Call) -> Result:
        self._channel(call).typing.append(self.world.clock())
        return None

    # messages

    async def history(self, call: Call) -> Result:
        channel = self._channel(call)
        limit = int(call.query.get("limit", "50"))
        if self.rules.history and not 1 <= limit <= 100:
            raise invalid("limit", "int value should be between 1 and 100.")
        rows = sorted(channel.messages.values(), key=lambda row: int(row["id"]))
        if "after" in call.query:
            rows = [row for row in rows if int(row["id"]) > int(call.query["after"])]
            rows = rows[:limit] if self.rules.history else rows[-limit:]
        elif "before" in call.query:
            rows = [row for row in rows if int(row["id"]) < int(call.query["before"])][-limit:]
        else:
            rows = rows[-limit:]
        return rows[::-1]

    def _message(self, call: Call, channel: Channel) -> Body:
        try:
            return channel.messages[call.path["message"]]
        except KeyError:
            raise Refusal(404, 10008, "Unknown Message") from None

    async def message(self, call: Call) -> Result:
        row = self._message(call, self._channel(call))
        for file in row["attachments"]:  # every look at a message signs its files anew
            file["url"] = self.world.address(file["id"])
        return row

    async def create(self, call: Call) -> Result:
        channel, body = self._channel(call), call.body
        if channel.type == 15:
            raise Refusal(400, 50008, "Cannot send messages in a non-text channel")
        nonce = body.get("nonce")
        if self.rules.nonce and nonce is not None and len(str(nonce)) > 25:
            raise invalid("nonce", "Must be 25 or fewer in length.")
        if self.rules.nonce and nonce is not None and body.get("enforce_nonce"):
            at, number = self.world.nonces.get((channel.id, str(nonce)), (0.0, ""))
            if self.world.clock() - at < self.rules.nonce_window and number in channel.messages:
                return channel.messages[number]
        self._check(body, call.files, empty_allowed=bool(call.files))
        more: Body = {
            "components": body.get("components", []),
            "flags": body.get("flags", 0),
            "embeds": body.get("embeds", []),
        }
        reference = body.get("message_reference")
        if reference is not None:
            there = channel.messages.get(str(reference.get("message_id")))
            if there is None and reference.get("fail_if_not_exists", True):
                raise invalid("message_reference", "Unknown message")
            if there is not None:
                more |= {
                    "type": 19,
                    "message_reference": {"channel_id": channel.id, **reference},
                    "referenced_message": there,
                }
                if (body.get("allowed_mentions") or {}).get("replied_user", True):
                    self.world.pings.append(there["author"]["username"])
        if call.files:
            more["attachments"] = [
                self.world.store(*call.files[index]) for index in sorted(call.files)
            ]
        content = str(body.get("content") or "").strip()
        self._ring(content, body.get("allowed_mentions"), channel)
        if nonce is not None and self.rules.echo:
            more["nonce"] = nonce
        row = self.world.add(channel, BOT, content, **more)
        if nonce is not None:
            self.world.nonces[channel.id, str(nonce)] = (self.world.clock(), row["id"])
            row = row | {"nonce": nonce}
        return row

    async def edit(self, call: Call) -> Result:
        channel = self._channel(call)
        row, body = self._message(call, channel), call.body
        if self.rules.own and row["author"]["id"] != BOT["id"]:
            raise Refusal(403, 50005, "Cannot edit a message authored by another user")
        if self.rules.asleep and channel.asleep:
            raise Refusal(400, 50083, "Thread is archived")
        changed = {
            name: body[name]
            for name in ("content", "components", "flags", "embeds")
            if name in body
        }
        self._check(row | changed, {}, empty_allowed=bool(row["attachments"]))
        row |= changed
        if "content" in body:
            row["content"] = str(body["content"] or "").strip()
            self.world.edits(row["id"], row["content"], channel.id)
        return row

    async def delete(self, call: Call) -> Result:
        channel = self._channel(call)
        row = self._message(call, channel)
        self.world.deletes([row["id"]], channel.id)

    def _check(
        self, body: Body, files: dict[int, tuple[str, bytes]], *, empty_allowed: bool
    ) -> None:
        content = str(body.get("content") or "")
        if self.rules.length:
            if len(content.encode("utf-16-le", "surrogatepass")) // 2 > 2000:
                raise invalid("content", "Must be 2000 or fewer in length.")
            _check_embeds(body.get("embeds") or [])
            if (
                not empty_allowed
                and not body.get("embeds")
                and not any(unicodedata.category(one)[0] not in "ZC" for one in content)
            ):
                raise Refusal(400, 50006, "Cannot send an empty message")
        if self.rules.components:
            _check_components(body.get("components") or [])
        if self.rules.files:
            if len(files) > 10:
                raise invalid("attachments", "Must be 10 or fewer in length.")
            if any(len(content) > 10 * MIB for _, content in files.values()):
                raise Refusal(413, 40005, "Request entity too large")

    def _ring(self, content: str, allowed: Body | None, channel: Channel) -> None:
        """Allowed mentions object: without it whatever the text says rings; with it only what it
        lets through."""
        parse = {"everyone", "users", "roles"} if allowed is None else set(allowed.get("parse", []))
        if re.search(r"@(everyone|here)\b", content) and "everyone" in parse:
            self.world.pings.append("everyone")
        for person in re.findall(r"<@!?(\d+)>", content):
            if "users" in parse or person in (allowed or {}).get("users", []):
                self.world.pings.append(
                    next((name for name, number in PEOPLE.items() if number == person), person)
                )

    # interactions and commands

    async def callback(self, call: Call) -> Result:
        found = self.world.interactions.get(call.path["id"])
        if found is None or found.body["token"] != call.path["token"]:
            raise Refusal(404, 10062, "Unknown interaction")
        if self.rules.interactions:
            if self.world.clock() - found.at > self.rules.to_answer:
                raise Refusal(404, 10062, "Unknown interaction")
            if found.answers:
                raise Refusal(400, 40060, "Interaction has already been acknowledged.")
        found.answers.append(call.body)
        return None

    async def followup(self, call: Call) -> Result:
        found = next(
            (
                one
                for one in self.world.interactions.values()
                if one.body["token"] == call.path["token"]
            ),
            None,
        )
        if (
            found is None
            or call.path["application"] != APPLICATION
            or (self.rules.interactions and not found.answers)
        ):
            raise Refusal(404, 10015, "Unknown Webhook")
        self._check(call.body, {}, empty_allowed=False)
        found.followups.append(call.body)
        return {"id": self.world.snowflake(), "content": call.body.get("content")}

    async def commands(self, call: Call) -> Result:
        return self.world.commands

    async def overwrite(self, call: Call) -> Result:
        found: list[Body] = call.body["list"]
        if self.rules.commands:
            if len(found) > 100:
                raise Refusal(400, 30032, "Maximum number of application commands reached (100)")
            for index, one in enumerate(found):
                if (
                    re.fullmatch(r"[-_'\w]{1,32}", one.get("name", "")) is None
                    or one["name"] != one["name"].lower()
                ):
                    raise invalid(f"{index}.name", "Command name is invalid")
                if not 1 <= len(one.get("description", "")) <= 100:
                    raise invalid(f"{index}.description", "Must be between 1 and 100 in length.")
        self.world.commands = [
            {**one, "id": self.world.snowflake(), "application_id": APPLICATION, "version": "1"}
            for one in found
        ]
        return self.world.commands


def _check_embeds(embeds: list[Body]) -> None:
    """Embed limits: ten of them, 4096 characters of description, 256 of title, 25 fields, 6000 in
    all."""
    if len(embeds) > 10:
        raise invalid("embeds", "Must be 10 or fewer in length.")
    total = 0
    for embed in embeds:
        fields = embed.get("fields") or []
        texts = {"title": 256, "description": 4096}
        for name, most in texts.items():
            if len(str(embed.get(name) or "").encode("utf-16-le", "surrogatepass")) // 2 > most:
                raise invalid(f"embeds.{name}", f"Must be {most} or fewer in length.")
        if len(fields) > 25:
            raise invalid("embeds.fields", "Must be 25 or fewer in length.")
        total += sum(len(str(embed.get(name) or "")) for name in texts)
        total += sum(len(str(field["name"])) + len(str(field["value"])) for field in fields)
    if total > 6000:
        raise invalid("embeds", "Embed size exceeds maximum size of 6000")


def _check_components(rows: list[Body]) -> None:
    if len(rows) > 5:
        raise invalid("components", "Must be 5 or fewer in length.")
    seen: set[str] = set()
    for row in rows:
        if not 1 <= len(row["components"]) <= 5:
            raise invalid("components.components", "Must be between 1 and 5 in length.")
        for button in row["components"]:
            if not 1 <= len(button["label"]) <= 80:
                raise invalid("components.label", "Must be between 1 and 80 in length.")
            if not 1 <= len(button["custom_id"]) <= 100:
                raise invalid("components.custom_id", "Must be between 1 and 100 in length.")
            if button["custom_id"] in seen:
                raise invalid("components.custom_id", "Component custom id cannot be duplicated")
            seen.add(button["custom_id"])
