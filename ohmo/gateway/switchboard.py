"""Connects the channels and keeps them alive: each is supervised alone, by the word of its own
failure."""

from __future__ import annotations

import asyncio
import random
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, tzinfo
from typing import Any, cast

import structlog

from channels.contract import Address, Channel, Clock, Probed, Wary
from channels.errors import (
    AuthFailed,
    ChannelError,
    InUse,
    NotReady,
    RateLimited,
    Unavailable,
    main_error,
)
from channels.record import record
from ohmo.contracts.errors import LeaseLost, StoreError
from ohmo.contracts.outbox import OutRow
from ohmo.contracts.reports import ChannelStatus
from ohmo.contracts.store import Store
from ohmo.gateway.connections import (
    Connections,
    Health,
    LinkContext,
    LinkParts,
    LinkSettings,
    Publish,
    SetSince,
    never_set,
)
from ohmo.gateway.delivery import Delivery, DeliveryNews, Sending
from ohmo.gateway.drafts import Drafts
from ohmo.gateway.notices import Notices
from ohmo.lifecycle import failure_of, within

log = structlog.get_logger("ohmo.channels")
LEASE = 15.0  # seconds
# seconds between tries after the platform refused our credentials, and between questions whether it
# still takes them
PROBE = 300.0
PROBE_LIMIT = 30.0  # seconds one such question may take
STEADY = 120.0  # seconds of a connection that ends an incident
# seconds a channel that stopped for another one only listens: is the other one still there, nothing
# is said twice
LISTENS = 10.0
# seconds of a connection after which another one that uses our credentials counts as gone
ALONE = 3600.0
# seconds of a connection that was heard, after which its loss is a new one: the next try comes soon
# again
USEFUL = 10.0
OPENING = 30  # seconds other channels get to connect before the owner is told through one of them
# seconds between tries of a channel that cannot be reached, at most: while it is away for less than
# YOUNG, and later
SHORT = 15.0
LONG = 60.0
YOUNG = 600.0
QUICK = 8  # tries of one outage, whatever their reasons, that need not wait as long
TELL_AFTER = 5  # tries of a channel that cannot be reached before the owner hears of it
BUILD_LIMIT = 60.0  # seconds for importing an SDK and building an adapter


@record
class BoardParts:
    """What every connection is built from. ``sender`` and ``drafts`` make the speaking half for a
    connected channel. ``sleep`` and ``now`` are in real seconds, ``draw`` gives 0 to 1. ``storing``
    waits until the store takes what is written. ``set_since``: by how much the clock was set
    forward after a moment. ``spoke``: when an account last delivered something in an earlier
    life."""

    store: Store
    publish: Publish
    notices: Notices
    sender: Callable[[Channel], Sending]
    drafts: Callable[[Channel, LinkSettings], Drafts]
    commands: Sequence[tuple[str, str]]
    clock: Clock
    owner: str
    storing: Callable[[], Awaitable[object]]
    spoke: Callable[[str, str], Awaitable[datetime | None]]
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    now: Callable[[], float] = time.monotonic
    draw: Callable[[], float] = random.random
    set_since: SetSince = never_set
    zone: tzinfo = UTC  # in which times are told to people


@dataclass(slots=True)
class Outage:
    """A connection that is away: when it began, in the caller's seconds, and tries by the kind of
    their failure. Reasons of different kinds in a row do not add up to one long pause."""

    began: float | None = None
    tries: Counter[type] = field(default_factory=Counter[type])

    def pause(self, error: Exception | None, now: float, draw: Callable[[], float]) -> float:
        """Seconds until the next try: doubling from one, to SHORT at most while it is young, to
        LONG later, at most a hundred in an hour. What the platform asks for (Retry-After) is the
        pause itself."""
        self.began = now if self.began is None else self.began
        kind = type(error)
        self.tries[kind] += 1
        quick = self.tries.total() <= QUICK
        asked = error.retry_after if isinstance(error, RateLimited) else 0.0
        if quick and asked >= 1.0:
            return asked
        most = SHORT if now - self.began < YOUNG else LONG
        step = min(most, 2.0 ** (self.tries[kind] - 1)) if quick else most
        certain = 0.5 if step < most else 0.97
        return max(asked, step * (certain + (1.0 - certain) * draw()))


class Switchboard:
    """One supervised life per link. ``connections`` is told which of them are connected."""

    def __init__(
        self, links: Sequence[LinkSettings], parts: BoardParts, connections: Connections
    ) -> None:
        self._links = links
        self._parts = parts
        self._connections = connections
        self._health = {link.label: Health() for link in links}
        self._since: dict[str, float] = {}  # by label: when its connection could speak

    def report(self) -> Mapping[str, ChannelStatus]:
        """Health by label."""
        now = self._parts.clock()
        set_since = self._parts.set_since
        return {
            label: health.report(now, set_since)
            for label, health in self._health.items()
            if label != "house"
        }

    async def run(self) -> None:
        """Until cancelled."""
        async with asyncio.TaskGroup() as group:
            for link in self._links:
                group.create_task(self._supervise(link), name=f"channel.{link.label}")

    async def _supervise(self, link: LinkSettings) -> None:
        health = self._health[link.label]
        outage = Outage()
        pause = 0.0
        while True:
            health.alive = health.useful = False
            error = await failure_of(self._life(link, health))
            if isinstance(error, ExceptionGroup):
                error = main_error(cast("ExceptionGroup[Exception]", error), AuthFailed, LeaseLost)
            now = self._parts.now()
            lived = now - self._since.pop(link.label, now) if health.alive else 0.0
            if lived > max(USEFUL, pause) or (health.useful and isinstance(error, ChannelError)):
                outage = Outage()
            if lived > STEADY:
                for incident in ("auth", "down"):
                    self._parts.notices.over(f"{incident}:{link.label}")
            if lived > ALONE:
                self._parts.notices.over(f"conflict:{link.label}")
            pause = outage.pause(error, now, self._parts.draw)
            pause = await self._fallen(link, health, error, outage) or pause
            await self._parts.sleep(pause)

    async def _fallen(
        self, link: LinkSettings, health: Health, error: Exception | None, outage: Outage
    ) -> float:
        """Says what happened, and how long to wait where the reason decides that; else 0."""
        reason = "the channel stopped by itself"
        if error is not None:
            reason = str(error) or type(error).__name__
        log.warning("channel_down", channel=link.label, error=reason, kind=type(error).__name__)
        if isinstance(error, InUse):
            health.state = "conflict"
            health.detail = reason
            health.wary = True
            text = (
                f"{link.label} is stopped: {reason.rstrip('.')}. It is tried every five minutes and"
                " goes on once the other one is gone; what is to be said there waits."
            )
            await self._tell(f"conflict:{link.label}", text, link)
            return PROBE
        if isinstance(error, AuthFailed):
            health.state = "auth_failed"
            health.detail = reason
            text = (
                f"{link.label} cannot be used: {reason.rstrip('.')}. Once that is mended it goes on"
                " within five minutes; nothing is lost meanwhile."
            )
            await self._tell(f"auth:{link.label}", text, link)
            return PROBE
        if isinstance(error, LeaseLost | _Standby):
            health.state = "standby"
            health.detail = "another instance holds this connection"
            return LEASE / 3
        health.state = "reconnecting"
        health.detail = reason
        if error is not None and not isinstance(error, ChannelError | Unavailable):
            health.state = "failed"
            health.detail = f"{type(error).__name__}: {error}"
            log.error("channel_failed", channel=link.label, error=health.detail, exc_info=error)
        if outage.tries.total() == TELL_AFTER:
            text = f"{link.label} cannot be reached: {health.detail}"
            await self._tell(f"down:{link.label}", text, link)
        return 0.0

    async def _tell(self, incident: str, text: str, link: LinkSettings) -> None:
        """Through another door than the broken one; at the start the others get a moment to
        open."""
        for _ in range(OPENING):
            if not any(health.state == "starting" for health in self._health.values()):
                break
            await self._parts.sleep(1.0)
        await self._parts.notices.tell(incident, text, not_through=link.name)

    async def _life(self, link: LinkSettings, health: Health) -> None:
        # A connection is worth nothing while nothing that it brings can be kept.
        await self._parts.storing()
        if link.heavy:
            channel = await within(BUILD_LIMIT, asyncio.to_thread(link.build))
        else:
            channel = link.build()
        health.wary = health.wary or (isinstance(channel, Wary) and channel.wary)
        if health.state == "standby":
            # While another instance speaks to it, the platform is asked nothing.
            await self._lease(_lease_name(link, health.account))
        async with channel.connect():
            health.account = channel.account
            link.met(channel.account)
            name = _lease_name(link, channel.account)
            generation = await self._lease(name)
            drafts = self._parts.drafts(channel, link)
            if not self._connections.opened(link.name, channel, drafts):
                # two would say everything twice
                raise AuthFailed(
                    f"its account {channel.account} is connected by another entry of the"
                    " configuration; remove one of the two"
                )
            self._since[link.label] = self._parts.now()
            probed = isinstance(channel, Probed)
            can = channel.capabilities
            health.connected(
                self._parts.clock(),
                account=channel.account,
                silence=can.silence,
                probed=probed,
                greets=can.greets,
            )
            log.info("channel_connected", channel=link.label, account=channel.account)
            await self._parts.notices.connected()
            try:
                await self._talk(link, channel, drafts, health, (name, generation))
            finally:
                self._connections.closed(link.name, channel.account)
                await failure_of(self._parts.store.unlease(name, self._parts.owner))

    async def _lease(self, name: str) -> int:
        generation = await self._parts.store.lease(name, self._parts.owner, LEASE)
        if generation is None:
            raise _Standby
        return generation

    async def _talk(
        self,
        link: LinkSettings,
        channel: Channel,
        drafts: Drafts,
        health: Health,
        lease: tuple[str, int],
    ) -> None:
        """``lease``: its name and generation."""
        parts = self._parts
        name, generation = lease

        def shown(row: OutRow, receipts: object) -> None:
            health.delivered(parts.clock())
            drafts.shown(row, receipts)  # pyright: ignore[reportArgumentType]

        async def dead(row: OutRow, reason: str) -> None:
            if row.row.kind == "draft":
                return  # the answer itself is another row
            where = f"{link.label}:{row.row.outbound.address.chat}"
            text = (
                f"A message to {where} could not be delivered: {reason}. `ohmo outbox list`"
                " shows it."
            )
            await parts.notices.tell(f"dead:{where}", text, not_at=row.row.outbound.address)

        delivery = Delivery(
            channel,
            link.name,
            parts.store,
            parts.sender(channel),
            clock=parts.clock,
            news=DeliveryNews(dead, shown, drafts.make_way),
        )

        async def say(text: str, address: Address | None) -> None:
            incident = f"missed:{link.label}:{address}:{text}"
            await parts.notices.tell(incident, text, at=address)

        hears = LinkParts(parts.publish, parts.store.cursor, say, parts.clock, parts.zone)
        context = LinkContext(link, channel.account, generation, health, hears)
        async with asyncio.TaskGroup() as group:
            group.create_task(self._recall(link, health), name=f"recall.{link.label}")
            group.create_task(self._hold(name), name=f"lease.{link.label}")
            group.create_task(self._speak(health, delivery.run()), name=f"delivery.{link.label}")
            group.create_task(self._speak(health, drafts.run()), name=f"drafts.{link.label}")
            group.create_task(self._menu(channel), name=f"menu.{link.label}")
            group.create_task(self._receive(channel, context), name=f"receive.{link.label}")
            if isinstance(channel, Probed):
                group.create_task(self._prove(channel, health), name=f"probe.{link.label}")

    async def _speak(self, health: Health, speaking: Coroutine[Any, Any, None]) -> None:
        try:
            if health.wary:
                await self._parts.sleep(LISTENS)
                health.wary = False
            await speaking
        finally:
            speaking.close()

    async def _recall(self, link: LinkSettings, health: Health) -> None:
        """The status tells of the last answer also when that was before this life."""
        if health.last_delivery is None:
            with suppress(Unavailable, StoreError):  # it is only told less
                earlier = await self._parts.spoke(link.name, health.account)
                health.last_delivery = health.last_delivery or earlier

    async def _receive(self, channel: Channel, context: LinkContext) -> None:
        """The store's bad moments do not cost the connection's other half: what was not stored
        comes again."""
        while True:
            try:
                await channel.receive(context)
            except Unavailable as error:
                log.error("store_unavailable", doing="receive", error=str(error))
                await self._parts.sleep(1.0)
                await self._parts.storing()
            else:
                raise NotReady("the connection ended")

    async def _prove(self, channel: Probed, health: Health) -> None:
        """Asks the platform now and then whether it still knows us; refused credentials end the
        connection, everything else is only not a proof."""
        while True:
            await self._parts.sleep(PROBE)
            error = await failure_of(within(PROBE_LIMIT, channel.probe()))
            if isinstance(error, AuthFailed):
                raise error
            if error is None:
                health.proved = self._parts.clock()
            else:
                log.warning("probe_failed", error=str(error))

    async def _menu(self, channel: Channel) -> None:
        error = await failure_of(channel.menu(self._parts.commands))
        if error is not None:
            log.warning("menu_failed", error=str(error))

    async def _hold(self, name: str) -> None:
        """Renews the connection's lease; losing it ends the connection, and so does a store that
        could not be asked while it lasted."""
        renewed_at = self._parts.now()
        while True:
            await self._parts.sleep(LEASE / 3)
            try:
                if await self._parts.store.lease(name, self._parts.owner, LEASE) is None:
                    raise LeaseLost(f"{name} is held by another instance")
                renewed_at = self._parts.now()
            except Unavailable as error:
                log.error("store_unavailable", doing="lease", error=str(error))
                if self._parts.now() - renewed_at >= LEASE * 2 / 3:
                    raise


class _Standby(Exception):
    """Another instance holds this connection."""


def _lease_name(link: LinkSettings, account: str) -> str:
    return f"channel:{link.name}:{account}"


__all__ = ["BoardParts", "LinkSettings", "Switchboard"]
