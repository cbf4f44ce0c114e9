"""One event of the gateway as it came, and how long the wire waits."""

from __future__ import annotations

from typing import Any

from channels.record import record

Body = dict[str, Any]


@record
class Pace:
    """How long the wire waits, in seconds."""

    call: float = 30.0  # one REST call as a whole
    connect: float = 10.0  # one TCP connection
    hello: float = 20.0  # a gateway handshake up to Hello
    mute: float = 55.0  # without a single frame: a socket that is half open
    rest: float = 5.0  # least time between two gateway connections in a row
    identify: float = 5.0  # least time between two new sessions
    upload: float = 300.0  # the bytes of one file, one way


@record
class Frame:
    """One dispatch of a session. ``data`` None: it could not be read, ``raw`` is what came."""

    session: str
    number: int
    event: str
    data: Body | None
    raw: object = None
