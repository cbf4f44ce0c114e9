"""On whose rights a turn runs."""

from __future__ import annotations

from channels.contract import Inbound
from ohmo.contracts.arrivals import Arrival, Wake
from ohmo.contracts.tool import Standing
from ohmo.gateway.access import Access


def standing_of(first: Arrival, access: Access) -> Standing:
    """``first``: what the turn begins with."""
    if isinstance(first, Wake):
        if first.again is not None and first.terms is None:
            return first.again.standing
        if first.terms is not None and first.terms.standing is not None:
            return first.terms.standing
        return "owner" if first.person == "owner" else _of_wake(first, access)
    private = first.private if isinstance(first, Inbound) else True
    return access.let_in(first, private=private) or "guest"


def _of_wake(wake: Wake, access: Access) -> Standing:
    channel, colon, person = wake.person.partition(":")
    if colon:  # the wake of somebody's job runs in the house, but never with more than their rights
        return access.of_absent(channel, wake.account, person) or "guest"
    return access.of_absent(wake.place.channel, wake.place.account, wake.person) or "guest"
