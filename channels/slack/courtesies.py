"""What Slack shows beside messages: the Home tab, an assistant thread's first prompts and its
title. One that fails costs nothing else."""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
from collections.abc import Callable
from typing import cast

from channels.contract import About, Arrival, Inbound
from channels.errors import AuthFailed, ChannelError
from channels.payloads import Body
from channels.record import Recent
from channels.slack.client import Wire
from channels.slack.mrkdwn import escape
from channels.stale_typing import OpenIndicators

_log = logging.getLogger(__name__)

WAITING = 100  # courtesies that wait; more are dropped
_TITLE = "assistant.threads.setTitle"
REMEMBERED = 1_000  # people and threads
TITLE = 60  # characters of a thread's first words that name it
# setSuggestedPrompts takes at most four.
PROMPTS = (
    ("What can you do?", "What can you do for me here?"),
    ("Status", "/status"),
    ("Help", "/help"),
)


class Courtesies:
    """``about``: what may be told of the house, asked anew each time. ``untitled``: assistant
    threads nobody has spoken in yet, as ``TS CHAT``; they outlive a restart, because people may
    take their time."""

    def __init__(self, wire: Wire, about: Callable[[], About], untitled: OpenIndicators) -> None:
        self._wire = wire
        self._about = about
        self._calls: asyncio.Queue[tuple[str, Body]] = asyncio.Queue(WAITING)
        # person -> digest of the Home tab they have
        self._published = Recent[str, str](REMEMBERED)
        # those whose title is on its way
        self._untitled = untitled
        self._named = set[str]()
        untitled.keep()

    async def run(self) -> None:
        """Until cancelled. Raises AuthFailed."""
        while True:
            method, body = await self._calls.get()
            try:
                await self._wire.write(method, body, once=False)
            except AuthFailed:
                raise
            except ChannelError as error:
                _log.warning("slack: %s", error)
                self._published.pop(str(body.get("user_id", "")), None)
            if method == _TITLE:
                await self._untitled.off(f"{body['thread_ts']} {body['channel_id']}")

    async def event(self, payload: Body) -> None:
        """One event that was acknowledged; most need no courtesy."""
        found = payload.get("event")
        event = cast("Body", found) if isinstance(found, dict) else {}
        if event.get("type") == "app_home_opened" and event.get("tab") == "home":
            self._home(event)
        elif event.get("type") == "assistant_thread_started":
            await self._thread(event)

    def heard(self, said: Arrival) -> None:
        """The first words of an assistant thread are its title."""
        if not isinstance(said, Inbound) or said.address.topic is None:
            return
        thread = f"{said.address.topic} {said.address.chat}"
        if thread not in self._untitled or thread in self._named:
            return
        self._named.add(thread)
        words = " ".join(said.text.split())
        title = words if len(words) <= TITLE else words[: TITLE - 1] + "…"
        if title:
            self._put(
                _TITLE,
                {"channel_id": said.address.chat, "thread_ts": said.address.topic, "title": title},
            )

    def _home(self, event: Body) -> None:
        """app_home_opened brings the view that stands there, so that an unchanged one is not
        published again, also after a restart."""
        person, old = event.get("user"), event.get("view")
        if not isinstance(person, str):
            return
        view = home(self._about())
        digest = str(view["private_metadata"])
        shown = (
            cast("Body", old).get("private_metadata")
            if isinstance(old, dict)
            else self._published.get(person)
        )
        if shown == digest:
            return
        self._published[person] = digest
        self._put("views.publish", {"user_id": person, "view": view})

    async def _thread(self, event: Body) -> None:
        found = event.get("assistant_thread")
        thread = cast("Body", found) if isinstance(found, dict) else {}
        chat, ts = thread.get("channel_id"), thread.get("thread_ts")
        if not isinstance(chat, str) or not isinstance(ts, str) or f"{ts} {chat}" in self._untitled:
            return
        await self._untitled.on(f"{ts} {chat}")
        if len(self._untitled) > REMEMBERED and (oldest := self._untitled.oldest()) is not None:
            await self._untitled.off(oldest)
        prompts = [{"title": title, "message": message} for title, message in PROMPTS]
        self._put(
            "assistant.threads.setSuggestedPrompts",
            {"channel_id": chat, "thread_ts": ts, "prompts": prompts},
        )

    def _put(self, method: str, body: Body) -> None:
        try:
            self._calls.put_nowait((method, body))
        except asyncio.QueueFull:
            _log.warning("slack: too much to do at once: %s was left out", method)


def home(about: About) -> Body:
    """The Home tab (Home tab views): how to talk to us, whose we are, which model answers. Its
    digest travels as ``private_metadata``."""
    owners = (
        ", ".join(f"<@{owner}>" for owner in about.owners)
        or "not named yet (`owner` in config.yaml)"
    )
    lines = (
        (
            "*How to talk to me*\n• write in *Messages*, or any direct message: each thread is a"
            " conversation of its own\n• in a channel: `/invite` me, then mention me; I answer in a"
            " thread and hear its replies without another mention\n• `/ohmo status`, `/ohmo stop`,"
            " `/ohmo new`, `/ohmo help` work everywhere"
        ),
        (
            f"*Owner*\n{owners}. I answer people the owner let in; write me a direct message to ask"
            " for that."
        ),
        f"*Model*\n{escape(about.model) or 'none is configured'}",
    )
    blocks: list[Body] = [
        {"type": "header", "text": {"type": "plain_text", "text": "ohmo", "emoji": False}}
    ]
    blocks += [
        {"type": "section", "text": {"type": "mrkdwn", "text": line[:3000], "verbatim": True}}
        for line in lines
    ]
    digest = hashlib.sha256(json.dumps(blocks, sort_keys=True).encode()).hexdigest()[:16]
    return {"type": "home", "blocks": blocks, "private_metadata": digest}
