"""``/version``: what runs here, and for how long."""

from __future__ import annotations

import platform
from datetime import timedelta

from ohmo.commands.contract import Command, Desk, Effect, Order, Reply
from ohmo.config.values import written_duration


async def run(order: Order, desk: Desk) -> Effect:
    del order
    status = await desk.status()
    up = max(0, round((desk.now() - status.started).total_seconds()))
    spoken = written_duration(timedelta(seconds=up if up < 3600 else up // 60 * 60))
    return Reply(f"ohmo {status.version}, Python {platform.python_version()}, up {spoken}.")


COMMAND = Command("version", "which ohmo this is, and for how long it runs", run, place=185)
