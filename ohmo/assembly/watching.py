"""Who watches the house from outside: traces, when an OTLP endpoint is named."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any, cast

import ohmo
from channels.contract import Channel
from ohmo.contracts.errors import ConfigError
from ohmo.contracts.store import OutRow
from ohmo.discovery import load
from ohmo.gateway.sending import Done, Sender
from ohmo.tracing import endpoint

Sent = Callable[[OutRow, str, float], None]


def spans(environ: Mapping[str, str]) -> Any | None:
    """``ohmo.tracing.spans.Spans``; None when no endpoint is named, and then nothing is imported. Raises ConfigError: its package is missing."""
    url = endpoint(environ)
    if url is None:
        return None
    try:
        found = load("ohmo.tracing.spans:Spans")
    except ConfigError as error:
        raise ConfigError(f"traces are wanted at {url}, but OpenTelemetry is not installed; pip install 'ohmo[otel]'") from error
    return cast("Callable[[str, Mapping[str, str], str], Any]", found)(url, environ, ohmo.__version__)


class WatchedSender(Sender):
    """Tells ``sent`` how each row went and how many seconds it took."""

    def __init__(self, channel: Channel, sent: Sent, *parts: Any, **more: Any) -> None:
        super().__init__(channel, *parts, **more)
        self._sent = sent

    async def send(self, row: OutRow, tries: int = 0) -> Done:
        began = time.monotonic()
        done = await super().send(row, tries)
        self._sent(row, done.state, time.monotonic() - began)
        return done
