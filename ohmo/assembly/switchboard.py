"""Builds the switchboard: how each connected channel is spoken through."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import tzinfo

from channels.contract import Channel
from channels.record import Recent
from ohmo.assembly.agent import redactor
from ohmo.assembly.deps import Deps
from ohmo.commands.contract import Command
from ohmo.gateway.connections import LinkSettings
from ohmo.gateway.delivery import Sending
from ohmo.gateway.drafts import DraftRows, Drafts, Look, way_of
from ohmo.gateway.sending import Pace, Rate, Sender, Sent, TimedSender
from ohmo.gateway.switchboard import BoardParts, Switchboard
from ohmo.sessions.pool import Pool

CONNECTIONS = 100  # whose waits are remembered


def build_board(
    deps: Deps,
    links: Sequence[LinkSettings],
    pool: Pool,
    known: Mapping[str, Command],
    zone: tzinfo,
    sent: Sent | None,
) -> Switchboard:
    """``known``: the commands a platform's own menu shows. ``zone``: in which times are told.
    ``sent``: who is told how each delivery went, None: nobody."""
    seams = deps.seams
    store = deps.store
    redact = redactor(deps.config)
    paces = Recent[int, Pace](CONNECTIONS)
    rows = DraftRows(pool.draft, seams.new_id, store.drafted)

    def pace_of(channel: Channel) -> Pace:
        """One for all that is said through a connection. What the platform asks for is obeyed;
        nothing is guessed."""
        pace = paces.setdefault(id(channel), Pace(chat=Rate(0.0), account=Rate(0.0)))
        paces.move_to_end(id(channel))
        return pace

    def sender(channel: Channel) -> Sending:
        plain = Sender(
            channel,
            store,
            clock=seams.clock,
            pace=pace_of(channel),
            failpoint=seams.failpoint,
            redact=redact,
        )
        return plain if sent is None else TimedSender(plain, sent)

    def drafts(channel: Channel, link: LinkSettings) -> Drafts:
        look = Look(way_of(link.streaming), tools=link.activity != "off", redact=redact)
        return Drafts(
            channel, link.name, deps.bus.outbound.listen, rows, look, pace=pace_of(channel)
        )

    parts = BoardParts(
        store=store,
        publish=deps.bus.publish,
        notices=deps.notices,
        sender=sender,
        drafts=drafts,
        commands=[
            (command.name, f"{command.usage} {command.summary}".strip())
            for command in known.values()
        ],
        set_since=deps.seams.clock.set_since,
        clock=seams.clock,
        owner=seams.owner,
        storing=store.availability.here,
        spoke=store.last_delivery,
        zone=zone,
    )
    return Switchboard(links, parts, deps.connections)
