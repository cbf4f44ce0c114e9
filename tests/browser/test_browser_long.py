"""Conversations that grew long: the page begins with their end and reaches back as far as one
reads."""

from __future__ import annotations

import pytest
from playwright.async_api import Browser, Page, expect

from channels.contract import Address, ChatId
from channels.web.client import place
from ohmo.control.server import Doors
from tests.browser.test_browser_chat import send
from tests.unit.control.small_house import SmallHouse, said

pytestmark = [
    pytest.mark.needs("chromium"),
    pytest.mark.timeout(120),
    pytest.mark.asyncio(loop_scope="session"),
    pytest.mark.xdist_group("browser"),
]
PAGES, ITEMS = 4, 200


def fill(house: SmallHouse, at: Address) -> str:
    """As many items as some pages hold, an edit of the first answer at their end."""
    thread = house.thread_at(at)
    house.accept(said(at, "message 0", "m0"))
    row = house.post(thread, "answer 0")
    for number in range(1, PAGES * ITEMS // 2):
        house.accept(said(at, f"message {number}", f"m{number}"))
        house.post(thread, f"answer {number}")
    house.post(thread, "answer 0, corrected", target=row, kind="edit")
    return thread


async def test_a_long_chat_opens_at_its_end_and_reaches_back_while_one_scrolls(
    page: Page, house: SmallHouse
) -> None:
    fill(house, place("long"))
    await page.goto(f"{page.url.split('#')[0]}#chat=long")
    turns = page.locator("#transcript .turn")
    await expect(turns.last).to_contain_text("answer 0, corrected")
    assert await turns.count() <= ITEMS
    await expect(turns.last).to_be_in_viewport()
    for _ in range(PAGES):
        words, shown = (await turns.first.inner_text()).split("\n")[0], await turns.count()
        await page.locator("#scroll").evaluate("box => (box.scrollTop = 0)")
        await expect(turns.nth(shown)).to_be_attached()
        # "answer 10" at 09:48 is not "answer 100"
        same = page.locator("#transcript .turn", has=page.get_by_text(words, exact=True))
        await expect(same.first).to_be_in_viewport()  # nothing jumped
    await expect(turns).to_have_count(PAGES * ITEMS)
    await expect(turns.nth(0)).to_contain_text("message 0")
    await expect(turns.nth(1)).to_contain_text("answer 0, corrected")  # the edit found its original
    await expect(page.locator("#transcript .day")).to_have_count(1)
    await expect(page.locator("#earlier button")).to_have_count(0)
    await send(page, "one more")
    await expect(turns.last).to_contain_text("one more")


async def test_a_thread_that_reaches_back_keeps_what_became_of_its_posts(
    chromium: Browser, doors: Doors, house: SmallHouse
) -> None:
    thread = fill(house, Address("slack", "T1", ChatId("long")))
    row = house.post(thread, "on its way out", state="sending")
    context = await chromium.new_context()
    page = await context.new_page()
    await page.goto(doors.login_link() or "")
    await page.goto(f"{doors.url}/#/threads/{thread}")
    post = page.locator("#board .agent", has_text="on its way out")
    await expect(post.locator(".muted")).to_have_text("on its way")
    house.settle(row, "sent")
    await expect(post.locator(".muted")).to_have_count(0)
    await page.get_by_role("button", name="Show what came before").click()
    await expect(page.locator("#board .person").nth(150)).to_be_attached()
    await expect(post.locator(".muted")).to_have_count(0)
    await context.close()
