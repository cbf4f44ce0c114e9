"""A daemon, a model and pages without errors for each test."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest_asyncio
from playwright.async_api import Browser, ConsoleMessage, Page

from tests.browser.real.daemon import Daemon
from tests.platforms.model.server import ModelServer, serving

OpenPage = Callable[[str], Awaitable[Page]]


@pytest_asyncio.fixture(loop_scope="session")
async def model() -> AsyncIterator[ModelServer]:
    """It outlives the daemon, as a real endpoint does."""
    async with serving(ModelServer()) as server:
        yield server


@pytest_asyncio.fixture(loop_scope="session")
async def daemon(home: Path, model: ModelServer) -> AsyncIterator[Daemon]:
    made = Daemon(home, model.url)
    await made.start()
    try:
        yield made
    finally:
        await made.close()


@pytest_asyncio.fixture(loop_scope="session")
async def pages(chromium: Browser) -> AsyncIterator[OpenPage]:
    """Opens a page in one browser profile: cookie and storage are shared. What the console
    complains about fails the test, except that a house which was killed cannot be reached."""
    context = await chromium.new_context(
        viewport={"width": 1100, "height": 800}, locale="en-GB", timezone_id="UTC"
    )
    context.set_default_timeout(30_000)
    errors: list[str] = []

    def heard(message: ConsoleMessage) -> None:
        # Chromium's own note about a form that the house refused
        refused = (
            "status of 400 (Bad Request)" in message.text
            or "status of 409 (Conflict)" in message.text
        )
        if message.type in ("error", "warning") and "net::ERR_" not in message.text and not refused:
            errors.append(message.text)

    async def opened(url: str) -> Page:
        page = await context.new_page()
        page.on("console", heard)
        page.on("pageerror", lambda error: errors.append(str(error)))
        await page.goto(url)
        return page

    yield opened
    await context.close()
    assert errors == []


@pytest_asyncio.fixture(loop_scope="session")
async def page(pages: OpenPage, daemon: Daemon) -> Page:
    """A new chat, logged in by the link that the daemon printed."""
    opened = await pages(daemon.link)
    await opened.wait_for_selector("#empty:not([hidden])")
    return opened
