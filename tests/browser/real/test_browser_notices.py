"""Notices, jobs and their reports on the page of the real daemon: named for what they are, and
never what the page opens on."""

from __future__ import annotations

import pytest
from playwright.async_api import Page, expect

from tests.browser.real.conftest import OpenPage
from tests.browser.real.daemon import Daemon
from tests.browser.real.test_browser_on_the_real_house import send
from tests.platforms.model.script import Turn
from tests.platforms.model.server import ModelServer

pytestmark = [
    pytest.mark.needs("chromium"),
    pytest.mark.timeout(240),
    pytest.mark.asyncio(loop_scope="session"),
    pytest.mark.xdist_group("real-browser"),
]


async def test_notices_and_jobs_have_names_and_the_page_does_not_open_on_them(
    page: Page, pages: OpenPage, daemon: Daemon, model: ModelServer
) -> None:
    model.next(Turn(status=400, kind="invalid_request_error", message="no"))
    await daemon.ask(
        "cron", "add", "0 5 * * *", "--prompt", "Look at the night.", "--name", "nightly"
    )
    await daemon.ask("cron", "run", "nightly")
    chats = page.locator("#chats")
    await expect(chats.get_by_text("Notices")).to_be_visible(timeout=40_000)
    fresh = await pages(daemon.url)
    await expect(fresh.locator("#empty")).to_be_visible()
    await expect(fresh.locator("#title")).to_have_text("New chat")
    await fresh.close()
    await send(page, "where I was")
    await expect(page.get_by_text("echo: where I was")).to_be_visible()
    again = await pages(daemon.url)
    await expect(again.get_by_text("echo: where I was")).to_be_visible()
    await again.goto(f"{daemon.url}/#/threads")
    await expect(
        again.locator("#board-body").get_by_text("nightly", exact=True).first
    ).to_be_visible()
    await again.close()
