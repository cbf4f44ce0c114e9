"""Builds the switchboard: how each connected channel is spoken through."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping

from channels.contract import Channel
from ohmo.assembly.ground import Ground
from ohmo.assembly.watching import Sent, WatchedSender
from ohmo.commands.contract import Command
from ohmo.gateway.delivery import Sending
from ohmo.gateway.drafts import DraftRows, Drafts, Look, way_of
from ohmo.gateway.link import LinkSettings
from ohmo.gateway.pace import Pace, Rate
from ohmo.gateway.sending import Sender
from ohmo.gateway.switchboard import BoardParts, Switchboard
from ohmo.sessions.pool import Pool

CONNECTIONS = 100  # whose waits are remembered


def build_board(
    ground: Ground, pool: Pool, known: Mapping[str, Command], sent: Sent | None
) -> Switchboard:
    """``known``: the commands a platform's own menu shows. ``sent``: who is told how each delivery
    went, None: nobody."""
    seams, store = ground.seams, ground.store
    paces: OrderedDict[int, Pace] = OrderedDict()
    rows = DraftRows(pool.draft, seams.new_id, store.drafted)

    def pace_of(channel: Channel) -> Pace:
        """One for all that is said through a connection. What the platform asks for is obeyed;
        nothing is guessed."""
        pace = paces.setdefault(id(channel), Pace(chat=Rate(0.0), account=Rate(0.0)))
        paces.move_to_end(id(channel))
        while len(paces) > CONNECTIONS:
            paces.popitem(last=False)
        return pace

    def sender(channel: Channel) -> Sending:
        plain = Sender(
            channel,
            store,
            clock=seams.clock,
            pace=pace_of(channel),
            failpoint=seams.failpoint,
            redact=ground.redact,
        )
        return plain if sent is None else WatchedSender(plain, sent)

    def drafts(channel: Channel, link: LinkSettings) -> Drafts:
        look = Look(way_of(link.streaming), tools=link.activity != "off", redact=ground.redact)
        return Drafts(
            channel, link.name, ground.bus.outbound.listen, rows, look, pace=pace_of(channel)
        )

    parts = BoardParts(
        store=store,
        publish=ground.bus.publish,
        notices=ground.notices,
        sender=sender,
        drafts=drafts,
        commands=[
            (command.name, f"{command.usage} {command.summary}".strip())
            for command in known.values()
        ],
        set_since=ground.seams.clock.set_since,
        clock=seams.clock,
        owner=seams.owner,
        storing=store.pulse.here,
        spoke=store.last_delivery,
        zone=ground.clockwork.zone,
    )
    return Switchboard(ground.wired.links, parts)
