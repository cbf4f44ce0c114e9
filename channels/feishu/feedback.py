"""What people see beside whole messages: cards that are written to while they are read, the typing
reaction, and the toast that answers a press."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from channels.contract import Address, Clock
from channels.errors import AuthFailed, ChannelError, RateLimited, Rejected
from channels.feishu.chats import Own
from channels.feishu.client import Refused, Wire
from channels.feishu.content import rows_of, word
from channels.feishu.render import ELEMENT, streaming
from channels.payloads import Body, soft
from channels.record import Recent
from channels.stale_typing import OpenIndicators

_log = logging.getLogger(__name__)
KEPT = 500  # streams, and entities made for a send that is still to be repeated
AHEAD = 100_000  # of any sequence that another process can have reached in a stream's ten minutes
CLOSED = 300309  # "streaming mode is closed": Feishu does that ten minutes after it was opened
# the card is in streaming mode, or somebody is pressing it
BUSY = frozenset({200810, 11310, 230099, 300309})
_LARGEST = 2**31 - 1


@dataclass(slots=True)
class _Stream:
    card: str
    sequence: int = 0


class Streams:
    """Cards that grow (Feishu docs: "Streaming updates"), by message: the entity, its text, its
    end. Nothing here is needed after a restart: the final text goes to the message, not to the
    entity."""

    def __init__(self, wire: Wire, clock: Clock) -> None:
        self._wire = wire
        self._clock = clock
        # key of the send -> card_id: a repeat of it must show the same card
        self._entities = Recent[str, str](KEPT)
        self._streams = Recent[str, _Stream](KEPT)
        self._able = True

    async def begin(self, key: str, card: Body) -> Body | None:
        """What a message holds that shows a new entity ("Create card entity"); None: streams cannot
        be had now, send the card itself."""
        if not self._able:
            return None
        if key not in self._entities:
            data = json.dumps(streaming(card), ensure_ascii=False, separators=(",", ":"))
            body = {"type": "card_json", "data": data}
            try:
                made = await self._wire.call("POST", "/open-apis/cardkit/v1/cards", body=body)
            except AuthFailed:
                raise
            except Rejected as refused:
                self._able = False
                _log.warning(
                    "feishu: no streaming cards, answers grow by edits instead: %s", refused
                )
                return None
            except ChannelError as error:
                _log.info("feishu: this answer grows by edits: %s", error)
                return None
            card_id = word(made, "card_id")
            if not card_id:
                return None
            self._entities[key] = card_id
        return {"type": "card", "data": {"card_id": self._entities[key]}}

    def shown(self, key: str, message: str) -> None:
        """The message of the send stands: its newer texts are streamed from now on."""
        card = self._entities.get(key)
        if card is not None:
            self._streams[message] = _Stream(card)

    async def write(self, message: str, text: str) -> bool:
        """False: it has no stream (any more), edit it instead. Raises AuthFailed, RateLimited,
        NotReady."""
        stream = self._streams.get(message)
        if stream is None:
            return False
        uri = "/open-apis/cardkit/v1/cards/:card_id/elements/:element_id/content"
        paths = {"card_id": stream.card, "element_id": ELEMENT}
        try:
            body: Body = {"content": text, "sequence": self._next(stream)}
            try:
                await self._wire.call("PUT", uri, paths=paths, body=body)
            except Refused as refused:
                if refused.code != CLOSED:
                    raise
                await self._set(stream, on=True)
                body["sequence"] = self._next(stream)
                await self._wire.call("PUT", uri, paths=paths, body=body)
        except Rejected as refused:
            _log.info("feishu: the stream of %s ended: %s", message, refused)
            del self._streams[message]
            return False
        return True

    async def end(self, message: str) -> None:
        """Before the final text, which is a card of its own; a stream that stays open would say
        "generating" for ten minutes."""
        stream = self._streams.pop(message, None)
        if stream is None:
            return
        try:
            await self._set(stream, on=False)
        except (AuthFailed, RateLimited):
            self._streams[message] = stream
            raise
        except ChannelError as error:
            _log.info("feishu: the stream of %s could not be closed: %s", message, error)

    async def end_of_earlier_life(self, message: str) -> str:
        """Another process began it. The entity behind a message ("Convert ID"), its stream closed
        now; "" when there is none."""
        try:
            answer = await self._wire.call(
                "POST", "/open-apis/cardkit/v1/cards/id_convert", body={"message_id": message}
            )
            card = word(answer, "card_id")
            if card:
                await self._set(_Stream(card, _seconds(self._clock) + AHEAD), on=False)
            return card
        except Rejected:
            return ""

    async def replace(self, card_id: str, card: Body) -> None:
        """Update card entity: where the message itself takes no other card. After
        ``end_of_earlier_life``."""
        stream = _Stream(card_id, _seconds(self._clock) + AHEAD + 1)
        data = json.dumps(card, ensure_ascii=False, separators=(",", ":"))
        whole = {"type": "card_json", "data": data}
        body = {"card": whole, "sequence": self._next(stream)}
        await self._wire.call(
            "PUT", "/open-apis/cardkit/v1/cards/:card_id", paths={"card_id": card_id}, body=body
        )

    async def _set(self, stream: _Stream, *, on: bool) -> None:
        """Update card settings."""
        settings = json.dumps({"config": {"streaming_mode": on}})
        body = {"settings": settings, "sequence": self._next(stream)}
        await self._wire.call(
            "PATCH",
            "/open-apis/cardkit/v1/cards/:card_id/settings",
            paths={"card_id": stream.card},
            body=body,
        )

    def _next(self, stream: _Stream) -> int:
        """Must grow with every call, also over lives (300317): seconds, and one more where that is
        not enough. An int32."""
        stream.sequence = min(_LARGEST, max(stream.sequence + 1, _seconds(self._clock)))
        return stream.sequence


def _seconds(clock: Callable[[], datetime]) -> int:
    return int(clock().timestamp())


EMOJI = "Typing"
_URI = "/open-apis/im/v1/messages/:message_id/reactions"


@dataclass(slots=True, eq=False)
class _Shown:
    message: str
    reaction: str = ""  # what became of it is not known


class Typing:
    """Feishu has no typing state for bots: the reaction "Typing" on the message that is being
    answered says it, and is taken back. One reaction for each place at most; as an indicator it is
    called as its message."""

    def __init__(self, wire: Wire, own: Own, indicators: OpenIndicators) -> None:
        self._wire = wire
        self._own = own
        self._indicators = indicators
        self._shown: dict[tuple[str, str | None], _Shown] = {}  # by place
        self._allowed = True

    async def on(self, address: Address) -> None:
        place = (str(address.chat), address.topic)
        message = self._own.newest_in(*place)
        if message is None or not self._allowed:
            return
        before = self._shown.get(place)
        if before is not None and before.message == message and before.reaction:
            return
        await self.off(address)
        self._shown[place] = shown = _Shown(message)
        await self._indicators.on(message)
        try:
            body = {"reaction_type": {"emoji_type": EMOJI}}
            made = await self._wire.call("POST", _URI, paths={"message_id": message}, body=body)
        except Rejected as refused:
            self._allowed = False
            self._shown.pop(place, None)
            await self._indicators.off(message)
            _log.info("feishu: no typing reactions: %s", refused)
            return
        shown.reaction = word(made, "reaction_id")
        if self._shown.get(place) is not shown:  # taken back before it was there
            await self._take_back(shown)

    async def off(self, address: Address) -> None:
        shown = self._shown.pop((str(address.chat), address.topic), None)
        if shown is not None:
            await self._take_back(shown)
            await self._indicators.off(shown.message)

    async def tidy(self) -> None:
        """Takes back what an earlier life left. Raises AuthFailed."""
        for message in self._indicators.left():
            await self._take_back(_Shown(message))
        await self._indicators.forget()

    async def _take_back(self, shown: _Shown) -> None:
        """Without its reaction: all of ours whose making was not heard of, because the line was
        lost or we died (List message reactions)."""
        paths = {"message_id": shown.message}
        reactions = [shown.reaction]
        try:
            if not shown.reaction:
                query = {"reaction_type": EMOJI, "page_size": 50}
                answer = await self._wire.call("GET", _URI, paths=paths, query=query)
                reactions = [
                    word(row, "reaction_id")
                    for row in rows_of(answer, "items")
                    if word(soft(row, "operator"), "operator_id") == self._wire.app
                ]
            for reaction in reactions:
                where = paths | {"reaction_id": reaction}
                await self._wire.call("DELETE", f"{_URI}/:reaction_id", paths=where)
        except AuthFailed:
            raise
        except ChannelError as error:
            _log.info("feishu: the typing reaction on %s stays: %s", shown.message, error)


MOST = 1000  # presses that wait at the same time


class Presses:
    """A pressed button waits a moment for the house's words: Feishu takes them only in the answer
    to the press itself, within three seconds. By the token of the press."""

    def __init__(self) -> None:
        self._waiting = Recent[str, asyncio.Future[str]](MOST)

    def expect(self, token: str) -> None:
        self._waiting[token] = asyncio.get_running_loop().create_future()

    def say(self, token: str, words: str) -> bool:
        """False: the answer is gone already, or the press was another life's."""
        waiting = self._waiting.get(token)
        if waiting is None or waiting.done():
            return False
        waiting.set_result(words)
        return True

    async def words(self, token: str, within: float) -> str:
        """Empty when nothing was said in time (seconds)."""
        waiting = self._waiting.get(token)
        if waiting is None:
            return ""
        try:
            done, _ = await asyncio.wait([waiting], timeout=within)
            if done and not waiting.cancelled():
                return waiting.result()
            return ""
        finally:
            self._waiting.pop(token, None)
