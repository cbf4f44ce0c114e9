"""How soon the page shows something and can be written in, with an empty house and with 10 000
conversations. ``python -m benchmarks.page``.

A new browser profile each time, so nothing is in its cache. First paint is the browser's own mark
(W3C "Paint Timing", first-contentful-paint, from the start of the navigation)."""

from __future__ import annotations

import argparse
import asyncio
import shutil
import tempfile
import time
from pathlib import Path

from playwright.async_api import Browser, async_playwright

from benchmarks.rig import middle, show
from tests.browser.conftest import FLAGS
from tests.browser.real.daemon import Daemon
from tests.browser.real.many import multiply
from tests.platforms.model.server import ModelServer, serving

PAINT = "performance.getEntriesByName('first-contentful-paint')[0]?.startTime ?? 0"


async def opened(browser: Browser, daemon: Daemon) -> tuple[float, float, float]:
    """Seconds to the first paint, until the chats are listed and one can write, and to the first
    paint of a bare line of text."""
    login = (await daemon.ask("login"))["url"]
    context = await browser.new_context(viewport={"width": 1100, "height": 800})
    page = await context.new_page()
    await page.goto(login)
    state = await context.storage_state()
    await context.close()
    context = await browser.new_context(
        viewport={"width": 1100, "height": 800}, storage_state=state
    )
    page = await context.new_page()
    began = time.perf_counter()
    await page.goto(f"{daemon.url}/")
    await page.wait_for_selector("#chats a, #empty:not([hidden])")
    await page.locator("#draft:focus").wait_for()
    ready = time.perf_counter() - began
    paint = float(await page.evaluate(PAINT)) / 1e3
    await page.goto(f"{daemon.url}/healthz")
    while not (bare := float(await page.evaluate(PAINT)) / 1e3):
        await asyncio.sleep(0.05)
    await context.close()
    return paint, ready, bare


async def measured(browser: Browser, daemon: Daemon, label: str, rounds: int) -> None:
    await opened(browser, daemon)  # the browser and the daemon are warm, the profile never is
    found = [await opened(browser, daemon) for _ in range(rounds)]
    paint, ready, bare = (1e3 * middle(one) for one in zip(*found, strict=True))
    show(f"{label}: first paint", paint, "ms", "<= 300")
    show("    the shortest of them", 1e3 * min(paint for paint, _, _ in found), "ms")
    show("    a bare line of text in the same browser", bare, "ms", f"{paint / bare:.1f}x")
    show("    the chats are listed and one can write", ready, "ms")


async def said(browser: Browser, daemon: Daemon) -> None:
    page = await browser.new_page()
    await page.goto(daemon.link)
    await page.locator("#draft:focus").fill("a conversation about kettles")
    await page.locator("#draft").press("Enter")
    await page.locator("#transcript .agent .md").wait_for()
    await page.close()


async def main(rounds: int, conversations: int) -> None:
    path = (
        shutil.which("chromium")
        or shutil.which("chromium-browser")
        or shutil.which("google-chrome")
    )
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder) / "home"
        home.mkdir(mode=0o700)
        async with serving(ModelServer()) as model, async_playwright() as playwright:
            daemon = Daemon(home, model.url)
            browser = await playwright.chromium.launch(executable_path=path, args=list(FLAGS))
            await daemon.start()
            try:
                await measured(browser, daemon, "an empty house", rounds)
                await said(browser, daemon)
                await daemon.stop()
                multiply(home / "ohmo.db", conversations)
                await daemon.start()
                await measured(browser, daemon, f"{conversations} conversations", rounds)
            finally:
                await daemon.close()
                await browser.close()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--conversations", type=int, default=10_000)
    asked = parser.parse_args()
    asyncio.run(main(asked.rounds, asked.conversations))
