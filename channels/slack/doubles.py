"""A second ohmo on the same app: each event goes to one of the app's connections only, so each
hears a part and answers that; its posts tell of it.

Source: Using Socket Mode, "Using multiple connections" (each payload may go to any of them);
Message metadata. The ``num_connections`` of the hello frame is not asked: it counts connections
that are dead for long (slackapi/python-slack-sdk, issue 1940)."""

from __future__ import annotations

import asyncio
import logging
import re
import time
from typing import Any, cast

from channels.competing_instance import CompetingInstance
from channels.errors import NotReady, RateLimited, Rejected
from channels.payloads import Body
from channels.record import Recent
from channels.slack.client import Wire
from channels.slack.inbound import moment

_log = logging.getLogger(__name__)

WAITING = 20  # posts that are still to be looked at; the newest tell as much as the others
MOVE = 1e-6  # seconds between two messages, at least
_TS = re.compile(r"\d{1,11}\.\d{1,6}")
_WHAT = "Slack: another ohmo answers with this app"


def key_of(row: Body) -> object:
    """Under which a post of ours was sent; None: it carries none."""
    return _ours(row).get("key")


def _ours(row: Body) -> Body:
    metadata: Any = row.get("metadata")
    payload: Any = (
        cast("Body", metadata).get("event_payload") if isinstance(metadata, dict) else None
    )
    return (
        cast("Body", payload)
        if isinstance(payload, dict) and cast("Body", metadata).get("event_type") == "ohmo"
        else {}
    )


class Doubles:
    """Of one connection. Events bring no metadata, so a post of our account that we do not know is
    asked for once."""

    def __init__(self, wire: Wire, competing: CompetingInstance) -> None:
        self._wire = wire
        self._competing = competing
        # chat, ts -> thread, and when it came
        self._echoes = Recent[tuple[str, str], tuple[str, float]](WAITING)

    @property
    def looks_back(self) -> bool:
        """Whether history has to show the metadata: after a stop it tells of the other one before
        anything is stored."""
        return self._competing.rested is not None

    def metadata(self, key: str) -> Body:
        """Message metadata: invisible, kept through edits, and readable again by find()."""
        return {"event_type": "ohmo", "event_payload": {"key": key, "since": self._competing.since}}

    def sends(self, key: str) -> None:
        self._competing.send(key)

    def echo(self, chat: str, row: Body) -> None:
        """A post of our account came back; whoever of us sent it knows its ts by the time it is
        looked at."""
        ts = row.get("ts")
        if isinstance(ts, str) and _TS.fullmatch(ts) and not row.get("subtype"):
            self._echoes[chat, ts] = (str(row.get("thread_ts") or ""), time.monotonic())

    def shown(self, chat: str, ts: str) -> None:
        """We sent it."""
        self._echoes.pop((chat, ts), None)
        self._competing.send(f"{chat}/{ts}")

    async def run(self) -> None:
        """Looks, rarely, at posts nobody here sent. Raises InUse, AuthFailed."""
        while True:
            await asyncio.sleep(self._wire.pace.look)
            due = [
                one
                for one, (_, at) in self._echoes.items()
                if time.monotonic() - at >= self._wire.pace.echo
            ]
            strange = [one for one in due if not self._competing.sent("/".join(one))]
            for one in due:
                if one not in strange:
                    del self._echoes[one]
            if strange:
                chat, ts = strange[-1]
                thread, _ = self._echoes.pop((chat, ts))
                await self._look(chat, ts, thread)

    async def _look(self, chat: str, ts: str, thread: str) -> None:
        where: dict[str, str | int | bool] = {
            "channel": chat,
            "include_all_metadata": True,
            "inclusive": True,
            "limit": 5,
        }
        where |= {"oldest": f"{float(ts) - MOVE:.6f}", "latest": f"{float(ts) + MOVE:.6f}"} | (
            {"ts": thread} if thread else {}
        )
        try:
            page = await self._wire.read(
                "conversations.replies" if thread else "conversations.history", **where
            )
        except RateLimited as limited:
            await asyncio.sleep(limited.retry_after)
        except (NotReady, Rejected) as error:
            _log.info("slack: whose post %s in %s is cannot be asked: %s", ts, chat, error)
        else:
            messages: Any = page.get("messages")
            for row in cast("list[object]", messages) if isinstance(messages, list) else []:
                if isinstance(row, dict) and cast("Body", row).get("ts") == ts:
                    self.judge(cast("Body", row))

    def judge(self, row: Body) -> None:
        """A post of our account, with its metadata. Raises InUse when it is another ohmo's, which
        was here before us."""
        key, since, ts = key_of(row), _ours(row).get("since"), str(row.get("ts"))
        if (
            isinstance(since, int)
            and since < self._competing.since
            and _TS.fullmatch(ts)
            and self._competing.said(key, moment(ts))
        ):
            self._competing.conflict(_WHAT, str(key).partition(".")[0])
