"""A second ohmo on the same account: a homeserver shows both everything and tells neither, so each
leaves word in the account's own data.

Source: Matrix Client-Server API, "Client Config" (account data is seen by the account alone, and a
change comes to each of its clients by ``/sync``). Whoever comes leaves word; who was here before
answers in the same place. So word of an older one, written after ours, was written by one that
lives."""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Mapping
from typing import Any

from channels.competing_instance import CompetingInstance
from channels.errors import ChannelError, NotReady, RateLimited
from channels.matrix.client import MatrixClient

log = logging.getLogger("channels.matrix")

TYPE = "ohmo.connected"
RARELY = 60.0  # seconds between two tries at a homeserver that never takes our word, at most
_WHAT = "matrix: another ohmo is connected with this account"


class Doubles:
    """Of one connection."""

    def __init__(self, client: MatrixClient, me: str, competing: CompetingInstance) -> None:
        self._client = client
        self._me = me
        self._competing = competing
        self._life = secrets.token_hex(8)
        # seconds until word is left again
        self._asks = 0.0
        self._wanted = asyncio.Event()
        self._left = False
        self._failed = 0

    async def leave_word(self) -> None:
        """A homeserver that refuses it only leaves us blind; one that is busy or away is asked
        again. Refused credentials end the sync, too."""
        try:
            await self._client.set_account_data(
                self._me, TYPE, {"life": self._life, "since": self._competing.since}
            )
        except ChannelError as error:
            again = self._again(error)
            level, when = (
                logging.INFO if self._failed else logging.WARNING,
                "" if again is None else f" (again in {again:g} s)",
            )
            log.log(
                level, "%s: word of this connection could not be left: %s%s", self._me, error, when
            )
            self._failed += 1
            if again is not None:
                self._ask(again)
        else:
            self._left, self._failed = True, 0

    def _again(self, error: ChannelError) -> float | None:
        """Seconds, more of them each time; None: never."""
        if isinstance(error, RateLimited):
            return error.retry_after
        return (
            min(self._client.pace.ask * 2.0 ** min(self._failed, 30), RARELY)
            if isinstance(error, NotReady)
            else None
        )

    def heard(self, content: Mapping[str, Any]) -> None:
        """Word that was left, ours or another's. Raises InUse at the third answer of an older one,
        after a stop at the first. What stood there before ours may have been left by a home that is
        gone; what was left in the same millisecond was left by an earlier connection of ours."""
        life, since = content.get("life"), content.get("since")
        if (
            not isinstance(life, str)
            or not isinstance(since, int)
            or life == self._life
            or since == self._competing.since
        ):
            return
        if since > self._competing.since:
            self._ask(0.0)
            return
        if not self._left:
            return
        self._competing.conflict(_WHAT)
        self._ask(self._client.pace.ask)

    def _ask(self, seconds: float) -> None:
        self._asks = seconds
        self._wanted.set()

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            await self._wanted.wait()
            self._wanted.clear()
            await asyncio.sleep(self._asks)
            await self.leave_word()
