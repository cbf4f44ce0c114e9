"""One Chromium for all browser tests; a house and a logged-in page for each."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest
import pytest_asyncio
from playwright.async_api import Browser, Page, async_playwright, expect

from ohmo.control.server import Doors
from tests.parts import browser_path
from tests.unit.control.small_house import SmallHouse

FLAGS = """
    --headless --no-sandbox --disable-gpu --disable-quic --no-first-run
    --disable-background-networking --disable-component-update --disable-sync
""".split()


# of the whole process, whoever says it last: two cores, many tests
expect.set_options(timeout=45_000)


@pytest.fixture
def house() -> SmallHouse:
    return SmallHouse()


@pytest_asyncio.fixture(loop_scope="session")
async def doors(house: SmallHouse, tmp_path: Path) -> AsyncIterator[Doors]:
    async with house.open(tmp_path / "run") as doors:
        yield doors


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def launch() -> AsyncIterator[Callable[[], Awaitable[Browser]]]:
    """The one Chromium, or the next one when it has died: a test that ends it shall not fail those
    behind it."""
    async with async_playwright() as playwright:
        launched: list[Browser] = []

        async def launch() -> Browser:
            if not launched or not launched[-1].is_connected():
                launched.append(
                    await playwright.chromium.launch(
                        executable_path=browser_path(), args=list(FLAGS)
                    )
                )
            return launched[-1]

        try:
            yield launch
        finally:
            for browser in launched:
                await browser.close()


@pytest_asyncio.fixture(loop_scope="session")
async def chromium(launch: Callable[[], Awaitable[Browser]]) -> AsyncIterator[Browser]:
    """No page of one test is there in the next, nor what it kept."""
    browser = await launch()
    yield browser
    for context in list(browser.contexts):
        await context.close()


@pytest_asyncio.fixture(loop_scope="session")
async def page(chromium: Browser, doors: Doors) -> AsyncIterator[Page]:
    """A new chat, logged in. Anything on the console that is an error fails the test."""
    context = await chromium.new_context(
        viewport={"width": 1100, "height": 800}, locale="en-GB", timezone_id="UTC"
    )
    opened = await context.new_page()
    opened.set_default_timeout(30_000)
    errors: list[str] = []
    opened.on(
        "console",
        lambda message: (
            errors.append(message.text) if message.type in ("error", "warning") else None
        ),
    )
    opened.on("pageerror", lambda error: errors.append(str(error)))
    link = doors.login_link()
    assert link is not None
    await opened.goto(link)
    await opened.wait_for_selector("#empty:not([hidden])")
    yield opened
    unexpected = [
        line for line in errors if "net::ERR_" not in line and "Failed to load resource" not in line
    ]
    await context.close()
    assert unexpected == []
