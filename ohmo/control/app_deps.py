"""What the HTTP application is built from."""

from __future__ import annotations

from channels.contract import Clock
from channels.record import record
from ohmo.ambient import NewId
from ohmo.control.event_hub import EventHub
from ohmo.control.keys import Keys
from ohmo.control.metrics import Metrics
from ohmo.control.ports import Ports
from ohmo.processes.peer_process import Ancestry


@record
class AppDeps:
    """``metrics`` None: /metrics is switched off. ``cookie``: the name a browser's login has here.
    ``url`` None: no TCP. ``names``: host names of a reverse proxy. ``ancestry``: see ``Peers``."""

    ports: Ports
    metrics: Metrics | None
    live: EventHub
    keys: Keys
    cookie: str
    url: str | None
    names: frozenset[str]
    new_id: NewId
    clock: Clock
    ancestry: Ancestry | None
