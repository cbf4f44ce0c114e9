"""What the daemon says of itself while things go wrong: the API, the probes and the numbers tell
the same, and it is so."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from aiohttp import ClientSession, UnixConnector

from tests.faults.conftest import Stage
from tests.faults.daemon import until
from tests.faults.scene import Scene
from tests.platforms.model.script import Turn


class Told:
    """The answers of one moment."""

    def __init__(
        self, status: dict[str, Any], ready: tuple[int, dict[str, Any]], numbers: str
    ) -> None:
        self.status = status
        self.ready = ready
        self.numbers = numbers
        self.channel: dict[str, Any] = status["channels"]["telegram"]

    @property
    def delivered(self) -> datetime | None:
        found = self.channel["last_delivery"]
        return None if found is None else datetime.fromisoformat(found)

    def number(self, name: str) -> float:
        """Of a metric; its labels as they stand in the text."""
        return next(
            (
                float(line.rpartition(" ")[2])
                for line in self.numbers.splitlines()
                if line.startswith(f"{name} ")
            ),
            0.0,
        )


async def told(scene: Scene) -> Told:
    """Raises ClientError or OSError when nobody answers."""
    _, status = await scene.daemon.call("GET", "/api/v1/status")
    ready = await scene.daemon.call("GET", "/readyz")
    async with ClientSession(
        connector=UnixConnector(str(scene.daemon.home / "run" / "ohmo.sock"))
    ) as session:
        async with session.get("http://localhost/metrics") as answer:
            return Told(status, ready, await answer.text())


async def shows(scene: Scene, what: str, so: Callable[[Told], bool]) -> Told:
    """Waits until it is told so."""
    seen: list[Told] = []

    async def there() -> bool:
        seen[:] = [await told(scene)]
        return so(seen[0])

    await until(what, there)
    return seen[0]


def probe(scene: Scene, kind: str) -> int:
    """As a container engine asks."""
    environ = {**os.environ, "OHMO_HOME": str(scene.daemon.home)}
    return subprocess.run(
        [sys.executable, "-m", "ohmo", "status", "--check", kind],
        env=environ,
        capture_output=True,
        check=False,
        timeout=60,
    ).returncode


async def test_a_model_that_is_down_is_told_until_it_answers_again(stage: Stage) -> None:
    async with stage("telegram") as scene:
        await scene.daemon.start()
        works, scene.model.default = (
            scene.model.default,
            lambda _: Turn(status=500, message="the model is down"),
        )
        marker = await scene.says()
        down = await shows(
            scene, "the model is told to be down", lambda seen: bool(seen.status["warnings"])
        )
        assert "The model cannot be reached" in down.status["warnings"][0]
        assert "the model is down" in down.status["warnings"][0]
        assert down.ready[0] == 200  # what is said is taken and waits
        assert down.channel["waiting"] == 1
        scene.model.default = works
        await scene.answered(marker)
        await shows(scene, "nothing is wrong any more", lambda seen: seen.status["warnings"] == [])


async def test_status_probes_and_numbers_tell_the_truth_while_one_thing_after_the_other_breaks(
    stage: Stage,
) -> None:
    async with stage("telegram") as scene:
        await scene.daemon.start()
        faults = scene.rigs["telegram"].server.faults
        await shows(scene, "connected", lambda seen: seen.channel["state"] == "connected")

        # well: what was heard and delivered, and what it cost
        before = datetime.now(UTC)
        await scene.says()
        await scene.answered()
        well = await shows(
            scene,
            "the answer was delivered, and what it cost is counted",
            lambda seen: (
                seen.delivered is not None
                and seen.delivered >= before
                and seen.status["budget"]["day"]["tokens"] > 0
            ),
        )
        assert datetime.fromisoformat(well.channel["last_event"]) >= before
        assert (
            well.channel["waiting"],
            well.channel["oldest_waiting"],
            well.channel["outgoing"],
            well.channel["dead"],
        ) == (0, None, 0, 0)
        assert well.ready == (200, {"ready": True, "channels": {"telegram": True}})
        assert well.number('ohmo_channel_connected{channel="telegram"}') == 1
        spent = well.status["budget"]["day"]["tokens"]

        # a model that takes its time: one message is in work, one waits behind it
        since = datetime.now(UTC)
        await scene.says("#hold{0}")
        await scene.models_asked(2)
        await scene.says()
        slow = await shows(
            scene, "two wait for an answer", lambda seen: seen.channel["waiting"] == 2
        )
        assert slow.status["turns_running"] == 1
        oldest = datetime.fromisoformat(slow.channel["oldest_waiting"])
        assert since <= oldest <= datetime.now(UTC)
        assert slow.status["oldest_waiting"] == slow.channel["oldest_waiting"]
        assert slow.number('ohmo_inbox_total{channel="telegram",state="waiting"}') == 1
        scene.model.go.set()
        await scene.answered()

        # a platform that takes nothing we say: what is to be sent is counted, and the last delivery
        # stays what it was
        await shows(
            scene,
            "nothing is open",
            lambda seen: seen.channel["waiting"] == 0 and seen.channel["outgoing"] == 0,
        )
        delivered = (await told(scene)).delivered
        faults.fail = 10_000
        await scene.says()
        blocked = await shows(
            scene,
            "an answer cannot be sent",
            lambda seen: seen.channel["waiting"] == 0 and seen.channel["outgoing"] > 0,
        )
        assert (blocked.delivered, blocked.status["outbox"].get("dead", 0)) == (delivered, 0)
        faults.fail = 0
        await scene.answered()
        healed = await shows(
            scene,
            "it was sent, and what it cost is counted",
            lambda seen: (
                seen.channel["outgoing"] == 0 and seen.status["budget"]["day"]["tokens"] > spent
            ),
        )
        assert healed.delivered is not None
        assert delivered is not None
        assert healed.delivered > delivered

        # a token that was revoked: the channel is down, the house is not
        scene.rigs["telegram"].revoke()
        revoked = await shows(
            scene, "the token is refused", lambda seen: seen.channel["state"] == "auth_failed"
        )
        assert revoked.channel["detail"]
        assert revoked.ready == (200, {"ready": True, "channels": {"telegram": False}})
        assert revoked.number('ohmo_channel_connected{channel="telegram"}') == 0
        assert [await asyncio.to_thread(probe, scene, kind) for kind in ("live", "ready")] == [0, 0]
        scene.rigs["telegram"].revoke(False)

        # an event loop that turns no more: no probe is told that all is well
        os.kill(scene.daemon.pid, signal.SIGSTOP)
        assert [await asyncio.to_thread(probe, scene, kind) for kind in ("live", "ready")] == [1, 1]
        os.kill(scene.daemon.pid, signal.SIGCONT)

        # a new life knows what the earlier one delivered
        await scene.daemon.kill()
        await scene.daemon.start()
        again = await shows(
            scene,
            "connected again",
            lambda seen: seen.channel["state"] == "connected" and seen.delivered is not None,
        )
        assert again.delivered is not None
        assert delivered < again.delivered <= healed.delivered
