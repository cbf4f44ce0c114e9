"""The soak (row 66, G13): ``python -m tests.faults.soak`` lets people talk with the real daemon and
watches what it holds on to.

Memory, file handles, threads and tasks are read every five seconds; the slope of the memory is a
least-squares line from message ``--warm`` on. The page is written by the command itself, also when
it is interrupted."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import re
import sqlite3
import sys
import time
from collections.abc import Sequence
from contextlib import closing
from dataclasses import astuple, dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from benchmarks.rig import FIRST_CHAT, Chats, Daemon, bench, cpu

LOOK = 5.0  # seconds between two readings
RISE = 1.0  # MiB per day of messages that memory may rise
DAY = 86_400  # messages of a day at one a second
# of the warm-up: everybody waits for everybody and then all speak at once
TOGETHER = (0.2, 0.4, 0.6, 0.8)
FRESH = 40  # messages of a chat between two /new
_NUMBER = re.compile(
    r"^(ohmo_tasks|process_resident_memory_bytes|process_open_fds) (\S+)$", re.MULTILINE
)


@dataclass(frozen=True, slots=True)
class Reading:
    """``rss`` and ``kept`` (what the store's files hold) in MiB."""

    messages: int
    seconds: float
    rss: float
    handles: int
    threads: int
    tasks: int
    kept: float


@dataclass
class Soak:
    """What was seen so far. ``lost``: messages without an answer. ``integrity``: what SQLite says
    of the store at the end."""

    readings: list[Reading] = field(default_factory=list)
    said: int = 0
    lost: int = 0
    work: float = 0.0
    integrity: str = "not looked at"


def slope(readings: Sequence[Reading]) -> float:
    """MiB per day of messages, by least squares; 0 with fewer than two."""
    if len(readings) < 2:
        return 0.0
    xs, ys = [reading.messages / DAY for reading in readings], [one.rss for one in readings]
    mx, my = sum(xs) / len(xs), sum(ys) / len(ys)
    spread = sum((x - mx) ** 2 for x in xs)
    return sum((x - mx) * (y - my) for x, y in zip(xs, ys, strict=True)) / spread if spread else 0.0


async def read(daemon: Daemon, said: int, began: float) -> Reading:
    async with daemon.client() as session, session.get("http://localhost/metrics") as response:
        found = dict(_NUMBER.findall(await response.text()))
    status = Path(f"/proc/{daemon.pid}/status").read_text()
    threads = int(status.partition("Threads:")[2].split()[0])
    kept = sum(file.stat().st_size for file in daemon.home.glob("ohmo.db*")) / 2**20
    handles, tasks = int(float(found["process_open_fds"])), int(float(found["ohmo_tasks"]))
    return Reading(
        said,
        time.monotonic() - began,
        float(found["process_resident_memory_bytes"]) / 2**20,
        handles,
        threads,
        tasks,
        kept,
    )


class Meeting:
    """All ``people`` wait for each other once the next of ``moments`` (messages said) is reached.
    What as many turns need at once, connections to the model above all, is so known before the line
    begins: a machine that stops for a second makes them all meet by chance."""

    def __init__(self, people: int, moments: Sequence[float]) -> None:
        self._barrier = asyncio.Barrier(people)
        self._moments = list(moments)
        self._met: dict[int, int] = {}

    async def comes(self, person: int, said: int) -> None:
        met = self._met.get(person, 0)
        if met < len(self._moments) and said >= self._moments[met]:
            self._met[person] = met + 1
            with contextlib.suppress(TimeoutError):  # whoever's time was over comes no more
                async with asyncio.timeout(60):
                    await self._barrier.wait()


async def talks(
    chats: Chats, chat: int, soak: Soak, most: int, until: float, meeting: Meeting
) -> None:
    """One person who waits for each answer, and begins a new conversation now and then."""
    number = 0
    while soak.said < most and time.monotonic() < until:
        await meeting.comes(chat, soak.said)
        soak.said += 1
        number += 1
        text = f"word {number} of {chat}: " + "lorem ipsum dolor sit amet " * (number % 20)
        chats.says(chat, text.strip())
        try:
            await chats.answered(chat, text.strip())
        except TimeoutError:
            soak.lost += 1
        chats.answers.pop((chat, f"echo: {text.strip()}"), None)
        if number % FRESH == 0:
            chats.says(chat, "/new")


async def watches(daemon: Daemon, soak: Soak) -> None:
    began = time.monotonic()
    while True:
        soak.readings.append(await read(daemon, soak.said, began))
        await asyncio.sleep(LOOK)


async def run(wanted: argparse.Namespace, soak: Soak) -> None:
    async with bench() as one:
        until = time.monotonic() + wanted.minutes * 60
        watching = asyncio.create_task(watches(one.daemon, soak))
        meeting = Meeting(
            wanted.people,
            [part * wanted.warm for part in TOGETHER if part * wanted.warm < wanted.messages / 2],
        )
        await asyncio.gather(
            *(
                talks(one.chats, FIRST_CHAT + n, soak, wanted.messages, until, meeting)
                for n in range(wanted.people)
            )
        )
        watching.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await watching
        soak.work = cpu(one.daemon.pid)
        await one.daemon.stop()
        with closing(sqlite3.connect(one.daemon.home / "ohmo.db")) as store:
            soak.integrity = str(store.execute("PRAGMA integrity_check").fetchone()[0])


def _held(so: bool) -> str:
    return "yes" if so else "**no**"


def _steady(values: Sequence[int]) -> bool:
    """Whether the calmest readings of the last third are no higher than those of the first, but for
    a tenth: how many connections are open moves with what is being answered at that moment, what
    leaks is there at the calmest one, too."""
    third = max(1, len(values) // 3)
    first, last = (sorted(part)[len(part) // 10] for part in (values[:third], values[-third:]))
    return last <= 1.1 * first


def page(wanted: argparse.Namespace, soak: Soak, load: float) -> str:
    """The whole of docs/evidence/soak.md."""
    warm = [reading for reading in soak.readings if reading.messages >= wanted.warm]
    steady = warm or soak.readings[len(soak.readings) // 2 :]
    since = (
        f"message {wanted.warm}"
        if warm
        else f"message {steady[0].messages} (it did not come to {wanted.warm})"
    )
    rows = soak.readings[:: max(1, len(soak.readings) // 20)]
    rise = slope(steady)
    lines = [
        "# The soak",
        "",
        (
            f"`python -m tests.faults.soak --messages {wanted.messages} --minutes"
            f" {wanted.minutes:g} --people {wanted.people}` wrote this page on"
            f" {datetime.now(UTC):%Y-%m-%d}: {wanted.people} people talk with the"
        ),
        (
            f"real daemon over a loopback Telegram, each waits for the answer, and every {FRESH}"
            " messages they begin a new conversation. In the warm-up all of\nthem speak at the"
            " same moment a few times, so that later chance meetings show no new connections. The"
            f" machine had {os.cpu_count()} cores and a load of {load:.1f}."
        ),
        "",
        "| figure | wanted | seen | held |",
        "| --- | --- | --- | --- |",
        (
            f"| messages, lost | 100000, 0 | {soak.said}, {soak.lost} in"
            f" {soak.readings[-1].seconds:.0f} s, {1e3 * soak.work / max(1, soak.said):.1f} ms of"
            f" processor time each | {_held(soak.said >= 100_000 and not soak.lost)} |"
        ),
        (
            f"| memory from {since} on | ≤ {RISE:g} MiB per {DAY} messages | {rise:.1f} MiB per"
            f" {DAY} messages (least squares, {len(steady)} readings) | {_held(rise <= RISE)} |"
        ),
        *(
            f"| {name} | constant | {min(values)} to {max(values)} | {_held(_steady(values))} |"
            for name, values in (
                ("file handles", [one.handles for one in steady]),
                ("threads", [one.threads for one in steady]),
                ("tasks", [one.tasks for one in steady]),
            )
        ),
        f"| the store | sound | {soak.integrity} | {_held(soak.integrity == 'ok')} |",
        "",
        "| messages | seconds | memory, MiB | handles | threads | tasks | store, MiB |",
        "| --: | --: | --: | --: | --: | --: | --: |",
        *(
            "| "
            + " | ".join(
                f"{value:.1f}" if isinstance(value, float) else str(value) for value in astuple(row)
            )
            + " |"
            for row in rows
        ),
    ]
    return "\n".join(lines) + "\n"


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.faults.soak",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--messages", type=int, default=100_000)
    parser.add_argument(
        "--minutes", type=float, default=60.0, help="it ends then, however many messages it was"
    )
    parser.add_argument("--people", type=int, default=50)
    parser.add_argument(
        "--warm", type=int, default=20_000, help="the first message that counts for the slope"
    )
    parser.add_argument("--page", type=Path, default=Path("docs/evidence/soak.md"))
    wanted = parser.parse_args()
    soak = Soak()
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(run(wanted, soak))
    if not soak.readings:
        return 1
    wanted.page.write_text(text := page(wanted, soak, os.getloadavg()[0]))
    print(text)
    return 1 if "**no**" in text else 0


if __name__ == "__main__":
    sys.exit(main())
