"""What of the outside world every room is handed: ids, time, failpoints."""

from __future__ import annotations

from datetime import UTC, datetime

from channels.contract import Clock
from channels.record import record
from ohmo.failpoints import Failpoint, inert
from ohmo.ids import NewId


def utc_now() -> datetime:
    return datetime.now(UTC)


@record
class Ambient:
    """Tests bring their own."""

    new_id: NewId
    clock: Clock = utc_now
    failpoint: Failpoint = inert
