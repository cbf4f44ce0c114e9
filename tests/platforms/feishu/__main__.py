"""``python -m tests.platforms.feishu --port 0``: the loopback tenant as a process; GET /control
lists its doors."""

from __future__ import annotations

from typing import Any

from tests.platforms.feishu.rig import FeishuRig
from tests.platforms.feishu.server import Server
from tests.platforms.process import Doors, Log, run


def build() -> tuple[Server, FeishuRig, Log, Doors]:
    server = Server()
    return server, FeishuRig(server), lambda: log(server), {}


def log(server: Server) -> dict[str, Any]:
    return {
        "calls": [f"{verb} {path}" for verb, path, _ in server.kept.calls],
        "answers": server.kept.answers,
        "sent": server.kept.sent,
        "dropped": server.kept.dropped,
    }


if __name__ == "__main__":
    run("feishu", build)
