"""Events of turns become spans: one per run of a turn, in it one per model call and per tool; one
per post that was brought out."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from urllib.parse import unquote

import structlog
from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.trace import Span, Status, StatusCode

from ohmo.contracts.agent import Event, ModelDone, ToolDone, ToolStarted, TurnEnded, TurnStarted
from ohmo.contracts.outbox import OutRow

log = structlog.get_logger("ohmo.traces")
_NS = 1_000_000_000
_LAST = 2.0  # seconds that what is still collected gets on the way out
logging.getLogger("opentelemetry").setLevel(
    logging.CRITICAL
)  # several lines for every batch; ours says it once


class Spans:
    """Texts never travel: names, sizes and times only. Sending is a thread of the SDK; what cannot
    be sent is dropped by it."""

    def __init__(
        self,
        url: str,
        environ: Mapping[str, str],
        version: str,
        now: Callable[[], float] = time.time,
    ) -> None:
        resource = Resource(
            {"service.name": environ.get("OTEL_SERVICE_NAME", "ohmo"), "service.version": version}
        )
        self._provider = TracerProvider(resource=resource, shutdown_on_exit=False)
        written = environ.get("OTEL_EXPORTER_OTLP_TRACES_HEADERS") or environ.get(
            "OTEL_EXPORTER_OTLP_HEADERS", ""
        )
        pairs = (pair.partition("=") for pair in written.split(",") if "=" in pair)
        headers = {name.strip().lower(): unquote(value.strip()) for name, _, value in pairs}
        exporter = OTLPSpanExporter(endpoint=url, headers=headers)
        self._provider.add_span_processor(BatchSpanProcessor(_Telling(exporter, url)))
        self._tracer = self._provider.get_tracer("ohmo", version)
        self._now = now
        self._turns: dict[str, Span] = {}
        self._tools: dict[str, Span] = {}

    def event(self, thread: str, event: Event) -> None:
        """One thing that happened in a turn; what belongs to a turn whose start was not heard is
        passed over."""
        match event:
            case TurnStarted():
                told = {"ohmo.turn": event.turn, "ohmo.thread": thread}
                if event.address is not None:
                    told["ohmo.channel"] = event.address.channel
                self._turns[event.turn] = self._tracer.start_span(
                    "turn", attributes=told, start_time=self._ns()
                )
            case ModelDone() if (parent := self._turns.get(event.turn)) is not None:
                usage = event.usage
                told = {
                    "gen_ai.request.model": usage.model,
                    "gen_ai.usage.input_tokens": usage.sent,
                    "gen_ai.usage.output_tokens": usage.output,
                    "ohmo.cached_tokens": usage.cached,
                }
                if usage.micro_usd is not None:
                    told["ohmo.micro_usd"] = usage.micro_usd
                began = self._ns() - int(event.seconds * _NS)
                self._tracer.start_span(
                    "model", trace.set_span_in_context(parent), attributes=told, start_time=began
                ).end(self._ns())
            case ToolStarted() if (parent := self._turns.get(event.turn)) is not None:
                told = {"ohmo.tool": event.name, "ohmo.call": event.call}
                self._tools[event.call] = self._tracer.start_span(
                    f"tool {event.name}",
                    trace.set_span_in_context(parent),
                    attributes=told,
                    start_time=self._ns(),
                )
            case ToolDone() if (span := self._tools.pop(event.call, None)) is not None:
                if event.result.error:
                    span.set_status(Status(StatusCode.ERROR))
                span.end(self._ns())
            case TurnEnded() if (span := self._turns.pop(event.turn, None)) is not None:
                span.set_attribute("ohmo.outcome", event.outcome)
                if event.outcome == "failed":
                    span.set_status(Status(StatusCode.ERROR))
                span.end(self._ns())
                for call in [call for call in self._tools if call.startswith(f"{event.turn}.")]:
                    self._tools.pop(call).end(self._ns())
            case _:
                pass

    def sent(self, row: OutRow, state: str, seconds: float) -> None:
        """One try to bring a post out, and how it ended."""
        told = {
            "ohmo.channel": row.row.outbound.address.channel,
            "ohmo.post": row.row.id,
            "ohmo.kind": row.row.kind,
            "ohmo.state": state,
        }
        end = self._ns()
        span = self._tracer.start_span("send", attributes=told, start_time=end - int(seconds * _NS))
        if state == "dead":
            span.set_status(Status(StatusCode.ERROR))
        span.end(end)

    def close(self) -> None:
        """Blocking: what is collected is sent, for at most two seconds; a collector that hangs
        holds nobody up."""
        for span in (*self._tools.values(), *self._turns.values()):
            span.end(self._ns())
        last = threading.Thread(target=self._provider.shutdown, name="traces", daemon=True)
        last.start()
        last.join(_LAST)

    def _ns(self) -> int:
        return int(self._now() * _NS)


class _Telling(SpanExporter):
    """Says once that spans do not arrive, and once that they do again. Called by the SDK's
    thread."""

    def __init__(self, exporter: SpanExporter, url: str) -> None:
        self._exporter = exporter
        self._url = url
        self._lost = 0

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        result = self._exporter.export(spans)
        if result is not SpanExportResult.SUCCESS:
            if not self._lost:
                log.warning(
                    "traces_lost",
                    url=self._url,
                    next="is the collector up? turns go on; spans are dropped until it answers",
                )
            self._lost += len(spans)
        elif self._lost:
            log.info("traces_arrive", url=self._url, lost=self._lost)
            self._lost = 0
        return result

    def shutdown(self) -> None:
        self._exporter.shutdown()

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        return self._exporter.force_flush(timeout_millis)
