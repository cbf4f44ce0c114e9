"""What the owner has to hear: one message per incident, through the first door that leads to them,
never the one that is broken."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime, timedelta

import structlog

from channels.contract import Address, ChatId, Clock, Outbound
from channels.errors import Unavailable
from ohmo.ambient import NewId, derived
from ohmo.contracts.errors import StoreError
from ohmo.contracts.inwriter import in_writer
from ohmo.contracts.outbox import PostRow
from ohmo.contracts.store import Outbox

log = structlog.get_logger("ohmo.notices")
AGAIN = timedelta(hours=6)  # the same incident is told again after this
MOST = 20  # notices that wait for a chat
DASHBOARD = Address("web", "local", ChatId("notices"))
INDOORS = Address(
    "house", "local", ChatId("notices")
)  # when there is no page: read with `ohmo sessions`


class Notices:
    """``owners``: ``channel:person`` as configured. ``address_of`` parses what follows the colon
    with the channel's own grammar (ValueError: it names no place); None: that channel is not
    connected. Without an owner notices stand in ``dashboard``, the browser chat ``notices``; also
    those that come before an owner can be reached, who is told them as soon as one of their
    channels is connected."""

    def __init__(
        self,
        outbox: Outbox,
        owners: tuple[str, ...],
        *,
        address_of: Callable[[str, str], Address | None],
        new_id: NewId,
        clock: Clock,
        dashboard: Address = DASHBOARD,
    ) -> None:
        self._outbox = outbox
        self._owners = owners
        self._address_of = address_of
        self._new_id = new_id
        self._clock = clock
        self._dashboard = dashboard
        self._told: dict[str, datetime] = {}
        self._unheard: list[
            tuple[str, str, str, Address | None]
        ] = []  # row, text, not through, not at: what no owner saw in a chat yet

    async def tell(
        self,
        incident: str,
        text: str,
        *,
        not_through: str = "",
        not_at: Address | None = None,
        at: Address | None = None,
        heard_at: Address | None = None,
        once: str = "",
    ) -> bool:
        """``incident`` names it, so that it is told once. ``not_through``: the channel that is
        broken. ``not_at``: the chat that is; another channel is better then, and another chat of
        the same one will do. ``at``: say it in this place instead. ``heard_at``: where it was said
        already; an owner who reads there, as on the page, is not told again. ``once``: the id of
        its row, so that it is told once over restarts too. False: told before, or nobody can be
        told."""
        now = self._clock()
        if (told := self._told.get(incident)) is not None and now - told < AGAIN:
            return False
        if heard_at is not None and (
            heard_at.channel == DASHBOARD.channel or self._address(not_through) == heard_at
        ):
            return False
        self._told = {name: at for name, at in self._told.items() if now - at < AGAIN} | {
            incident: now
        }
        log.warning("owner_notice", incident=incident, text=text)
        row = once or self._new_id()
        place = at or self._address(not_through, not_at)
        # On the page only until a chat of theirs can be reached; the row itself is for that chat:
        # who saw it there does not see it again.
        waits = place == self._dashboard and bool(self._owners)
        try:
            await self._outbox.post(
                [PostRow(derived("page", row) if waits else row, "notice", Outbound(place, text))]
            )
        except (Unavailable, StoreError) as error:
            self._told.pop(incident)
            log.error("owner_notice_failed", incident=incident, error=str(error))
            return False
        if waits:
            self._unheard = [*self._unheard, (row, text, not_through, not_at)][-MOST:]
            await self.connected()  # one may have come while it was written
        return True

    async def connected(self) -> None:
        """A channel is connected now: what its owner was not told there before is told."""
        for unheard in list(self._unheard):
            row, text, not_through, not_at = unheard
            if (
                place := self._address(not_through, not_at)
            ) == self._dashboard or unheard not in self._unheard:
                continue
            self._unheard.remove(unheard)
            try:
                await self._outbox.post([PostRow(row, "notice", Outbound(place, text))])
            except (Unavailable, StoreError) as error:
                self._unheard.append(unheard)
                log.error("owner_notice_failed", incident=row, error=str(error))

    def knows(self, incident: str) -> bool:
        """Whether it is told. False after a ``tell`` that could not be stored."""
        return incident in self._told

    def over(self, incident: str) -> None:
        """The incident has ended; the next one of this name is told at once."""
        self._told.pop(incident, None)

    @in_writer
    def owner_place(self) -> Address:
        """Where the owner reads now."""
        return self._address("")

    def _address(self, not_through: str, not_at: Address | None = None) -> Address:
        spare: Address | None = None
        for owner in self._owners:
            channel, _, rest = owner.partition(":")
            if channel == not_through:
                continue
            try:
                address = self._address_of(channel, rest)
            except ValueError as error:
                log.warning("owner_without_address", owner=owner, error=str(error))
                continue
            if address is None or address == not_at:
                continue
            if not_at is None or channel != not_at.channel:
                return address
            spare = spare or address
        return spare or self._dashboard


def owners_of(configured: tuple[str, ...], roles: Mapping[str, str]) -> tuple[str, ...]:
    """Who counts as owner: the top-level list first, then ``access.roles.owner``."""
    return tuple(
        dict.fromkeys([*configured, *(name for name, role in roles.items() if role == "owner")])
    )
