"""Each button of a card does what it says, and what was allowed is taken back on its page: a real
browser on the real daemon."""

from __future__ import annotations

import pytest
from playwright.async_api import Page, expect

from tests.browser.real.daemon import Daemon
from tests.browser.real.test_browser_on_the_real_house import send
from tests.faults.directed_model import results
from tests.platforms.model.script import Call, Turn
from tests.platforms.model.server import ModelServer

pytestmark = [
    pytest.mark.needs("chromium"),
    pytest.mark.timeout(240),
    pytest.mark.asyncio(loop_scope="session"),
    pytest.mark.xdist_group("real-browser"),
]
LABELS = (
    "Allow once",
    "Allow for this session",
    "Always allow",
    "Allow all edits in this workspace",
)


@pytest.mark.person("allow", "always", on="page")
async def test_every_button_runs_the_call_and_what_it_left_behind_can_be_revoked(
    daemon: Daemon, model: ModelServer, page: Page
) -> None:
    for number, label in enumerate(LABELS):
        file = daemon.workspace / f"{number}.txt"
        model.next(
            Turn(calls=(Call("Write", {"file_path": str(file), "content": label}),)),
            Turn(text=f"Heard {number}."),
        )
        await send(page, f"write {number}")
        await page.get_by_role("button", name=label, exact=True).click()
        await expect(page.locator("#transcript .agent").last).to_contain_text(f"Heard {number}.")
        assert file.read_text() == label
        [heard] = results(model.asked[-1].body)
        assert "restart" not in heard
        assert "Not allowed" not in heard
    await page.goto(f"{page.url.split('#')[0]}#/permissions")
    rows = page.locator("#board .rows li")
    await expect(rows).to_have_count(3)
    await expect(rows.filter(has_text="always")).to_contain_text(
        f"changes to {daemon.workspace}/2.txt"
    )
    everything = rows.filter(has_text=f"Edit({daemon.workspace}/**)")
    await everything.get_by_role("button", name="Revoke").click()
    await page.get_by_role("dialog").get_by_role("button", name="Revoke").click()
    await expect(rows).to_have_count(2)
    kept = await daemon.ask("permissions", "list")
    assert [one["rule"] for one in kept] == [
        f"Edit({daemon.workspace}/{number}.txt)" for number in (1, 2)
    ]
