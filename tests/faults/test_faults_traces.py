"""Traces of the real daemon at a collector on loopback: what is promised arrives, nothing that was
said does, and a collector that is gone or hangs costs nothing."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

from aiohttp import web
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from tests.faults.conftest import Stage
from tests.faults.daemon import until
from tests.faults.test_faults_upgrade import FREELY


class Collector:
    """OTLP/HTTP (opentelemetry.io, "OTLP/HTTP Request": protobuf, POST /v1/traces). ``hang``: takes
    a request and never answers."""

    def __init__(self) -> None:
        self.spans: list[Any] = []
        self.raw: list[bytes] = []
        self.resources: set[tuple[str, str]] = set()
        self.hang = False
        self.asked = 0
        self.url = ""
        self._port = 0

    async def _traces(self, request: web.Request) -> web.Response:
        self.asked += 1
        if self.hang:
            await asyncio.sleep(3_600)
        assert request.content_type == "application/x-protobuf"
        raw = await request.read()  # aiohttp has unpacked it
        self.raw.append(raw)
        for resource in ExportTraceServiceRequest.FromString(raw).resource_spans:
            self.resources |= {
                (one.key, one.value.string_value) for one in resource.resource.attributes
            }
            for scope in resource.scope_spans:
                self.spans += scope.spans
        return web.Response(content_type="application/x-protobuf")

    @contextlib.asynccontextmanager
    async def serving(self) -> AsyncGenerator[None]:
        app = web.Application(client_max_size=64 << 20)
        app.router.add_post("/v1/traces", self._traces)
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", self._port)
        await site.start()
        self._port = runner.addresses[0][1]
        self.url = f"http://127.0.0.1:{self._port}"
        try:
            yield
        finally:
            await runner.cleanup()


async def test_spans_of_a_turn_arrive_and_a_collector_that_hangs_holds_nobody_up(
    stage: Stage, work: Path
) -> None:
    collector = Collector()
    async with collector.serving(), stage("telegram", **FREELY) as scene:
        scene.daemon.environ |= {
            "OTEL_EXPORTER_OTLP_ENDPOINT": collector.url,
            "OTEL_SERVICE_NAME": "house",
            "OTEL_BSP_SCHEDULE_DELAY": "200",
            "OTEL_EXPORTER_OTLP_TIMEOUT": "3",
        }
        await scene.daemon.start()
        marker = await scene.says(f"#run{{echo private >> {work}/counter}}")
        await scene.answered()

        async def arrived() -> bool:
            return sorted(span.name for span in collector.spans) == [
                "model",
                "model",
                "send",
                "tool Bash",
                "turn",
            ]

        await until("the spans of a turn", arrived)
        turn = next(span for span in collector.spans if span.name == "turn")
        inside = [span for span in collector.spans if span.name not in ("turn", "send")]
        assert {span.parent_span_id for span in inside} == {turn.span_id}
        assert ("service.name", "house") in collector.resources
        assert not any(
            word.encode() in raw for raw in collector.raw for word in (marker, "private", "word1")
        )

        collector.hang = True
        for _ in range(3):
            await scene.says(f"#run{{echo private >> {work}/counter}}")
            await scene.answered()

        async def told() -> bool:
            return "traces_lost" in scene.daemon.log

        await until("it is told that spans are lost", told)
        await scene.says()
        await scene.answered()
        collector.hang = False

        async def again() -> bool:
            return "traces_arrive" in scene.daemon.log

        await until("it is told that they arrive again", again)
        assert (
            scene.daemon.log.count('"traces_lost"'),
            scene.daemon.log.count("opentelemetry"),
        ) == (1, 0)
        assert await scene.daemon.stop() == 0

        collector.hang = True
        scene.daemon.environ["OTEL_EXPORTER_OTLP_TIMEOUT"] = "3600"
        await scene.daemon.start()
        await scene.says()
        await scene.answered()
        # the SDK itself would wait for thirty seconds
        assert await scene.daemon.stop(within=25) == 0
