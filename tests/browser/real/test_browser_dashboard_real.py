"""The dashboard on the real daemon: one life, one page, from a question to a dead letter that is
answered after all."""

from __future__ import annotations

import pytest
from playwright.async_api import Page, expect

from tests.browser.real.daemon import Daemon
from tests.platforms.model.script import Call, Turn
from tests.platforms.model.server import ModelServer

pytestmark = [
    pytest.mark.needs("chromium"),
    pytest.mark.timeout(240),
    pytest.mark.asyncio(loop_scope="session"),
    pytest.mark.xdist_group("real-browser"),
]


async def say(page: Page, text: str) -> None:
    await page.fill("#draft", text)
    await page.press("#draft", "Enter")


async def go(page: Page, place: str) -> None:
    operations = page.locator("#operations")
    if await operations.is_visible():
        await operations.click()
    await page.get_by_role("navigation", name="Main").get_by_role("link", name=place).click()


@pytest.mark.person("allow", "retry", on="page")
async def test_what_happens_in_the_chat_is_seen_asked_and_mended_in_the_dashboard(
    daemon: Daemon, model: ModelServer, page: Page
) -> None:
    notes = daemon.workspace / "notes.md"
    notes.write_text("buy milk\n")
    edit = Call(
        "Edit", {"file_path": str(notes), "old_string": "milk", "new_string": "milk and bread"}
    )
    model.next(Turn(text="I change it.", calls=(edit,)), Turn(text="**It** is done."))
    await say(page, "add bread")
    await expect(page.locator(".card.agent .choice").first).to_be_visible()

    await go(page, "Approvals")
    await expect(page.locator(".ask")).to_contain_text("milk and bread")
    await page.get_by_role("button", name="Allow once").click()
    await expect(page.locator("#board-body")).to_contain_text("Nothing waits for you")

    await go(page, "Threads")
    row = page.locator("#board a.row", has_text="add bread")
    await row.click()
    await expect(page.locator("#board .agent:not(.card) .md strong")).to_have_text("It")
    await expect(page.locator("#board .tool.done .name")).to_have_text("Edit")
    await expect(page.locator("#board .cost")).to_contain_text("2 calls")
    assert notes.read_text() == "buy milk and bread\n"

    await go(page, "Chats")
    model.next(Turn(status=400, kind="invalid_request_error", message="this cannot be read"))
    await say(page, "the second question")
    await expect(page.locator("#transcript .agent").last).to_contain_text("this cannot be read")
    await go(page, "Messages")
    await page.get_by_role("button", name="Dead letters").click()
    lost = page.locator("details", has_text="the second question")
    await lost.locator("summary").click()
    await expect(lost.locator(".why")).to_contain_text("It could not be answered")
    await lost.get_by_role("button", name="Try again").click()
    await go(page, "Chats")
    await expect(page.locator("#transcript .agent").last).to_contain_text(
        "echo: the second question"
    )

    await go(page, "Cron")
    await page.get_by_role("button", name="New job").click()
    await page.get_by_label("Name").fill("evening-words")
    await page.get_by_label("What shall the agent do?").fill("say good evening")
    await page.get_by_label("When").fill("0 99 * * *")
    await page.get_by_role("button", name="Create the job").click()
    await expect(page.get_by_role("alert")).to_contain_text("99")
    await page.get_by_label("When").fill("0 18 * * *")
    await page.get_by_role("button", name="Create the job").click()
    await expect(page.locator("#board-title")).to_have_text("evening-words")
    await page.get_by_role("button", name="Run now").click()
    await expect(page.locator("#board .rows .pill").first).to_have_text("done")
    await page.get_by_role("button", name="Pause").click()
    await expect(page.get_by_role("button", name="Resume")).to_be_visible()
    await page.get_by_role("button", name="Delete").click()
    await page.get_by_role("button", name="Delete it").click()
    await expect(page.locator("#board-body")).to_contain_text("Nothing is scheduled")

    await go(page, "Channels")
    await expect(page.locator(".channel-sheet", has_text="web").locator(".pill")).to_have_text(
        "connected"
    )
    await go(page, "Usage")
    await expect(page.locator("table").first).to_contain_text("claude-sonnet-4-5")
    await go(page, "Logs")
    await expect(page.locator(".log-event").first).to_be_visible()

    await go(page, "Threads")
    await daemon.kill()
    await expect(page.locator("#board-link")).to_have_text("reconnecting…")
    await daemon.start()
    await expect(page.locator("#board-link")).to_have_text("")
    await expect(row).to_be_visible()
    status = await daemon.ask("status")
    assert {"ready", "version", "channels", "inbox", "outbox", "cron", "budget"} <= set(status)
    assert {"state", "last_event", "last_delivery", "detail"} <= set(status["channels"]["web"])
    assert status["channels"]["web"]["state"] == "connected"
