"""The browser that all tests share."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest
from playwright.async_api import Browser

pytestmark = [
    pytest.mark.needs("chromium"),
    pytest.mark.timeout(120),
    pytest.mark.asyncio(loop_scope="session"),
    pytest.mark.xdist_group("browser"),
]


async def test_pages_open_again_after_the_browser_of_all_tests_has_died(
    chromium: Browser, launch: Callable[[], Awaitable[Browser]]
) -> None:
    await chromium.close()
    again = await launch()
    assert again is not chromium
    page = await again.new_page()
    assert await page.evaluate("1 + 1") == 2
    await page.close()
    assert await launch() is again
