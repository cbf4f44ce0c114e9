"""Traces for whoever collects them by OTLP; OpenTelemetry is imported only where an endpoint is
named."""

from __future__ import annotations

from collections.abc import Mapping


def endpoint(environ: Mapping[str, str]) -> str | None:
    """Where spans go, by the names of the OpenTelemetry specification ("OTLP Exporter
    Configuration"); None: nowhere."""
    if environ.get("OTEL_SDK_DISABLED", "").lower() == "true":
        return None
    if own := environ.get("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "").strip():
        return own
    general = environ.get("OTEL_EXPORTER_OTLP_ENDPOINT", "").strip()
    return general.rstrip("/") + "/v1/traces" if general else None
