"""Traces, when an OTLP endpoint is named."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, cast

import ohmo
from ohmo.contracts.errors import ConfigError
from ohmo.discovery import load
from ohmo.tracing import endpoint


def spans(environ: Mapping[str, str]) -> Any | None:
    """``ohmo.tracing.spans.Spans``; None when no endpoint is named, and then nothing is imported.
    Raises ConfigError: its package is missing."""
    url = endpoint(environ)
    if url is None:
        return None
    try:
        found = load("ohmo.tracing.spans:Spans")
    except ConfigError as error:
        raise ConfigError(
            f"traces are wanted at {url}, but OpenTelemetry is not installed; pip install"
            " 'ohmo[otel]'"
        ) from error
    return cast("Callable[[str, Mapping[str, str], str], Any]", found)(
        url, environ, ohmo.__version__
    )
