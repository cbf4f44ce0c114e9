"""Why a Socket Mode handshake failed: the SDK tells nobody but its log, and there with the ticket,
which is no word for a log."""

from __future__ import annotations

import logging

from aiohttp import WSServerHandshakeError


class Overheard(logging.Handler):
    """Of one socket. ``log``: hand it to the SDK; it leads nowhere else. ``why``: ": HTTP 403", or
    "" as long as nothing failed."""

    def __init__(self) -> None:
        super().__init__()
        self.why = ""
        self.log = logging.Logger("channels.slack.socket", logging.ERROR)  # noqa: LOG001 - one for each socket, and outside of the tree
        self.log.addHandler(self)

    def emit(self, record: logging.LogRecord) -> None:
        error = record.exc_info[1] if record.exc_info else None
        if isinstance(error, WSServerHandshakeError):
            self.why = f": HTTP {error.status}"
        elif error is not None:
            self.why = f": {type(error).__name__}"
