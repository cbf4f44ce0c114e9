"""Matrix for the conformance suite, journeys and fault tests: a real Synapse behind a proxy, with
Ada, Bob and fresh rooms, plain or encrypted."""

from __future__ import annotations

import itertools
import secrets
from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from aiohttp import ClientSession

from channels.contract import Channel, Options
from channels.matrix import MatrixSettings
from channels.matrix.adapter import Matrix
from channels.matrix.client import Pace
from tests.conformance.rig import Visible
from tests.parts import skip_without, there
from tests.platforms.matrix.proxy import Proxy
from tests.platforms.matrix.synapse import Account, Synapse, shared

if TYPE_CHECKING:
    from tests.platforms.matrix.person import Person

ENCRYPTION = {
    "type": "m.room.encryption",
    "state_key": "",
    "content": {"algorithm": "m.megolm.v1.aes-sha2"},
}


class MatrixRig:
    name = "matrix"

    def __init__(
        self, synapse: Synapse, proxy: Proxy, session: ClientSession, *, encrypted: bool = False
    ) -> None:
        self.encrypted = encrypted  # every room is, and people speak through clients of their own
        self.synapse = synapse
        self.proxy = proxy
        self.pace: Pace | None = None  # unless a channel is given one
        self.run = secrets.token_hex(4)
        self.bot = synapse.register(f"ohmo-{self.run}")
        self.people: dict[str, Account] = {}
        self.clients: dict[str, Person] = {}
        self.rooms: dict[str, str] = {}
        self._session = session
        self._transactions = itertools.count()

    # what the suite asks for

    def settings(self) -> dict[str, Any]:
        more = {"encryption": True} if self.encrypted else {}
        return {
            "enabled": True,
            "homeserver": self.proxy.url,
            "user": self.bot.user,
            "access_token": self.bot.token,
            **more,
        }

    def channel(self, options: Options | None = None, pace: Pace | None = None) -> Channel:
        """With encryption, ``options.state`` is where its keys live."""
        keys = {key: value for key, value in self.settings().items() if key != "enabled"}
        return Matrix(MatrixSettings(**keys), options or Options(), pace or self.pace)

    async def says(
        self,
        text: str,
        *,
        chat: str = "dm:ada",
        person: str = "ada",
        topic: str | None = None,
        mention: bool = True,
    ) -> str:
        content: dict[str, Any] = {"msgtype": "m.text", "body": text, "m.mentions": {}}
        if mention and not chat.startswith("dm:"):
            content["m.mentions"] = {"user_ids": [self.bot.user]}
        if topic is not None:
            content["m.relates_to"] = {
                "rel_type": "m.thread",
                "event_id": topic,
                "is_falling_back": True,
                "m.in_reply_to": {"event_id": topic},
            }
        return await self.post(content, chat=chat, person=person)

    async def edits(
        self, message: str, text: str, *, chat: str = "dm:ada", person: str = "ada"
    ) -> None:
        content = {
            "msgtype": "m.text",
            "body": f"* {text}",
            "m.new_content": {"msgtype": "m.text", "body": text},
            "m.relates_to": {"rel_type": "m.replace", "event_id": message},
        }
        await self.post(content, chat=chat, person=person)

    async def presses(
        self, message: str, choice: str, *, chat: str = "dm:ada", person: str = "ada"
    ) -> None:
        raise NotImplementedError("Matrix has no buttons")

    async def visible(self, chat: str = "dm:ada") -> Sequence[Visible]:
        """As a client shows it: edits applied (by their author), redacted messages gone."""
        room = await self.room(chat)
        shown: dict[str, Visible] = {}
        events: list[dict[str, Any]] = []
        start: str | None = None
        while True:
            more = {"from": start} if start else {}
            page = await self.call(
                "ada", "GET", f"/rooms/{room}/messages", dir="f", limit=500, **more
            )
            events += page["chunk"]
            start = page.get("end")
            if not start or not page["chunk"]:
                break
        for event in await self._opened(events):
            content = event["content"]
            if event["type"] != "m.room.message" or not content:
                continue
            relation = content.get("m.relates_to", {})
            if relation.get("rel_type") == "m.replace":
                old = shown.get(relation["event_id"])
                if old is not None:
                    shown[old.id] = replace(
                        old, text=content["m.new_content"]["body"], edits=old.edits + 1
                    )
                continue
            topic = relation.get("event_id") if relation.get("rel_type") == "m.thread" else None
            files = (
                (content.get("filename", content["body"]),)
                if "url" in content or "file" in content
                else ()
            )
            shown[event["event_id"]] = Visible(
                event["event_id"],
                "" if files else content["body"],
                event["sender"] == self.bot.user,
                topic,
                files=files,
            )
        return tuple(shown.values())

    async def redeliver(self, message: str, *, chat: str = "dm:ada") -> None:
        room = self.rooms[chat]
        self.proxy.repeat(room, await self.call("ada", "GET", f"/rooms/{room}/event/{message}"))

    async def cut(self) -> None:
        self.proxy.cut()

    def down(self, away: bool) -> None:
        self.proxy.away(away)

    def lose_next_response(self) -> None:
        self.proxy.faults.append(("lose", None))

    def limit_next(self, seconds: float) -> None:
        self.proxy.faults.append(("limit", seconds))

    def reject_next(self) -> None:
        self.proxy.faults.append(("reject", None))

    def revoke(self, revoked: bool = True) -> None:
        self.proxy.revoked = revoked

    # what only Matrix has

    async def call(
        self, person: str, method: str, path: str, body: Any = None, **query: Any
    ) -> dict[str, Any]:
        """The client-server API as a person, past the proxy. Raises AssertionError with the
        homeserver's own words."""
        headers = {"Authorization": f"Bearer {self._account(person).token}"}
        url = f"{self.synapse.url}/_matrix/client/v3{path}"
        params = {name: str(value) for name, value in query.items()}
        async with self._session.request(
            method, url, json=body, params=params, headers=headers
        ) as response:
            answer = await response.json()
        assert response.status == 200, f"{method} {path}: {response.status} {answer}"
        return answer

    async def _opened(self, events: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """As Ada's client shows them; what it cannot read yet is not there."""
        if not self.encrypted:
            return events
        ada = await self.client("ada")
        await ada.sync()
        sealed = [
            event["type"] == "m.room.encrypted" and bool(event["content"]) for event in events
        ]
        opened = [
            await ada.reads(event) if locked else event
            for event, locked in zip(events, sealed, strict=True)
        ]
        assert not [
            event
            for event in events
            if event["type"] == "m.room.message" and event["sender"] == self.bot.user
        ], "said in plain"
        return [event for event in opened if event is not None]

    async def client(self, person: str) -> Person:
        """Somebody's encrypting client."""
        from tests.platforms.matrix.person import Person

        if person not in self.clients:
            self.clients[person] = Person(self.synapse.url, self._account(person))
            await self.clients[person].open()
        return self.clients[person]

    async def post(
        self,
        content: dict[str, Any],
        *,
        chat: str = "dm:ada",
        person: str = "ada",
        kind: str = "m.room.message",
    ) -> str:
        room = await self.room(chat)
        if self.encrypted and kind == "m.room.message":
            return await (await self.client(person)).says(room, content)
        path = f"/rooms/{room}/send/{kind}/rig{next(self._transactions)}"
        return (await self.call(person, "PUT", path, content))["event_id"]

    async def redacts(self, message: str, *, chat: str = "dm:ada", person: str = "ada") -> str:
        path = f"/rooms/{self.rooms[chat]}/redact/{message}/rig{next(self._transactions)}"
        return (await self.call(person, "PUT", path, {}))["event_id"]

    async def uploads(self, content: bytes, *, person: str = "ada") -> str:
        """The mxc address."""
        headers = {
            "Authorization": f"Bearer {self._account(person).token}",
            "Content-Type": "application/octet-stream",
        }
        async with self._session.post(
            f"{self.synapse.url}/_matrix/media/v3/upload", data=content, headers=headers
        ) as response:
            return (await response.json())["content_uri"]

    async def downloads(self, mxc: str, *, person: str = "ada") -> bytes:
        headers = {"Authorization": f"Bearer {self._account(person).token}"}
        path = mxc.removeprefix("mxc://")
        async with self._session.get(
            f"{self.synapse.url}/_matrix/client/v1/media/download/{path}", headers=headers
        ) as response:
            return await response.read()

    async def room(self, chat: str) -> str:
        """Made when it is first needed, with the bot in it."""
        if chat not in self.rooms:
            await self.creates(
                chat, *(("ada", "bob") if chat == "group" else (chat.removeprefix("dm:"),))
            )
        return self.rooms[chat]

    async def creates(self, chat: str, *people: str, join: bool = True, **more: Any) -> str:
        """A room of the first of ``people``, who invites the others and the bot; ``join``: the bot
        is in it at once."""
        invited = [*(self._account(name).user for name in people[1:]), self.bot.user]
        body = {
            "preset": "trusted_private_chat",
            "is_direct": len(people) == 1,
            "invite": invited,
            **more,
        }
        if self.encrypted:
            body.setdefault("initial_state", [ENCRYPTION])
        self.rooms[chat] = (await self.call(people[0], "POST", "/createRoom", body))["room_id"]
        for name in (*people[1:], *(("bot",) if join else ())):
            await self.call(name, "POST", f"/join/{quote(self.rooms[chat])}", {})
        return self.rooms[chat]

    async def members(self, chat: str) -> set[str]:
        return set(
            (await self.call("ada", "GET", f"/rooms/{self.rooms[chat]}/joined_members"))["joined"]
        )

    def _account(self, person: str) -> Account:
        if person == "bot":
            return self.bot
        if person not in self.people:
            self.people[person] = self.synapse.register(f"{person}-{self.run}")
        return self.people[person]


@asynccontextmanager
async def rig(*, encrypted: bool = False) -> AsyncIterator[MatrixRig]:
    if encrypted and not there("libolm"):
        skip_without("libolm")
    synapse = shared()
    proxy = Proxy(synapse.url)
    await proxy.start()
    try:
        async with ClientSession() as session:
            matrix = MatrixRig(synapse, proxy, session, encrypted=encrypted)
            await matrix.room("dm:ada")
            try:
                yield matrix
            finally:
                for client in matrix.clients.values():
                    await client.close()
    finally:
        await proxy.stop()


def encrypted_rig() -> AbstractAsyncContextManager[MatrixRig]:
    """Every room is encrypted."""
    return rig(encrypted=True)
