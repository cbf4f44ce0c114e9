"""Spans reach a collector on loopback by OTLP; without an endpoint nothing of OpenTelemetry is
imported."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from channels.contract import Address, ChatId, Outbound
from ohmo.assembly.deps import spans
from ohmo.contracts.agent import ModelDone, ToolDone, ToolStarted, TurnEnded, TurnStarted
from ohmo.contracts.messages import ToolResult, Usage
from ohmo.tracing import endpoint
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
