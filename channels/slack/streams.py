"""Slack's native text streams (chat.startStream, appendStream, stopStream): asked for with
``streaming: native``, given up for edits whenever Slack refuses."""

from __future__ import annotations

from channels.contract import Receipt
from channels.errors import AuthFailed, ChannelError
from channels.payloads import Body
from channels.record import Recent
from channels.slack.client import Refused, Wire
from channels.slack.render import streamed

OPEN = 500  # streams and askers that are remembered


class Streams:
    """The streams of one connection. After a restart none is known: their messages are edited, and
    Slack closes them by itself."""

    def __init__(self, wire: Wire) -> None:
        self._wire = wire
        self._open = Recent[str, str](OPEN)  # ts -> what was said last in one go
        self._askers = Recent[tuple[str, str], str](OPEN)  # thread -> who is answered there

    def asked(self, chat: str, thread: str, person: str) -> None:
        self._askers[chat, thread] = person

    def __contains__(self, ts: object) -> bool:
        return ts in self._open

    async def start(self, team: str, body: Body) -> Body | None:
        """Slack's answer; None: no stream can be here, say it as a message. Raises ChannelError but
        Rejected."""
        call: Body = {"channel": body["channel"], "markdown_text": body["markdown_text"]}
        thread = body.get("thread_ts")
        if thread:
            call["thread_ts"] = thread
        if not str(body["channel"]).startswith(
            "D"
        ):  # outside of direct messages Slack wants to know who is answered
            person = self._askers.get((str(body["channel"]), str(thread)))
            if person is None:
                return None
            call |= {"recipient_team_id": team, "recipient_user_id": person}
        try:
            sent = await self._wire.write("chat.startStream", call, once=True)
        except Refused:
            return None
        if isinstance(ts := sent.get("ts"), str):
            self._open[ts] = str(body["markdown_text"])
        return sent

    async def grow(self, chat: str, receipt: Receipt, text: str) -> None:
        """What is new in ``text`` is appended; another text begins a paragraph. Raises ChannelError
        but Rejected."""
        said, text = self._open[receipt.message], streamed(text)
        more = text[len(said) :] if text.startswith(said) else f"\n\n{text}"
        if not more:
            return
        try:
            await self._wire.write(
                "chat.appendStream",
                {"channel": chat, "ts": receipt.message, "markdown_text": more},
                once=False,
            )
        except Refused:  # closed by Slack after some minutes: edits go on
            self._open.pop(receipt.message, None)
            return
        self._open[receipt.message] = text

    async def stop(self, chat: str, ts: str) -> None:
        """Whatever Slack says to it: what follows is an edit. Raises AuthFailed."""
        self._open.pop(ts, None)
        try:
            await self._wire.write("chat.stopStream", {"channel": chat, "ts": ts}, once=False)
        except AuthFailed:
            raise
        except ChannelError:
            return

    async def update(self, body: Body, ts: str) -> Body:
        """chat.update of a message that may still be a stream, which Slack does not edit. Raises
        ChannelError."""
        if ts in self._open:
            await self.stop(str(body["channel"]), ts)
        call = body | {"ts": ts}
        try:
            return await self._wire.write("chat.update", call, once=False)
        except Refused as refused:
            if "stream" not in refused.word:
                raise
        await self.stop(str(body["channel"]), ts)
        return await self._wire.write("chat.update", call, once=False)
