"""The browser chat of a daemon in another process: pages that keep what was said until it is
stored, and show the durable history."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
from collections.abc import Sequence
from typing import Any
from urllib.parse import quote

from aiohttp import ClientError

from tests.conformance.rig import Visible
from tests.faults.daemon import Daemon


class Pages:
    """See tests/conformance/rig.py; what a daemon has lost the page would not show, so the store's
    own history is the platform's here."""

    name = "web"

    def __init__(self, daemon: Daemon) -> None:
        self._daemon = daemon
        self._said: dict[str, tuple[str, dict[str, Any]]] = {}
        self._outbox: asyncio.Queue[str] = asyncio.Queue()
        self._threads: dict[str, str] = {}  # chat -> its thread

    def settings(self) -> dict[str, Any]:
        return {}

    async def flush(self) -> None:
        """As the page's outbox: one after the other, each again until it is stored."""
        while True:
            path, body = self._said[await self._outbox.get()]
            stored = False
            while not stored:
                with contextlib.suppress(ClientError, OSError, TimeoutError):
                    status, answer = await self._daemon.call("POST", path, body)
                    assert status in (202, 503), answer
                    stored = status == 202
                if not stored:
                    await asyncio.sleep(0.05)

    async def says(
        self,
        text: str,
        *,
        chat: str = "dm:ada",
        person: str = "ada",
        topic: str | None = None,
        mention: bool = True,
    ) -> str:
        key = secrets.token_hex(10)
        self._said[key] = (
            f"/api/v1/web/chats/{quote(_chat(chat))}/messages",
            {"text": text, "key": key},
        )
        self._outbox.put_nowait(key)
        return key

    async def presses(
        self, message: str, choice: str, *, chat: str = "dm:ada", person: str = "ada"
    ) -> None:
        key = secrets.token_hex(10)
        self._said[key] = (
            f"/api/v1/web/chats/{quote(_chat(chat))}/answers",
            {"message": message, "choice": choice, "key": key},
        )
        self._outbox.put_nowait(key)

    async def redeliver(self, message: str, *, chat: str = "dm:ada") -> None:
        self._outbox.put_nowait(message)

    async def visible(self, chat: str = "dm:ada") -> Sequence[Visible]:
        """Rows that were sent; one that targets another takes its place."""
        if _chat(chat) not in self._threads:
            _, found = await self._daemon.call("GET", "/api/v1/sessions?limit=1000&channel=web")
            self._threads.update(
                {session["address"]["chat"]: session["thread"] for session in found["sessions"]}
            )
        thread = self._threads.get(_chat(chat))
        return _shown(await self._daemon.history(thread)) if thread is not None else ()


def _shown(items: Sequence[dict[str, Any]]) -> list[Visible]:
    shown: dict[str, Visible] = {}
    heads: dict[str, str] = {}
    for item in items:
        if item["type"] != "out_row" or item["state"] != "sent":
            continue
        row = item["row"]
        own: str = row["id"]
        head = heads.get(row["target"] or "", own)
        heads[own] = head
        choices = tuple(choice["value"] for choice in row["outbound"]["choices"])
        edits = shown[head].edits + 1 if head in shown else 0
        text = row["outbound"]["text"]
        files = tuple(file.rpartition("/")[2] for file in row["outbound"]["files"])
        shown[head] = Visible(f"{head}.0", text, True, None, edits, choices, files)
    return list(shown.values())


def _chat(chat: str) -> str:
    return chat.replace("dm:", "chat-")
