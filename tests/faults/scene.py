"""One daemon between its platforms and its model, and the ledger of what was said to it."""

from __future__ import annotations

import asyncio
import itertools
import json
import secrets
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import quote

from aiohttp import ClientError

from tests import warm
from tests.conformance.rig import Visible
from tests.faults.daemon import PATIENCE, Daemon, until
from tests.faults.directed_model import MARKER, directed, told
from tests.faults.ledger import Word, problems, transcript_problems
from tests.faults.page import Pages
from tests.platforms.discord.rig import rig as discord
from tests.platforms.feishu.rig import rig as feishu
from tests.platforms.matrix.rig import rig as matrix
from tests.platforms.model.script import Asked, Turn
from tests.platforms.model.server import ModelServer, serving
from tests.platforms.slack.rig import rig as slack
from tests.platforms.telegram.rig import rig as telegram

RIGS = {
    "telegram": telegram,
    "slack": slack,
    "discord": discord,
    "matrix": matrix,
    "feishu": feishu,
}


class Scene:
    """``rigs`` by platform. Everything that is said goes through ``says`` and is held against what
    is seen by ``check``."""

    def __init__(self, daemon: Daemon, model: ModelServer, rigs: Mapping[str, Any]) -> None:
        self.daemon = daemon
        self.model = model
        self.rigs = rigs
        self.words: list[Word] = []
        self.messages: dict[str, str] = {}  # marker -> the platform's message
        self._numbers = itertools.count(1)

    async def says(
        self,
        more: str = "",
        *,
        on: str = "telegram",
        chat: str = "dm:ada",
        topic: str | None = None,
        answered: bool = True,
    ) -> str:
        """A person says a new marker and ``more``; the marker."""
        marker = f"m-{next(self._numbers)}-{secrets.token_hex(4)}"
        message = await self.rigs[on].says(f"{marker} {more}".strip(), chat=chat, topic=topic)
        self.messages[marker] = message
        threaded = message if on == "slack" and chat == "group" and topic is None else topic
        self.words.append(Word(marker, (on, chat, threaded), answered))
        return marker

    async def bursts(self, count: int, more: str = "", *, on: str = "telegram") -> list[str]:
        """``count`` messages at once, each in a thread of its own."""
        return [await self.says(more, on=on, chat=self.fresh_chat(on)) for _ in range(count)]

    def fresh_chat(self, on: str) -> str:
        """A chat that begins a thread with its next message."""
        return {
            "telegram": f"dm:{5_000 + next(self._numbers)}",
            "slack": "group",
            "discord": f"dm:{next(self._numbers)}",
            "feishu": f"dm:{5_000 + next(self._numbers)}",
            "web": f"dm:{secrets.token_hex(4)}",
        }[on]

    async def seen(self) -> dict[tuple[str, str], Sequence[Visible]]:
        places = sorted({word.place[:2] for word in self.words})
        return {place: await self.rigs[place[0]].visible(place[1]) for place in places}

    async def answers(self, marker: str) -> list[Visible]:
        """Messages of the bot that show the marker."""
        place = next(word.place for word in self.words if word.marker == marker)
        return [
            message
            for message in await self.rigs[place[0]].visible(place[1])
            if message.by_bot and marker in message.text
        ]

    async def answered(self, *markers: str, within: float = PATIENCE) -> None:
        """Each marker is answered in full; no longer than ``within`` seconds without any answer."""
        wanted = markers or tuple(word.marker for word in self.words if word.answered)
        missing = set(wanted)

        async def all_there() -> bool:
            for on, chat in sorted(
                {word.place[:2] for word in self.words if word.marker in missing}
            ):
                texts = [
                    message.text
                    for message in await self.rigs[on].visible(chat)
                    if message.by_bot and " end" in message.text
                ]
                missing.difference_update(
                    marker for text in texts for marker in MARKER.findall(text)
                )
            return not missing

        async def more() -> bool:
            before = len(missing)
            return await all_there() or len(missing) < before

        try:
            while missing:
                await until("", more, within, every=None if len(missing) < 50 else 0.5)
        except AssertionError:
            shown = {
                place: [one.text[:200] for one in messages][-4:]
                for place, messages in (await self.seen()).items()
            }
            lost = [
                f"{word.marker} in {word.place}: {shown[word.place[:2]]}"
                for word in self.words
                if word.marker in missing
            ]
            lines = [
                f"no answer for {within:g} s to {len(lost)} of {len(wanted)}",
                *lost[:10],
                self.daemon.said[-500:],
            ]
            raise AssertionError("\n".join(lines)) from None

    async def answered_or_died(self, marker: str) -> None:
        """Whichever comes first. An answer counts when the daemon knows that it was delivered: a
        death in between would be another one than the test asks for, and on Telegram, where nobody
        can ask what became of a message, it may be said twice."""

        async def either() -> bool:
            return not self.daemon.alive or await self._delivered(marker)

        await until(f"an answer to {marker}, or a death", either)

    async def _delivered(self, marker: str) -> bool:
        with suppress(ClientError, OSError, TimeoutError):
            seen = any(" end" in one.text for one in await self.answers(marker))
            return seen and await self.daemon.idle()
        return False

    async def drafted(self, marker: str) -> Visible:
        """The answer while it is half written."""
        found: list[Visible] = []

        async def half() -> bool:
            found[:] = [one for one in await self.answers(marker) if " end" not in one.text]
            return bool(found)

        await until(f"a draft of the answer to {marker}", half)
        return found[0]

    async def asked(self, on: str, chat: str = "dm:ada") -> Visible:
        """The question with its buttons, once it can be seen."""

        async def there() -> bool:
            return any(message.choices for message in await self.rigs[on].visible(chat))

        await until(f"a question on {on}", there)
        return next(message for message in await self.rigs[on].visible(chat) if message.choices)

    async def press_first(self, on: str, chat: str = "dm:ada") -> None:
        """The first button of the question that can be seen."""
        card = await self.asked(on, chat)
        await self.rigs[on].presses(card.id, card.choices[0], chat=chat)

    async def heard(self, *texts: str) -> None:
        """The daemon has stored something that says each of them."""
        for text in texts:

            async def stored(text: str = text) -> bool:
                return bool(
                    (await self.daemon.call("GET", f"/api/v1/inbox?limit=1&text={quote(text)}"))[1][
                        "inbox"
                    ]
                )

            await until(f"{text!r} is heard", stored)

    async def models_asked(self, count: int) -> None:
        """So many requests have reached the model."""

        async def asked() -> bool:
            return self.model.count >= count

        await until(f"{count} requests to the model", asked)

    async def stopped(self) -> None:
        """Nothing that was said before runs or waits any more."""

        async def nothing() -> bool:
            _, status = await self.daemon.call("GET", "/api/v1/status")
            _, found = await self.daemon.call("GET", "/api/v1/inbox?state=ended&limit=1000")
            ended = any(one["ending"] == "stopped" for one in found["inbox"])
            return (
                ended
                and not status["turns_running"]
                and not status["turns_parked"]
                and await self.daemon.idle()
            )

        await until("everything is stopped", nothing)

    async def appears(self, path: Path) -> None:
        """A file that a command makes."""

        async def there() -> bool:
            return path.exists()

        await until(f"{path} exists", there)

    async def quiet(self) -> None:
        """Nothing is on its way any more."""

        async def idle() -> bool:
            telegram = self.rigs.get("telegram")
            waiting = (
                telegram is not None
                and bool(telegram.server.world.queue)
                and not telegram.server.methods.polling
            )
            return not waiting and await self.daemon.idle()

        await until("the daemon is idle", idle)

    async def redelivered(self) -> None:
        """Every message is delivered once more (row 27); a last word proves that all of it was
        read."""
        for word in list(self.words):
            await self.rigs[word.place[0]].redeliver(self.messages[word.marker], chat=word.place[1])
        for on in sorted({word.place[0] for word in self.words}):
            chats = [word.place for word in self.words if word.place[0] == on]
            await self.says(on=on, chat=chats[-1][1], topic=chats[-1][2])

    async def check(
        self,
        *,
        repeats: int = 0,
        also: Callable[[Visible], bool] | None = None,
        again: bool = False,
    ) -> None:
        """Waits for every answer, then holds L1 to L7; the daemon is stopped by it. ``again``:
        everything is delivered twice first."""
        await self.answered()
        if again:
            await self.redelivered()
            await self.answered()
        await self.quiet()
        found = problems(self.words, await self.seen(), repeats=repeats, also=also)
        found += transcript_problems(await self.daemon.histories())
        found += [f"L6: the model refused a request: {line}" for line in self.model.refused]  # pyright: ignore[reportAttributeAccessIssue]
        _, audit = await self.daemon.call("GET", "/api/v1/inbox/audit")
        found += [f"audit: {line}" for line in audit["problems"]]
        code = await self.daemon.stop()
        found += [] if code == 0 else [f"SIGTERM ended it with {code}"]
        found += [f"L5: {line}" for line in self.daemon.integrity()]
        found += [f"L7: {line}" for line in await self.daemon.left_behind()]
        assert found == [], "\n".join([*found, self.daemon.said[-3000:]])

    def told(self, marker: str) -> list[str]:
        """What the model was given as tool results in the turn of ``marker``."""
        return told(self.model, marker)


class WatchedModel(ModelServer):
    """Keeps every refusal, so that a transcript the real endpoint would refuse fails the test."""

    def __init__(self) -> None:
        super().__init__(default=self._directed)
        self.refused: list[str] = []
        self.patient = True  # False: nobody is kept waiting by ``#wait``

    def _directed(self, asked: Asked) -> Turn:
        turn = directed(asked)
        return turn if self.patient else replace(turn, delay=0.0)

    def _refusal(self, request: Any, turn: Turn, body: dict[str, Any]) -> Any:
        self.refused.append(str(body))
        return super()._refusal(request, turn, body)


Rigs = Mapping[str, Callable[[], Any]]


@asynccontextmanager
async def scene(
    home: Path,
    rigs: Rigs,
    *,
    web: bool = False,
    command: Sequence[str] = warm.RUN,
    start: warm.Start = warm.cold,
    wire: str = "anthropic",
    **config: Any,
) -> AsyncGenerator[Scene]:
    """Nothing is started yet but the platforms and the model. ``start``: how the daemon will be;
    ``wire``: of which provider; ``config``: more top-level keys."""
    async with AsyncExitStack() as stack:
        model = await stack.enter_async_context(serving(WatchedModel()))
        open_rigs = {
            name: await stack.enter_async_context(factory()) for name, factory in rigs.items()
        }
        channels: dict[str, Any] = {"web": {"enabled": web}}
        for name, rig in open_rigs.items():
            channels[name] = {**rig.settings(), "enabled": True, "dm": "open", "groups": "open"}
        url, name = {
            "anthropic": (model.url, "claude-sonnet-4-5"),
            "openai": (f"{model.url}/v1", "local-1"),
        }[wire]
        profile = {"provider": wire, "base_url": url, "api_key": "sk-ant-test", "models": [name]}
        wanted = {
            "profiles": {"default": profile},
            "control": {"listen": None},
            "workspace": str(home.parent / "workspace"),
            "channels": channels,
            "limits": {"concurrent_turns": 64},
            **config,
        }
        (home / "config.yaml").write_text(json.dumps(wanted))  # JSON is YAML
        (home / "config.yaml").chmod(0o600)
        connected = [name for name, keys in channels.items() if keys["enabled"]]
        daemon = Daemon(home, connected, command, start=start)
        if web:
            pages = Pages(daemon)
            flushing = asyncio.create_task(pages.flush())
            stack.callback(flushing.cancel)
            open_rigs["web"] = pages
        try:
            yield Scene(daemon, model, open_rigs)
        finally:
            if daemon.alive:
                with suppress(ProcessLookupError):
                    await daemon.kill()
