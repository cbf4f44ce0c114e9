"""A model whose price nobody knows, on the page of the real daemon: nowhere does it look free."""

from __future__ import annotations

import asyncio
import json
import re

import pytest
from playwright.async_api import Page, Route, expect

from tests.browser.real.conftest import OpenPage
from tests.browser.real.daemon import Daemon
from tests.browser.real.test_browser_dashboard_real import go
from tests.browser.real.test_browser_on_the_real_house import send

pytestmark = [
    pytest.mark.needs("chromium"),
    pytest.mark.timeout(240),
    pytest.mark.asyncio(loop_scope="session"),
    pytest.mark.xdist_group("real-browser"),
]
MODEL = "own-model-7b"


async def page_with(daemon: Daemon, pages: OpenPage, **pricing: dict[str, float]) -> Page:
    """A page of the daemon after it was started anew with this model."""
    await daemon.stop()
    path = daemon.home / "config.yaml"
    written = json.loads(path.read_text(encoding="utf-8"))
    written["profiles"]["default"]["models"] = [MODEL]
    budgets = {"day": {"tokens": 900_000}, "turn": {"tokens": 50_000}}
    path.write_text(
        json.dumps({**written, "pricing": pricing, "budgets": budgets}), encoding="utf-8"
    )
    await daemon.start()
    page = await pages(daemon.link)
    await page.get_by_role("button", name="New chat").click()
    return page


async def test_a_price_nobody_knows_is_never_nothing(daemon: Daemon, pages: OpenPage) -> None:
    page = await page_with(daemon, pages)
    await send(page, "what does it cost")
    await expect(page.locator("#terms .cost-now")).to_have_text(
        re.compile(r"^price unknown · [\d.]+K? tokens$")
    )
    await page.locator("#open-status").click()
    await expect(page.locator("#facts")).to_contain_text(
        re.compile(r"Spent today\s*price unknown · ")
    )
    await page.locator("#close-drawer").click()
    await go(page, "Threads")
    await page.locator("#board a.row", has_text="what does it cost").click()
    await expect(page.locator("#board .cost")).to_contain_text("price unknown · 1 call")
    await go(page, "Usage")
    await expect(page.locator("#board .number").first).to_have_text("price unknowncost")
    await expect(page.locator("#board")).to_contain_text("The price of 1 call is not known")
    await expect(page.get_by_role("button", name="Cost", exact=True)).to_have_count(0)
    await expect(page.locator("#board")).to_contain_text(
        re.compile(r"Budgets: .*one answer 50K tokens; a day [\d.]+K? of 900K tokens")
    )
    for caption in ("By model", "By person", "By purpose", "By thread"):
        row = page.locator("#board table", has_text=caption).locator("tbody tr")
        await expect(row.locator("td").last).to_have_text("price unknown")
    assert "$" not in await page.locator("#board").inner_text()

    page = await page_with(daemon, pages, **{MODEL: {"input": 100, "output": 1000}})
    await send(page, "and now")
    await expect(page.locator("#terms .cost-now")).to_have_text(re.compile(r"^\$[\d.]+ · "))
    await go(page, "Usage")
    await expect(page.locator("#board .number").first).to_have_text(
        re.compile(r"^\$[\d.]+ \+ 1 of unknown pricecost$")
    )


async def test_what_an_answer_cost_that_came_before_the_page_listened_is_shown(
    daemon: Daemon, pages: OpenPage
) -> None:
    page = await page_with(daemon, pages, **{MODEL: {"input": 100, "output": 1000}})
    answered = asyncio.Event()

    async def later(route: Route) -> None:
        await answered.wait()
        await route.continue_()

    await page.route("**/api/v1/events?**", later)
    await page.get_by_role("button", name="New chat").click()
    await send(page, "quick")
    await page.wait_for_function(
        """async () => {
            const chat = new URLSearchParams(location.hash.slice(1)).get("chat");
            const answer = await fetch(`/api/v1/web/chats/${chat}`);
            return answer.ok && (await answer.json()).tokens > 0;
        }"""
    )
    answered.set()
    await expect(page.locator("#terms .cost-now")).to_have_text(re.compile(r"^\$[\d.]+ · "))
