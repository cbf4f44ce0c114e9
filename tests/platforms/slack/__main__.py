"""``python -m tests.platforms.slack --port 0``: the loopback workspace as a process; GET /control
lists its doors."""

from __future__ import annotations

from typing import Any

from tests.platforms.process import Doors, Log, run
from tests.platforms.slack.rig import SlackRig
from tests.platforms.slack.server import Server


def build() -> tuple[Server, SlackRig, Log, Doors]:
    server = Server()
    return server, SlackRig(server), lambda: log(server), {}


def log(server: Server) -> dict[str, Any]:
    return {
        "calls": [method for method, _ in server.calls],
        "acked": list(server.acked.values()),
        "sent": server.sent,
        "dropped": server.dropped,
    }


if __name__ == "__main__":
    run("slack", build)
