"""What Slack has beside messages: Home tabs, assistant threads, the answering addresses of slash
commands, and who may use which method."""

from __future__ import annotations

import uuid
from typing import Any

from aiohttp import web

from tests.platforms.slack.workspace import Row, SlackError, Workspace, check_blocks

# Each method's page, "Scopes" (bot token); a method that names several takes any one of them. No
# entry: none is needed.
METHOD_SCOPES: dict[str, tuple[str, ...]] = {
    "assistant.threads.setStatus": ("assistant:write", "chat:write"),
    "assistant.threads.setSuggestedPrompts": ("assistant:write",),
    "assistant.threads.setTitle": ("assistant:write",),
    "chat.postMessage": ("chat:write",),
    "chat.update": ("chat:write",),
    "chat.delete": ("chat:write",),
    "chat.postEphemeral": ("chat:write",),
    "chat.startStream": ("chat:write",),
    "chat.appendStream": ("chat:write",),
    "chat.stopStream": ("chat:write",),
    "conversations.open": ("im:write", "mpim:write"),
    "users.info": ("users:read",),
    "files.info": ("files:read",),
    "files.getUploadURLExternal": ("files:write",),
    "files.completeUploadExternal": ("files:write",),
    "files.delete": ("files:write",),
    "reactions.add": ("reactions:write",),
}
# conversations.history, .replies, .list
HISTORY = {"im": ("im:history", "im:read"), "channel": ("channels:history", "channels:read")}
# Each event's page, "Required scopes".
EVENT_SCOPES = {
    "app_mention": "app_mentions:read",
    "assistant_thread_started": "assistant:write",
    "assistant_thread_context_changed": "assistant:write",
    "reaction_added": "reactions:read",
    "reaction_removed": "reactions:read",
    "message.im": "im:history",
    "message.channels": "channels:history",
    "message.groups": "groups:history",
    "message.mpim": "mpim:history",
}


def subscription(event: Row) -> str:
    """The name of the subscription an event comes by: the kind of conversation is part of a
    message's."""
    if event["type"] != "message":
        return event["type"]
    return "message." + {"im": "im", "group": "groups", "mpim": "mpim"}.get(
        event.get("channel_type", ""), "channels"
    )


class Surfaces:
    """A part of the server; ``workspace`` and ``port`` are the server's."""

    workspace: Workspace
    port: int

    def __init__(self) -> None:
        self.views: dict[str, Row] = {}  # person -> the Home tab that stands there
        self.published: list[str] = []
        self.prompts: list[Row] = []
        self.titles: list[Row] = []
        self.assistant_threads: set[tuple[str, str]] = set()
        self.responses: dict[str, list[Row]] = {}  # answering address -> what came there
        self.home_enabled = True
        self.streaming: dict[str, Row] = {}  # by ts; Slack forgets a stream after some minutes

    def _views_publish(self, args: Row) -> Row:
        """views.publish: user_not_found, not_enabled; Home tab views: at most 100 blocks,
        private_metadata of at most 3 000 characters."""
        view, person = args.get("view"), str(args.get("user_id"))
        if person not in self.workspace.users:
            raise SlackError("user_not_found")
        if not self.home_enabled:
            raise SlackError("not_enabled")
        if (
            not isinstance(view, dict)
            or view.get("type") != "home"
            or not isinstance(view.get("blocks"), list)
        ):
            raise SlackError("invalid_arguments")
        if len(view["blocks"]) > 100 or len(view.get("private_metadata", "")) > 3000:
            raise SlackError("invalid_arguments")
        check_blocks(view["blocks"])
        self.views[person] = {**view, "hash": uuid.uuid4().hex, "id": "V0HOME"}
        self.published.append(person)
        return {"view": self.views[person]}

    def _assistant_thread(self, args: Row) -> None:
        self.workspace.chat(args.get("channel_id"))
        if (args["channel_id"], args.get("thread_ts")) not in self.assistant_threads:
            raise SlackError("invalid_thread_ts")

    def _assistant_threads_setSuggestedPrompts(self, args: Row) -> Row:
        """assistant.threads.setSuggestedPrompts: up to four, each with a title and a message."""
        self._assistant_thread(args)
        prompts: Any = args.get("prompts")
        if (
            not isinstance(prompts, list)
            or not 0 < len(prompts) <= 4
            or not all(one.get("title") and one.get("message") for one in prompts)
        ):
            raise SlackError("invalid_arguments")
        self.prompts.append(args)
        return {}

    def _assistant_threads_setTitle(self, args: Row) -> Row:
        self._assistant_thread(args)
        if not args.get("title"):
            raise SlackError("invalid_arguments")
        self.titles.append(args)
        return {}

    def response_url(self) -> str:
        """Slash commands: a new address for each."""
        name = uuid.uuid4().hex
        self.responses[name] = []
        return f"http://127.0.0.1:{self.port}/response/{name}"

    async def _respond(self, request: web.Request) -> web.Response:
        """Handling user interaction, "Message responses": five messages each; no token is wanted
        there, and none must be sent."""
        taken = self.responses.get(request.match_info["name"])
        if taken is None or request.headers.get("Authorization"):
            return web.Response(status=404, text="no_such_url")
        if len(taken) >= 5:
            return web.json_response({"ok": False, "error": "used_url"}, status=404)
        body = await request.json()
        if not body.get("text") and not body.get("blocks") and not body.get("delete_original"):
            return web.json_response({"ok": False, "error": "no_text"}, status=400)
        taken.append(body)
        self.changed()
        return web.Response(text="ok")

    def _chat_startStream(self, args: Row) -> Row:
        """chat.startStream: no metadata; recipients are required when streaming to channels; 12 000
        characters."""
        chat = str(args.get("channel"))
        private = self.workspace.chat(chat)["is_im"]
        if not private and not args.get("recipient_user_id"):
            raise SlackError("missing_recipient_user_id")
        if not private and not args.get("recipient_team_id"):
            raise SlackError("missing_recipient_team_id")
        text = args.get("markdown_text", "")
        if len(text) > 12_000:
            raise SlackError("msg_too_long")
        row = self.workspace.post(chat, {"text": text or " ", "thread_ts": args.get("thread_ts")})
        self.streaming[row["ts"]] = row
        return {"channel": chat, "ts": row["ts"]}

    def _stream(self, args: Row) -> Row:
        self.workspace.chat(args.get("channel"))
        self.workspace.row(args["channel"], args.get("ts"))
        if args["ts"] not in self.streaming:
            raise SlackError("message_not_in_streaming_state")
        return self.streaming[args["ts"]]

    def _chat_appendStream(self, args: Row) -> Row:
        row = self._stream(args)
        if not args.get("markdown_text"):
            raise SlackError("no_text")
        row["text"] += args["markdown_text"]
        return {"channel": args["channel"], "ts": row["ts"]}

    def _chat_stopStream(self, args: Row) -> Row:
        row = self._stream(args)
        del self.streaming[row["ts"]]
        return {"channel": args["channel"], "ts": row["ts"], "message": row}

    def changed(self) -> None:
        raise NotImplementedError
