"""The conversations of the page on the real daemon: what one can do with each, where the page
opens, and operations behind one entry."""

from __future__ import annotations

import re

import pytest
from playwright.async_api import Locator, Page, expect

from tests.browser.real.conftest import OpenPage
from tests.browser.real.daemon import Daemon
from tests.browser.real.test_browser_on_the_real_house import send
from tests.platforms.model.script import Call, Turn
from tests.platforms.model.server import ModelServer

pytestmark = [
    pytest.mark.needs("chromium"),
    pytest.mark.timeout(240),
    pytest.mark.asyncio(loop_scope="session"),
    pytest.mark.xdist_group("real-browser"),
]


async def talk(page: Page, words: str) -> None:
    await page.get_by_role("button", name="New chat").click()
    await expect(page.locator("#empty")).to_be_visible()
    await send(page, words)
    await expect(page.locator("#transcript .agent .md")).to_have_text(f"echo: {words}")


def row(page: Page, words: str) -> Locator:
    return page.locator("#chats li", has_text=words)


async def choose(page: Page, words: str, action: str) -> None:
    await row(page, words).hover()
    await row(page, words).get_by_role("button", name=re.compile("^More about")).click()
    await page.get_by_role("menuitem", name=action, exact=True).click()


async def test_a_conversation_is_found_renamed_pinned_archived_and_deleted(
    daemon: Daemon, page: Page, pages: OpenPage
) -> None:
    for words in ("about apples", "about pears", "about plums"):
        await talk(page, words)
    rows = page.locator("#chats a")
    await expect(rows).to_have_text(["about plums", "about pears", "about apples"])

    await choose(page, "about apples", "Pin")
    await expect(rows).to_have_text(["about apples", "about plums", "about pears"])
    await choose(page, "about pears", "Rename")
    await page.get_by_label("New name").fill('Fruit of the "autumn"')
    await page.keyboard.press("Enter")
    await expect(rows).to_have_text(["about apples", "about plums", 'Fruit of the "autumn"'])
    await choose(page, "about plums", "Archive")
    await expect(rows).to_have_text(["about apples", 'Fruit of the "autumn"'])
    await page.get_by_role("button", name="Archived").click()
    await expect(rows).to_have_text(["about plums"])
    await page.get_by_role("button", name="Back to all conversations").click()

    # what was said is looked through, not only names
    await page.get_by_label("Words in conversations").fill("pears")
    await expect(rows).to_have_text(['Fruit of the "autumn"'])
    await page.get_by_label("Words in conversations").fill("")
    await expect(rows).to_have_count(2)

    second = await pages(page.url)  # it is kept by the house, not by the page
    await expect(second.locator("#chats a")).to_have_text(["about apples", 'Fruit of the "autumn"'])
    await daemon.kill()
    await daemon.start()
    await page.reload()
    await expect(rows).to_have_text(["about apples", 'Fruit of the "autumn"'])

    await rows.first.click()
    await expect(page.locator("#title")).to_have_text("about apples")
    await choose(page, "about apples", "Delete")
    await page.get_by_role("button", name="Keep it").click()
    await expect(rows).to_have_count(2)
    gone = page.url
    await choose(page, "about apples", "Delete")
    await page.get_by_role("button", name="Delete it").click()
    await expect(rows).to_have_text(['Fruit of the "autumn"'])
    await expect(page.locator("#empty")).to_be_visible()
    await page.goto(gone)
    await expect(page.locator("#empty")).to_be_visible()
    assert "apples" not in str(await daemon.ask("sessions", "list"))
    assert (await daemon.ask("inbox", "audit"))["problems"] == []
    # from a page that was left open: it is a conversation once more
    await send(page, "apples again")
    await expect(page.locator("#transcript .agent .md")).to_have_text("echo: apples again")
    await expect(rows).to_have_text(["apples again", 'Fruit of the "autumn"'])


async def test_what_asks_somebody_is_not_deleted(model: ModelServer, page: Page) -> None:
    model.next(
        Turn(text="I write.", calls=(Call("Write", {"file_path": "x.txt", "content": "x"}),))
    )
    await send(page, "write a file")
    await expect(page.locator(".card.agent .choice").first).to_be_visible()
    await choose(page, "write a file", "Delete")
    await page.get_by_role("button", name="Delete it").click()
    await expect(page.locator("#toast")).to_contain_text(
        "something still runs or waits in this conversation; stop it first"
    )
    await expect(page.locator("#chats a")).to_have_text(["write a file"])


async def test_the_page_opens_where_the_person_was_and_operations_stand_behind_one_entry(
    page: Page, pages: OpenPage, daemon: Daemon
) -> None:
    await talk(page, "the first")
    await talk(page, "the second")
    await page.locator("#chats a", has_text="the first").click()
    await expect(page.locator("#title")).to_have_text("the first")
    again = await pages(f"{daemon.url}/")
    await expect(again.locator("#title")).to_have_text("the first")
    links = again.locator("#sidebar a:visible")
    await expect(links).to_have_text(["the second", "the first", "Operations"])
    await again.locator("#operations").focus()
    await again.keyboard.press("Enter")
    await expect(again.locator("#board-title")).to_have_text("Threads")
    places = again.get_by_role("navigation", name="Main").get_by_role("link")
    await expect(places).to_have_text(
        """
            Chats Threads Approvals Messages People Permissions Cron Usage Channels Logs Set-up
        """.split()
    )
    await places.first.click()
    await expect(again.locator("#title")).to_have_text("the first")
    await expect(again.locator("#chats a")).to_have_count(2)


async def test_the_menu_of_a_conversation_works_by_keyboard_alone(page: Page) -> None:
    await talk(page, "by keys")
    await page.locator("#chats a").focus()
    for key in ("Tab", "Enter", "ArrowDown", "Enter"):  # its menu, Pin
        await page.keyboard.press(key)
    await expect(page.locator("#chats a svg")).to_have_count(1)
    await page.locator("#chats a").focus()
    for key in ("Tab", "Enter", "Escape"):
        await page.keyboard.press(key)
    await expect(page.get_by_role("menu")).to_be_hidden()
    await expect(page.get_by_role("button", name="More about by keys")).to_be_focused()
