"""Spans reach a collector on loopback by OTLP, without an endpoint nothing of OpenTelemetry is
imported; the log tells what turns do, and nothing that was said."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from structlog.testing import capture_logs

from channels.contract import Address, ChatId, Outbound
from ohmo.assembly.deps import spans
from ohmo.contracts.agent import (
    Failure,
    ModelDone,
    TextDelta,
    ToolDone,
    ToolRefused,
    ToolStarted,
    TurnEnded,
    TurnStarted,
)
from ohmo.contracts.messages import ToolResult, Usage
from ohmo.tracing import endpoint
from ohmo.tracing.turn_log import TurnLog
from tests.programs import python


class Collector(HTTPServer):
    """Keeps what OTLP/HTTP sends (opentelemetry.io, "OTLP/HTTP Request": protobuf, POST
    /v1/traces)."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.spans: list[Any] = []
        self.headers: list[str | None] = []


class Handler(BaseHTTPRequestHandler):
    server: Collector  # pyright: ignore[reportIncompatibleVariableOverride]

    def do_POST(self) -> None:
        raw = self.rfile.read(int(self.headers["Content-Length"]))
        right = (
            self.path == "/v1/traces" and self.headers["Content-Type"] == "application/x-protobuf"
        )
        if self.headers.get("Content-Encoding") == "gzip":
            import gzip

            raw = gzip.decompress(raw)
        if right:
            for resource in ExportTraceServiceRequest.FromString(raw).resource_spans:
                for scope in resource.scope_spans:
                    self.server.spans += scope.spans
        self.server.headers.append(self.headers.get("x-key"))
        self.send_response(200 if right else 400)
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def collector() -> Iterator[Collector]:
    server = Collector()
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield server
    server.shutdown()
    server.server_close()
    thread.join(20)


def test_a_turn_its_model_call_its_tool_and_its_post_are_spans(collector: Collector) -> None:
    url = f"http://127.0.0.1:{collector.server_port}"
    watcher = spans(
        {"OTEL_EXPORTER_OTLP_ENDPOINT": url, "OTEL_EXPORTER_OTLP_HEADERS": "X-Key=a%20b"}
    )
    assert watcher is not None
    place = Address("slack", "T", ChatId("C1"))
    for event in (
        TurnStarted("t1", "owner", place),
        ModelDone("t1", "secret words", Usage("fake-1", "turn", 10, 5, 0, 7, 42), 0.25),
        ToolStarted("t1", "t1.1", "Bash", "cat secret"),
        ToolDone("t1", "t1.1", ToolResult("t1.1", "secret", error=True)),
        ToolStarted("t1", "t1.2", "Read", "cut off"),
        TurnEnded("t1", "answered", "secret words"),
    ):
        watcher.event("thread1", event)

    class Row:
        """As much of an OutRow as a span tells."""

        class row:
            id, kind, outbound = "o1", "message", Outbound(place, "secret words")

    watcher.sent(Row, "sent", 0.1)
    watcher.close()
    found = {span.name: span for span in collector.spans}
    assert set(found) == {"turn", "model", "tool Bash", "tool Read", "send"}
    turn = found["turn"]
    assert {found[name].parent_span_id for name in ("model", "tool Bash", "tool Read")} == {
        turn.span_id
    }
    assert found["model"].end_time_unix_nano - found["model"].start_time_unix_nano == pytest.approx(
        250_000_000, rel=0.2
    )
    assert found["tool Bash"].status.code == 2
    told = {one.key: one.value for one in found["model"].attributes}
    assert told["gen_ai.usage.input_tokens"].int_value == 15
    assert b"secret" not in b"".join(span.SerializeToString() for span in collector.spans)
    assert set(collector.headers) == {"a b"}


def test_where_spans_go_follows_the_specification() -> None:
    assert endpoint({}) is None
    assert endpoint({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://h:4318/"}) == "http://h:4318/v1/traces"
    assert (
        endpoint(
            {
                "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://h/x",
                "OTEL_EXPORTER_OTLP_ENDPOINT": "http://y",
            }
        )
        == "http://h/x"
    )
    assert (
        endpoint({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://h", "OTEL_SDK_DISABLED": "true"}) is None
    )


def test_without_an_endpoint_nothing_is_imported() -> None:
    code = (
        "import sys; from ohmo.assembly.deps import spans; assert spans({}) is None;"
        " print(any(m.startswith('opentelemetry') for m in sys.modules))"
    )
    printed = python(code)
    assert printed.strip() == "False"


def test_a_turn_leaves_a_line_for_each_tool_each_failure_and_its_end_and_no_words_of_anybody() -> (
    None
):
    now = [100.0]
    log = TurnLog(lambda: now[0])
    with capture_logs() as lines:
        log.event("thread1", TurnStarted("turn1", "ada", Address("slack", "T1", ChatId("C1"))))
        log.event("thread1", TextDelta("turn1", "my secret plan"))
        log.event(
            "thread1", ModelDone("turn1", "my secret plan", Usage("m", "turn", 10, 20, 3, 4, 5))
        )
        log.event("thread1", ToolStarted("turn1", "call1", "Bash", "cat diary"))
        log.event("thread1", ToolRefused("turn1", "call2", "Write", "diary"))
        now[0] += 1.5
        log.event(
            "thread1", ToolDone("turn1", "call2", ToolResult("call2", "Not allowed", error=True))
        )
        log.event("thread1", ToolDone("turn1", "call1", ToolResult("call1", "dear diary")))
        log.event("thread1", Failure("turn1", "m: cannot be reached", fatal=False))
        now[0] += 0.5
        log.event("thread1", TurnEnded("turn1", "answered", "dear diary"))
        log.event("thread1", TurnEnded("unheard", "answered", "x"))
    place = {"turn": "turn1", "thread": "thread1", "channel": "slack"}
    assert lines == [
        {
            "log_level": "info",
            "event": "tool_ended",
            **place,
            "tool": "Write",
            "ok": False,
            "seconds": 1.5,
        },
        {
            "log_level": "info",
            "event": "tool_ended",
            **place,
            "tool": "Bash",
            "ok": True,
            "seconds": 1.5,
        },
        {
            "log_level": "warning",
            "event": "turn_failure",
            **place,
            "error": "m: cannot be reached",
            "fatal": False,
        },
        {
            "log_level": "info",
            "event": "turn_ended",
            **place,
            "outcome": "answered",
            "seconds": 2.0,
            "model_calls": 1,
            "tokens": 37,
        },
    ]
