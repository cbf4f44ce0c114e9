"""Is it alive, is it ready, and its numbers."""

from __future__ import annotations

from aiohttp import web

from ohmo.control.answers import Refusal, answer
from ohmo.control.metrics import CONTENT_TYPE, Metrics
from ohmo.control.ports import Ports


class Health:
    def __init__(self, ports: Ports, metrics: Metrics | None) -> None:
        self._ports = ports
        self._metrics = metrics

    def routes(self) -> list[web.RouteDef]:
        return [
            web.get("/healthz", self.alive),
            web.get("/readyz", self.ready),
            web.get("/metrics", self.numbers),
        ]

    async def alive(self, _: web.Request) -> web.Response:
        """The event loop turns."""
        return answer({"alive": True})

    async def ready(self, _: web.Request) -> web.Response:
        """503 until the house is ready; each channel has its own truth and does not hold the house
        back."""
        status = await self._ports.status()
        channels = {name: channel.state == "connected" for name, channel in status.channels.items()}
        return answer(
            {"ready": status.ready, "channels": channels}, status=200 if status.ready else 503
        )

    async def numbers(self, _: web.Request) -> web.Response:
        if self._metrics is None:
            raise Refusal(404, "metrics are switched off (control.metrics)")
        body = self._metrics.scrape(
            await self._ports.reports.counts(spare=True), await self._ports.status()
        )
        return web.Response(
            body=body, headers={"Content-Type": CONTENT_TYPE, "Cache-Control": "no-store"}
        )
