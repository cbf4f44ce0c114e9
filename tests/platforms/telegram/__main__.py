"""``python -m tests.platforms.telegram --port 0``: the loopback Bot API as a process; GET /control
lists its doors."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from tests.platforms.process import Doors, Log, run
from tests.platforms.telegram.rig import TelegramRig
from tests.platforms.telegram.server import Server


def build() -> tuple[Server, TelegramRig, Log, Doors]:
    server = Server()

    def update(body: dict[str, Any]) -> dict[str, Any]:
        """Any update without its update_id, malformed ones too."""
        return {"update_id": server.world.enqueue_raw(body)}

    def state(_: dict[str, Any]) -> dict[str, Any]:
        return {
            "pending": len(server.world.queue),
            "chats": list(server.world.chats),
            "answered_presses": server.world.presses,
        }

    return (
        server,
        TelegramRig(server),
        lambda: {"calls": [asdict(call) for call in server.calls]},
        {"update": update, "state": state},
    )


if __name__ == "__main__":
    run("telegram", build)
