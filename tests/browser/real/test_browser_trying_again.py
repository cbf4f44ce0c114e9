"""A failure on the page of the real daemon: it stands once, before and after a reload, and is tried
again where it stands."""

from __future__ import annotations

import pytest
from playwright.async_api import Page, expect

from tests.browser.real.test_browser_on_the_real_house import send
from tests.platforms.model.script import Turn
from tests.platforms.model.server import ModelServer

pytestmark = [
    pytest.mark.needs("chromium"),
    pytest.mark.timeout(240),
    pytest.mark.asyncio(loop_scope="session"),
    pytest.mark.xdist_group("real-browser"),
]

WHY = "the kettle is on fire"


async def stands(page: Page) -> int:
    """How often the page says it, wherever."""
    return (await page.inner_text("body")).count(WHY)


@pytest.mark.person("retry", on="page")
async def test_a_failure_stands_once_before_and_after_a_reload_and_is_tried_again(
    page: Page, model: ModelServer
) -> None:
    model.next(Turn(status=400, kind="invalid_request_error", message=WHY))
    await page.evaluate(
        """why => { window.most = 0; new MutationObserver(() => {
        window.most = Math.max(window.most, document.body.innerText.split(why).length - 1); })
        .observe(document.body, {subtree: true, childList: true, characterData: true}); }""",
        WHY,
    )
    await send(page, "boil some water")
    await expect(page.get_by_text(WHY)).to_have_count(1)
    again = page.get_by_role("button", name="Try again")
    await expect(again).to_be_visible()
    assert await page.evaluate("window.most") == 1, "it stood there twice, if only for a moment"
    await page.reload()
    await expect(page.get_by_text(WHY)).to_have_count(1)
    assert await stands(page) == 1
    await again.click()
    await expect(page.get_by_text("echo: boil some water")).to_be_visible()
    await expect(again).to_have_count(0)
    await expect(page.get_by_text("Tried again")).to_have_count(1)
    await page.reload()
    await expect(page.get_by_text("echo: boil some water")).to_be_visible()
    await expect(again).to_have_count(0)
