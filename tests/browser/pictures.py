"""The pictures of the documentation anew, from the page as it is: ``python -m
tests.browser.pictures [FOLDER]``."""

from __future__ import annotations

import asyncio
import shutil
import sys
import tempfile
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Literal

from playwright.async_api import Browser, Page, StorageState, async_playwright, expect

from channels.contract import Address, ChatId
from ohmo.contracts.outbox import OutRow
from ohmo.contracts.reports import (
    ChannelStatus,
    Counts,
    HouseStatus,
    ThreadInfo,
    UsageTotal,
    with_queues,
)
from ohmo.control.server import Doors
from tests.browser.conftest import FLAGS
from tests.parts import browser_path
from tests.unit.control.small_house import PERMISSION, SmallHouse, said

FOLDER = Path(__file__).parents[2] / "docs" / "pictures"
ANSWER = (
    "The incident began at **02:14** when the cache node ran out of disk:\n\n- 3 services retried"
    " without backoff\n- `billing` recovered last, at 02:51\n\nI would now remove the stale"
    " artefacts."
)
TALK = (
    ("web", "c2", "Rename the config keys in the whole project"),
    ("matrix", "!home:example.org", "What did we decide about the garden fence?"),
    ("telegram", "-100123", "Translate the menu into French"),
    ("slack", "D01ADA", "Which PRs wait for me?"),
    ("feishu", "oc_5ad1", "Turn yesterday's minutes into a list of tasks"),
    ("discord", "8812", "Draft the release notes for 2.4"),
    ("matrix", "!ops:example.org", "Disk of db-2 is at 91 %, what grows there?"),
    ("telegram", "4711", "Remind me of the dentist on Thursday at 9"),
    ("slack", "C07CI", "Why is the checkout build red since this morning?"),
    ("web", "c1", "Summarise the incident notes and clean up build/"),
)
MODELS = (
    ("claude-sonnet-4-5", 24, 200_000),
    ("claude-haiku-4-5", 9, 70_000),
    ("gpt-5-mini", 5, 40_000),
)


def ago(minutes: float) -> datetime:
    return datetime.now(UTC) - timedelta(minutes=minutes)


class Shown(SmallHouse):
    """A house in which something goes on; channels, counts and times are what a picture shall
    show."""

    def __init__(self) -> None:
        super().__init__()
        self.spent = [
            UsageTotal(
                calls,
                tokens // 8,
                tokens,
                900,
                tokens // 28,
                tokens * 1100 // 1000,
                0,
                day=str((ago(0) - timedelta(days=day)).date()),
                model=name,
            )
            for day in range(30)
            if day != 12
            for name, most, size in MODELS
            for calls, tokens in [(most - day % 7, size * (8 - day % 7) // 8)]
        ]

    async def status(self) -> HouseStatus:
        deaf = (
            "nothing was heard for 361 s, not even a heartbeat; it is connected anew when the"
            " platform's own limit is over"
        )
        channels = {
            "slack": ChannelStatus("connected", ago(0.2), ago(3), "", ago(2)),
            "telegram": ChannelStatus("connected", ago(0.1), ago(42), "", ago(0.5)),
            "matrix": ChannelStatus("reconnecting", ago(6), ago(120), deaf, ago(6)),
            "discord": ChannelStatus(
                "auth_failed",
                None,
                None,
                "Discord refuses the token; put a new one in config.yaml and restart",
            ),
            "web": ChannelStatus("connected", ago(0), ago(1), "", ago(0)),
        }
        return replace(
            await super().status(),
            channels=with_queues(channels, await self.counts()),
            inbox={"waiting": 2, "dead": 1},
            outbox={"dead": 1},
            turns_parked=len(self.asked),
        )

    async def counts(self, *, spare: bool = False) -> Counts:
        rows = {("slack", "waiting"): 2, ("slack", "dead"): 1}
        return Counts(rows, {("slack", "dead"): 1}, ago(4), 0, len(self.asked), {"slack": ago(4)})

    def _info(self, thread: str) -> ThreadInfo:
        state: Literal["parked", "idle"] = (
            "parked" if any(asked.thread == thread for asked in self.asked.values()) else "idle"
        )
        return replace(
            super()._info(thread), state=state, last_at=ago(1 + 7 * (len(TALK) - int(thread[1:])))
        )

    async def fill(self) -> str:
        """Returns the thread in which it asks."""
        for channel, chat, words in TALK:
            self.accept(said(Address(channel, "local", ChatId(chat)), words, f"{chat}-first"))
        red, asking = (
            self.thread_at(Address(*place))
            for place in (("slack", "local", ChatId("C07CI")), ("web", "local", ChatId("c1")))
        )
        self.dead_letter(
            red,
            "Compare the last seven nightly runs",
            "three tries failed: the model refused the request",
        )
        self.settle(
            self.post(
                red, "The nightly build is green again: 1 204 tests, 3 flaky.", state="sending"
            ),
            "dead",
            "channel_not_found",
        )
        await self.turn(asking, ANSWER, tool=True)
        items = self.history_of[asking]
        self.history_of[asking] = [
            replace(item, turn="turn1") if isinstance(item, OutRow) else item for item in items
        ]
        card = await self.ask(asking, PERMISSION)
        self.asked[card] = replace(
            self.asked[card],
            deadline=datetime.now(UTC) + timedelta(minutes=5, seconds=20),
            asked_at=ago(0),
        )
        return asking


class Camera:
    def __init__(self, browser: Browser, doors: Doors, login: StorageState, folder: Path) -> None:
        self._browser = browser
        self._doors = doors
        self._login = login
        self._folder = folder

    async def open(
        self,
        path: str,
        size: tuple[int, int],
        scale: int = 1,
        scheme: Literal["light", "dark"] = "light",
    ) -> Page:
        context = await self._browser.new_context(
            viewport={"width": size[0], "height": size[1]},
            device_scale_factor=scale,
            is_mobile=scale > 1,
            has_touch=scale > 1,
            color_scheme=scheme,
            locale="en-GB",
            timezone_id="America/New_York",
            storage_state=self._login,
            reduced_motion="reduce",
        )
        page = await context.new_page()
        page.set_default_timeout(60_000)
        await page.route("**/api/v1/cron**", _cron)
        await page.goto(f"{self._doors.url}/#{path}")
        return page

    async def take(self, page: Page, name: str, shows: str) -> None:
        """``shows``: words that have to be there first."""
        await expect(page.locator("main:not([hidden])")).to_contain_text(shows, timeout=60_000)
        await page.evaluate("document.fonts.ready")
        await page.wait_for_load_state("load")
        await page.screenshot(path=self._folder / f"{name}.png", animations="disabled")
        await page.context.close()


def job(name: str, rhythm: str, to: str, in_minutes: float, last: str = "") -> dict[str, Any]:
    """A job as the API lists it. ``in_minutes``: until its next run; 0: it is paused."""
    state = {"due": ago(60).isoformat(), "state": last, "reason": None, "turn": None}
    return {
        "name": name,
        "schedule": rhythm,
        "to": to,
        "enabled": in_minutes > 0,
        "next": ago(-in_minutes).isoformat() if in_minutes else None,
        "last": state if last else None,
    }


async def _cron(route: Any) -> None:
    jobs = [
        job("morning-report", "0 9 * * 1-5", "slack:C07CI", 47, "done"),
        job("nightly-ci", "30 5 * * *", "slack:C07CI", 310, "failed"),
        job("disk-of-db-2", "*/20 * * * *", "matrix:!ops:example.org", 9, "done"),
        job("backup-check", "15 7 * * 1", "telegram:4711", 4_120, "missed"),
        job("menu-translation", "0 16 * * 5", "telegram:-100123", 0, "done"),
    ]
    await route.fulfill(json={"jobs": jobs})


async def take_all(folder: Path) -> None:
    house, run = Shown(), Path(tempfile.mkdtemp(prefix="ohmo-pictures-"))
    house.log = run / "ohmo.jsonl"
    house.log.touch()
    async with house.open(run) as doors, async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=browser_path(), args=list(FLAGS))
        first = await browser.new_context()
        await (await first.new_page()).goto(doors.login_link() or "")
        camera = Camera(browser, doors, await first.storage_state(), folder)
        thread = await house.fill()
        wide, board = (1180, 820), (1180, 760)
        await camera.take(await camera.open("chat=c1", wide), "chat-light", "Deny")
        await camera.take(await camera.open("chat=c1", wide, scheme="dark"), "chat-dark", "Deny")
        await camera.take(await camera.open("chat=c1", (390, 780), 2), "chat-phone", "Deny")
        await camera.take(await camera.open("/threads", board), "dashboard-threads", "garden fence")
        await camera.take(
            await camera.open(f"/threads/{thread}", board, scheme="dark"),
            "dashboard-thread-dark",
            "Deny",
        )
        await camera.take(await camera.open("/approvals", (360, 720), 2), "dashboard-phone", "Deny")
        await camera.take(await camera.open("/usage", board), "dashboard-usage", "gpt-5-mini")
        await camera.take(
            await camera.open("/channels", board), "dashboard-channels", "refuses the token"
        )
        page = await camera.open("/messages/dead", board)
        await page.locator("details", has_text="seven nightly runs").locator("summary").click()
        await camera.take(page, "dashboard-dead", "the model refused the request")
        await camera.take(await camera.open("/cron", board), "dashboard-cron", "nightly-ci")
        await browser.close()
    shutil.rmtree(run)


if __name__ == "__main__":
    asyncio.run(take_all(Path(sys.argv[1]) if len(sys.argv) > 1 else FOLDER))
