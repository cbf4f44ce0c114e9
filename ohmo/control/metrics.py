"""Probes (``/healthz``, ``/readyz``) and numbers for Prometheus (``/metrics``)."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from aiohttp import web
from prometheus_client import (
    CollectorRegistry,
    Counter,
    Histogram,
    ProcessCollector,
    generate_latest,
)
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from ohmo.contracts.agent import (
    Event,
    ModelDone,
    TextDelta,
    ToolDone,
    ToolStarted,
    TurnEnded,
    TurnStarted,
)
from ohmo.contracts.messages import Usage
from ohmo.contracts.reports import Counts, HouseStatus
from ohmo.control.ports import Ports
from ohmo.control.responses import Refusal, answer

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_SHORT = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 5.0)
_LONG = (0.1, 0.25, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 30.0, 60.0, 120.0, 300.0, 900.0, 1800.0)


@dataclass(slots=True)
class _Turn:
    """``elsewhere``: seconds the model and tools took; tools at the same time count once.
    ``tools``: the calls that run."""

    began: float
    spoke: bool = False
    elsewhere: float = 0.0
    tools: set[str] = field(default_factory=set[str])
    since: float = 0.0


class _Depths(Collector):
    """The last answer of the house; ``scrape`` puts it here just before it is read."""

    def __init__(self) -> None:
        self.counts: Counts | None = None
        self.status: HouseStatus | None = None
        self.tasks = 0
        self.dropped = 0

    def collect(self) -> Iterator[Metric]:
        yield GaugeMetricFamily("ohmo_tasks", "Tasks of the event loop", value=self.tasks)
        yield CounterMetricFamily(
            "ohmo_events_dropped", "Events of turns that a slow watcher lost", self.dropped
        )
        if self.counts is not None:
            for name, what, rows in (
                ("ohmo_inbox_total", "Arrivals by channel and state or ending", self.counts.inbox),
                ("ohmo_outbox_total", "Posts by channel and state", self.counts.outbox),
            ):
                family = GaugeMetricFamily(name, what, labels=("channel", "state"))
                for labels, depth in sorted(rows.items()):
                    family.add_metric(labels, depth)
                yield family
        if self.status is not None:
            connected = GaugeMetricFamily(
                "ohmo_channel_connected",
                "1 when the channel is truly connected",
                labels=("channel",),
            )
            for name, channel in sorted(self.status.channels.items()):
                connected.add_metric((name,), float(channel.state == "connected"))
            yield connected
            if isinstance(lag := self.status.cron.get("lag_seconds"), int | float):
                yield GaugeMetricFamily(
                    "ohmo_cron_lag_seconds", "How late the scheduler is", value=lag
                )
            day = self.status.budget.get("day", {})
            shares = [
                (day.get(kind) or 0) / limit
                for kind in ("usd", "tokens")
                if (limit := day.get(f"{kind}_limit"))
            ]
            if shares:
                yield GaugeMetricFamily(
                    "ohmo_budget_day_ratio", "How much of the day's budget is spent", max(shares)
                )


class Metrics:
    """``event`` is told everything a turn says, ``acknowledged`` every commit of a batch. Times are
    seconds."""

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._registry = CollectorRegistry()
        self._depths = _Depths()
        self._turns: dict[str, _Turn] = {}
        self._registry.register(self._depths)
        # process_resident_memory_bytes, process_open_fds, process_cpu_seconds_total (Linux)
        ProcessCollector(registry=self._registry)
        self._ack = Histogram(
            "ohmo_ack_seconds",
            "From receipt to durable commit",
            buckets=_SHORT,
            registry=self._registry,
        )
        self._turn = Histogram(
            "ohmo_turn_seconds", "One run of a turn", buckets=_LONG, registry=self._registry
        )
        self._first = Histogram(
            "ohmo_first_token_seconds",
            "From a turn's start to its first text",
            buckets=_LONG,
            registry=self._registry,
        )
        self._overhead = Histogram(
            "ohmo_overhead_seconds",
            "Turn time outside model and tools",
            buckets=_SHORT,
            registry=self._registry,
        )
        self._tokens = Counter(
            "ohmo_model_tokens_total",
            "Tokens of all model calls",
            ("kind",),
            registry=self._registry,
        )
        self._kinds = [
            self._tokens.labels(kind) for kind in ("input", "cached", "written", "output")
        ]
        self._cost = Counter(
            "ohmo_model_cost_usd_total",
            "Cost of the model calls whose price is known",
            registry=self._registry,
        )
        self._unpriced = Counter(
            "ohmo_model_unpriced_calls_total",
            "Model calls whose price is not known",
            registry=self._registry,
        )

    def acknowledged(self, seconds: float) -> None:
        self._ack.observe(seconds)

    def spent(self, usage: Usage) -> None:
        """One call of a model."""
        counts = (usage.input, usage.cached, usage.written, usage.output)
        for counter, count in zip(self._kinds, counts, strict=True):
            counter.inc(count)
        if usage.micro_usd is None:
            self._unpriced.inc()
        else:
            self._cost.inc(usage.micro_usd / 1_000_000)

    def event(self, thread: str, event: Event) -> None:
        """Never fails; a turn whose start was dropped is not timed."""
        del thread
        match event:
            case TurnStarted():
                self._turns[event.turn] = _Turn(self._monotonic())
            case TextDelta() if (
                turn := self._turns.get(event.turn)
            ) is not None and not turn.spoke:
                turn.spoke = True
                self._first.observe(self._monotonic() - turn.began)
            case ModelDone():
                self.spent(event.usage)
                if (turn := self._turns.get(event.turn)) is not None:
                    turn.elsewhere += event.seconds
            case ToolStarted() if (turn := self._turns.get(event.turn)) is not None:
                if not turn.tools:
                    turn.since = self._monotonic()
                turn.tools.add(event.call)
            case ToolDone() if (
                turn := self._turns.get(event.turn)
            ) is not None and event.call in turn.tools:
                turn.tools.remove(event.call)  # a refused call ends too, but never ran
                if not turn.tools:
                    turn.elsewhere += self._monotonic() - turn.since
            case TurnEnded() if (turn := self._turns.pop(event.turn, None)) is not None:
                spent = self._monotonic() - turn.began
                self._turn.observe(spent)
                self._overhead.observe(max(0.0, spent - turn.elsewhere))
            case _:
                pass

    def scrape(self, counts: Counts, status: HouseStatus, dropped: int = 0) -> bytes:
        """The text form (``CONTENT_TYPE``). On the event loop. ``dropped``: as ``Watch`` has
        it."""
        self._depths.dropped = dropped
        self._depths.counts = counts
        self._depths.status = status
        self._depths.tasks = len(asyncio.all_tasks())
        return generate_latest(self._registry)


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
        counts = await self._ports.reports.counts(spare=True)
        status = await self._ports.status()
        body = self._metrics.scrape(counts, status, self._ports.watch.dropped)
        return web.Response(
            body=body, headers={"Content-Type": CONTENT_TYPE, "Cache-Control": "no-store"}
        )
