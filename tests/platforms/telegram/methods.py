"""The Bot API's methods, each with Telegram's own refusals (Telegram Bot API, one section per
method)."""

from __future__ import annotations

import asyncio
import json
import re
from typing import Any

from tests.platforms.telegram import entities
from tests.platforms.telegram.rules import Refusal, bad
from tests.platforms.telegram.world import BOT, Body, Chat, World

SENDING = frozenset(
    "sendMessage sendPhoto sendDocument sendMediaGroup editMessageText deleteMessage".split()
)
NOT_MODIFIED = (
    "message is not modified: specified new message content and reply markup are exactly the same"
    " as a current content and reply markup of the message"
)
CONFLICT = Refusal(
    409,
    "Conflict: terminated by other getUpdates request; make sure that only one bot instance is"
    " running",
)


class Methods:
    """Each public coroutine is one method of the Bot API: parameters in, ``result`` out."""

    def __init__(self, world: World) -> None:
        self.world = world
        self._poll: asyncio.Event | None = None  # set: the poll that waits must end

    async def getMe(self, _: Body) -> Body:
        return {
            **BOT,
            "can_join_groups": True,
            "can_read_all_group_messages": False,
            "supports_inline_queries": False,
        }

    async def getUpdates(self, call: Body) -> list[Body]:
        """Long polling. Only one poll may wait; a second one ends the first."""
        world = self.world
        if call.get("allowed_updates"):
            world.wanted = tuple(call["allowed_updates"])
        mine = asyncio.Event()
        if self._poll is not None and world.rules.one_poller:
            self._poll.set()
        self._poll = mine
        offset, limit = _int(call.get("offset")), _int(call.get("limit")) or 100
        deadline = asyncio.get_running_loop().time() + (_int(call.get("timeout")) or 0)
        try:
            while (
                not (found := world.pending(offset, limit))
                and (left := deadline - asyncio.get_running_loop().time()) > 0
            ):
                world.arrived.clear()
                waits = [
                    asyncio.ensure_future(mine.wait()),
                    asyncio.ensure_future(world.arrived.wait()),
                ]
                try:
                    await asyncio.wait(waits, timeout=left, return_when=asyncio.FIRST_COMPLETED)
                finally:
                    for wait in waits:
                        wait.cancel()
                if mine.is_set():
                    raise CONFLICT
            return found
        finally:
            if self._poll is mine:
                self._poll = None

    @property
    def polling(self) -> bool:
        return self._poll is not None

    def interrupt(self) -> None:
        """Another instance polls with the same token right now."""
        if self._poll is not None:
            self._poll.set()

    async def sendMessage(self, call: Body) -> Body:
        chat = self.world.known(call.get("chat_id"))
        text, found = self._text(call, "text")
        return self._show(chat, call, {"text": text, **({"entities": found} if found else {})})

    async def sendPhoto(self, call: Body) -> Body:
        return self._show_file(call, "photo", 10)

    async def sendDocument(self, call: Body) -> Body:
        return self._show_file(call, "document", 50)

    async def sendMediaGroup(self, call: Body) -> list[Body]:
        """Several messages with one media_group_id, shown together or not at all."""
        chat, media = self.world.known(call.get("chat_id")), json.loads(call.get("media") or "null")
        if not isinstance(media, list) or not media:
            raise bad("there are no messages to send")
        if self.world.rules.album_size and not 2 <= len(media) <= 10:
            raise bad("Group send failed")
        kinds = {item.get("type") for item in media}
        if self.world.rules.album_kinds and kinds - {"photo", "video"} and len(kinds) > 1:
            raise bad("document can't be mixed with other media types")
        rest = {
            name: value
            for name, value in call.items()
            if name != "media" and not isinstance(value, tuple)
        }
        if isinstance(reply := rest.get("reply_parameters"), str):
            rest["reply_parameters"] = json.loads(reply)
        items: list[Body] = []
        for item in media:
            name = str(item.get("media")).removeprefix("attach://")
            if not isinstance(call.get(name), tuple):
                raise bad("can't parse media: wrong file attach name specified")
            if (
                self.world.rules.files
                and len(call[name][1]) > (10 if item["type"] == "photo" else 50) << 20
            ):
                raise Refusal(413, "Request Entity Too Large")
            caption = {key: item[key] for key in ("caption", "parse_mode") if key in item}
            if caption:
                self._text(caption, "caption", 1024)
            items.append({**rest, **caption, item["type"]: call[name], "kind": item["type"]})
        album = str(chat.id) + "-" + str(len(chat.files))
        shown = [self._show_file(item, item["kind"], 50) for item in items]
        for message in shown:
            chat.messages[message["message_id"]]["media_group_id"] = album
        return shown

    def _show_file(self, call: Body, kind: str, megabytes: int) -> Body:
        chat = self.world.known(call.get("chat_id"))
        if not isinstance(call.get(kind), tuple):
            raise bad("there is no document in the request")
        name, content = call[kind]
        if self.world.rules.files and len(content) > megabytes << 20:
            raise Refusal(413, "Request Entity Too Large")
        file: Any = self.world.store(name, content)
        fields: Body = {
            kind: (
                [{**file, "width": 1, "height": 1}]
                if kind == "photo"
                else {**file, "file_name": name}
            )
        }
        if call.get("caption"):
            text, found = self._text(call, "caption", 1024)
            fields |= {"caption": text, "caption_entities": found}
        message = self._show(chat, call, fields)
        chat.files[message["message_id"]] = name
        return message

    def _show(self, chat: Chat, call: Body, fields: Body) -> Body:
        rules = self.world.rules
        topic = _int(call.get("message_thread_id"))
        if topic is not None:
            if rules.topics and (topic == 1 or topic not in chat.topics):
                raise bad("message thread not found")
            fields |= {"message_thread_id": topic, "is_topic_message": True}
        reply = call.get("reply_parameters") or {}
        if reply:
            known = chat.messages.get(int(reply["message_id"]))
            if known is None and not reply.get("allow_sending_without_reply"):
                raise bad("message to be replied not found")
            if known is not None:
                fields["reply_to_message"] = {
                    key: value for key, value in known.items() if key != "reply_to_message"
                }
        markup = self._markup(call)
        if markup:
            fields["reply_markup"] = markup
        self.world.check_pace(chat)
        chat.draft = None
        return self.world.add(chat, BOT, fields)

    def _text(self, call: Body, field: str, most: int = 4096) -> tuple[str, list[Body]]:
        source = call.get(field)
        if not isinstance(source, str):
            raise bad(f"message {field} is empty")
        try:
            source.encode()
        except UnicodeEncodeError:
            raise bad("strings must be encoded in UTF-8") from None
        mode = str(call.get("parse_mode") or "")
        if mode and mode.lower() != "html":
            raise bad(f"this server reads HTML only, not {mode}")
        text, found = (
            entities.parse(source, strict=self.world.rules.entities)
            if mode
            else (source.strip(), [])
        )
        if not text.strip("\x00"):
            raise bad("message text is empty")
        if self.world.rules.length and entities.units(text) > most:
            raise bad("message is too long" if field == "text" else "message caption is too long")
        return text, found

    def _markup(self, call: Body) -> Body:
        markup = call.get("reply_markup") or {}
        for row in markup.get("inline_keyboard", []):
            for button in row:
                if not str(button.get("text", "")).strip():
                    raise bad(
                        "can't parse inline keyboard button: Text buttons are unallowed in the"
                        " inline keyboard"
                    )
                if (
                    self.world.rules.callback
                    and "callback_data" in button
                    and not 1 <= len(button["callback_data"].encode()) <= 64
                ):
                    raise bad("BUTTON_DATA_INVALID")
                if button.get("style") not in {None, "primary", "success", "danger"}:
                    raise bad("can't parse inline keyboard button: unknown style")
        return markup

    async def editMessageText(self, call: Body) -> Body:
        chat = self.world.known(call.get("chat_id"))
        message = chat.messages.get(_int(call.get("message_id")) or 0)
        if message is None:
            raise bad("message to edit not found")
        if message["from"]["id"] != BOT["id"] or "text" not in message:
            raise bad("message can't be edited")
        text, found = self._text(call, "text")
        markup = self._markup(call)
        old = (message["text"], message.get("entities", []), message.get("reply_markup", {}))
        if self.world.rules.not_modified and old == (text, found, markup):
            raise bad(NOT_MODIFIED)
        self.world.check_pace(chat)
        for key in ("entities", "reply_markup"):
            message.pop(key, None)
        message |= {"text": text, "edit_date": int(self.world.clock())}
        message |= ({"entities": found} if found else {}) | (
            {"reply_markup": markup} if markup else {}
        )
        chat.edits[message["message_id"]] = chat.edits.get(message["message_id"], 0) + 1
        return message

    async def deleteMessage(self, call: Body) -> bool:
        chat = self.world.known(call.get("chat_id"))
        number = _int(call.get("message_id")) or 0
        if number not in chat.messages:
            raise bad("message to delete not found")
        if chat.messages[number]["from"]["id"] != BOT["id"] and not chat.private:
            raise bad("message can't be deleted")
        del chat.messages[number]
        return True

    async def sendMessageDraft(self, call: Body) -> bool:
        chat = self.world.known(call.get("chat_id"))
        if self.world.rules.drafts and not chat.private:
            raise bad("message drafts can be sent to private chats only")
        if self.world.rules.drafts and not _int(call.get("draft_id")):
            raise bad("draft_id must be non-zero")
        text, _ = self._text(call, "text") if call.get("text") else ("", [])
        chat.draft = {"draft_id": call["draft_id"], "text": text}
        chat.drafts.append(chat.draft)
        return True

    async def sendChatAction(self, call: Body) -> bool:
        chat = self.world.known(call.get("chat_id"))
        if call.get("action") not in {"typing", "upload_photo", "upload_document"}:
            raise bad("wrong parameter action in request")
        chat.typing.append(self.world.clock())
        return True

    async def answerCallbackQuery(self, call: Body) -> bool:
        number = str(call.get("callback_query_id"))
        if self.world.presses.get(number, "") is not None:
            raise bad("query is too old and response timeout expired or query ID is invalid")
        if len(call.get("text") or "") > 200:
            raise bad("MESSAGE_TOO_LONG")
        self.world.presses[number] = call.get("text") or ""
        return True

    async def setMyCommands(self, call: Body) -> bool:
        commands = call.get("commands") or []
        if self.world.rules.commands:
            if len(commands) > 100:
                raise bad("BOT_COMMANDS_TOO_MUCH")
            for command in commands:
                if re.fullmatch(r"[a-z0-9_]{1,32}", command.get("command", "")) is None:
                    raise bad("BOT_COMMAND_INVALID")
                if not 1 <= len(command.get("description", "")) <= 256:
                    raise bad("BOT_COMMAND_DESCRIPTION_INVALID")
        self.world.commands = commands
        return True

    async def getMyCommands(self, _: Body) -> list[Body]:
        return self.world.commands

    async def getFile(self, call: Body) -> Body:
        file = str(call.get("file_id"))
        if file not in self.world.files:
            raise bad("wrong file_id or the file is temporarily unavailable")
        path, content = self.world.files[file]
        if self.world.rules.files and not self.world.rules.local and len(content) > 20 << 20:
            raise bad("file is too big")
        return {
            "file_id": file,
            "file_unique_id": file,
            "file_size": len(content),
            "file_path": path,
        }

    async def getChat(self, call: Body) -> Body:
        return {
            **self.world.known(call.get("chat_id")).body,
            "accent_color_id": 0,
            "max_reaction_count": 11,
        }

    async def deleteWebhook(self, call: Body) -> bool:
        if call.get("drop_pending_updates") in {True, "true", "True"}:
            self.world.queue.clear()
        return True

    async def getWebhookInfo(self, _: Body) -> Body:
        return {
            "url": "",
            "has_custom_certificate": False,
            "pending_update_count": len(self.world.queue),
        }

    async def setMyDescription(self, _: Body) -> bool:
        return True

    async def setMessageReaction(self, _: Body) -> bool:
        return True


def decoded(call: Body) -> Body:
    """Forms carry nested values as JSON ("Making requests")."""
    names = "reply_markup reply_parameters link_preview_options allowed_updates commands".split()
    for name in names:
        if isinstance(call.get(name), str):
            try:
                call[name] = json.loads(call[name])
            except ValueError:
                raise bad(f"can't parse {name} JSON object") from None
    return call


def _int(value: object) -> int | None:
    try:
        return int(str(value)) if value is not None else None
    except ValueError:
        raise bad("invalid number specified") from None
