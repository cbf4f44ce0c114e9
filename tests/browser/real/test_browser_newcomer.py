"""The first minutes of somebody without any model: what the page tells, and tools by hand under
permission."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
from playwright.async_api import Page, expect

from tests.browser.real.conftest import OpenPage
from tests.browser.real.daemon import Daemon
from tests.browser.real.test_browser_on_the_real_house import send

pytestmark = [
    pytest.mark.needs("chromium"),
    pytest.mark.timeout(240),
    pytest.mark.asyncio(loop_scope="session"),
    pytest.mark.xdist_group("real-browser"),
]


@pytest_asyncio.fixture(loop_scope="session")
async def daemon(home: Path) -> AsyncIterator[Daemon]:
    made = Daemon(home, None)
    await made.start()
    try:
        yield made
    finally:
        await made.close()


async def test_what_the_empty_page_offers_works_in_an_empty_workspace(
    daemon: Daemon, page: Page, pages: OpenPage
) -> None:
    assert "No model yet" in daemon.said
    await expect(page.locator("#empty .setup")).to_contain_text("No model is configured yet")
    await page.locator("#empty").get_by_role("button", name="run Write").click()
    await page.press("#draft", "Enter")
    card = page.locator(".card.agent")
    await expect(card).to_contain_text("notes.txt")
    await card.get_by_role("button", name="Allow once").click()
    await expect(page.locator("#transcript .agent").last).to_contain_text("Write says")
    assert (daemon.workspace / "notes.txt").read_text().strip() == "hello"
    await send(page, "run Read file_path=notes.txt")
    await expect(page.locator("#transcript .agent").last).to_contain_text("Read says")
    await send(page, "Bash: ls -la")
    await expect(page.locator("#transcript .agent").last).to_contain_text("notes.txt")
    await expect(page.locator(".card.agent .choice")).to_have_count(0)
    await send(page, "what can you do?")
    await expect(page.locator("#transcript .agent").last).to_contain_text("No model is configured")


async def test_a_tool_that_fails_or_does_not_exist_is_one_clear_line(
    daemon: Daemon, page: Page
) -> None:
    await send(page, "run Read file_path=nowhere.txt")
    await expect(page.locator("#transcript .agent").last).to_contain_text("no such file")
    await send(page, "run Reed file_path=x")
    await expect(page.locator("#transcript .agent").last).to_contain_text("Read")
    await send(page, "/help")
    await expect(page.locator("#transcript .agent").last).to_contain_text("/approve")


async def test_a_call_that_was_not_run_is_called_so_after_a_reload_and_a_pressed_button_is_told_once(
    daemon: Daemon, page: Page, pages: OpenPage
) -> None:
    await send(page, "run Write file_path=no.txt content=x")
    await expect(page.locator("#count-approvals")).to_have_text("1")
    second = await pages(page.url)
    await expect(second.locator(".card.agent")).to_contain_text("no.txt")
    await page.locator(".card.agent").get_by_role("button", name="Deny").click()
    for one in (page, second):
        await expect(one.locator("#transcript .agent").last).to_contain_text("Not allowed")
        # the card itself says what was pressed
        await expect(one.locator("#toast.shown")).to_have_count(0)
    # not only when the page asks again, every ten seconds
    await expect(page.locator("#count-approvals")).to_be_hidden(timeout=5_000)
    await send(page, "run Edit file_path=3")
    await expect(page.locator("#transcript .agent").last).to_contain_text(
        "the arguments do not fit"
    )
    await expect(page.locator("#transcript .tool .state").last).to_have_text("not run")
    await page.reload()
    await expect(page.locator("#transcript .tool .state").last).to_have_text("not run")
    assert not (daemon.workspace / "no.txt").exists()
