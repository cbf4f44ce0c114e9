"""``kill -9`` at every named failpoint on a message's way, on one platform after the other; shared
by the test run and the long campaign."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path

from tests.conformance.rig import Visible
from tests.faults.daemon import until
from tests.faults.directed_model import MARKER
from tests.faults.ledger import problems
from tests.faults.scene import Scene

SAYING = """
    inbound.received inbound.stored turn.claim model.chunk outbox.before outbox.committed
    send.accepted
""".split()
# least and most effects of a command that runs freely
RUNNING = {"tool.before": (0, 0), "tool.running": (0, 1), "tool.after": (1, 1)}
ASKING = ("approval.stored", "approval.granted")
POINTS = {"arrival": SAYING[:4], "answer": SAYING[4:], "command": (*RUNNING, *ASKING)}
CHUNKS = 8
CONFIG = {"permissions": {"allow": ["Bash(truncate:*)"]}}
CHAT = "dm:ada"


async def at_points(
    scene: Scene, on: str, points: Sequence[str], work: Path, chance: random.Random
) -> None:
    """Each of ``points`` in a random order with a death of its own in the same home, then every
    delivery again. AssertionError names the point."""
    allowed = 0
    for number, point in enumerate(chance.sample(points, len(points))):
        allowed += 4 if on == "telegram" and point == "send.accepted" else 0
        try:
            await _dies_at(scene, on, point, work / f"counter-{number}", chance)
            found = problems(scene.words, await scene.seen(), repeats=allowed, also=is_of_the_house)
            assert found == [], "\n".join(found)
        except AssertionError as error:
            raise AssertionError(f"{on}, {point}: {error}") from None
        await scene.daemon.kill()
    await scene.daemon.start()
    await scene.check(repeats=allowed, also=is_of_the_house, again=True)


def is_of_the_house(message: Visible) -> bool:
    """A question, or what became of it."""
    return not MARKER.search(message.text)


async def _dies_at(scene: Scene, on: str, point: str, counter: Path, chance: random.Random) -> None:
    """A life that ends at the point, words said meanwhile, and the life after it, which answers
    everything."""
    count = chance.randint(1, 3) if point in SAYING else 1
    hit = chance.randint(1, CHUNKS if point == "model.chunk" else count)
    await scene.daemon.start(f"{point}=kill@{hit}", ready=False)
    # some platforms deliver the newest message again when one comes back
    await scene.daemon.ready_or_dead()
    for _ in range(count):
        if not scene.daemon.alive:
            break
        marker = await scene.says(_words(point, counter), on=on)
        if point == "approval.granted":
            await _allow(scene, on, counter)
        elif point != "approval.stored":
            await scene.answered_or_died(marker)
    await scene.daemon.died()
    if chance.random() < 0.5:
        await scene.says(f"#chunks{{{CHUNKS}}}", on=on)
    await scene.daemon.start()
    if point == "approval.stored":
        await _allow(scene, on, counter)
    await scene.answered()
    # what can be read may still be a draft, whose turn would grow it anew in another life
    await scene.quiet()
    least, most = RUNNING.get(point, (1, 1) if point in ASKING else (0, 0))
    effects = counter.stat().st_size if counter.exists() else 0
    assert least <= effects <= most, f"its command had {effects} effects, not {least} to {most}"


def _words(point: str, counter: Path) -> str:
    if point in RUNNING:
        return f"#run{{truncate -s +1 {counter}}}"
    return f"#run{{printf x >> {counter}}}" if point in ASKING else f"#chunks{{{CHUNKS}}}"


async def _allow(scene: Scene, on: str, counter: Path) -> None:
    """By the button where there are buttons."""
    if on != "matrix":
        await scene.press_first(on)
        return

    async def asked() -> bool:
        return any(
            message.by_bot and counter.name in message.text
            for message in await scene.rigs[on].visible(CHAT)
        )

    await until("a question on Matrix", asked)
    await scene.rigs[on].says("/approve", chat=CHAT)
