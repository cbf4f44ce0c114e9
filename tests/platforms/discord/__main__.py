"""``python -m tests.platforms.discord --port 0``: the loopback guild as a process; GET /control
lists its doors."""

from __future__ import annotations

from typing import Any

from tests.platforms.discord.rig import DiscordRig
from tests.platforms.discord.server import Server
from tests.platforms.process import Doors, Log, run


def build() -> tuple[Server, DiscordRig, Log, Doors]:
    server = Server()
    return server, DiscordRig(server), lambda: log(server), {}


def log(server: Server) -> dict[str, Any]:
    return {
        "calls": [f"{call.method} {call.path} {call.status}" for call in server.calls],
        "identified": server.gateway.identified,
        "resumed": server.gateway.resumed,
        "heartbeats": server.gateway.heartbeats,
        "codes": server.gateway.codes,
    }


if __name__ == "__main__":
    run("discord", build)
