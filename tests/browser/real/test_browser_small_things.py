"""Small things of the page on the real daemon: commands in order of use, pictures that are seen,
folded parts that show which way they go."""

from __future__ import annotations

import struct
import zlib
from pathlib import Path

import pytest
from playwright.async_api import Locator, Page, expect

from tests.browser.real.conftest import OpenPage
from tests.browser.real.daemon import Daemon
from tests.browser.real.test_browser_dashboard_real import go
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
DRAWN = "(one) => one.complete && one.naturalWidth"
WAY = (
    "(one) => { const made = getComputedStyle(one, '::after'); return made.content === 'none' ?"
    " 'none' : made.transform; }"
)


def png(side: int) -> bytes:
    """A red square."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return (
            struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        )

    rows = b"".join(b"\0" + b"\xff\0\0" * side for _ in range(side))
    head = struct.pack(">IIBBBBB", side, side, 8, 2, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", head)
        + chunk(b"IDAT", zlib.compress(rows))
        + chunk(b"IEND", b"")
    )


async def test_commands_stand_in_order_of_use_with_their_arguments(page: Page) -> None:
    await page.locator("#draft").press_sequentially("/")
    offered = page.locator("#commands li")
    await expect(offered.first).to_have_text("/newbegin a new conversation here")
    names = [text.split("\n")[0] for text in await offered.all_inner_texts()]
    assert names[:5] == ["/new", "/stop", "/status", "/model", "/mode"]
    assert names[-2:] == ["/help", "/start"]
    await expect(offered.nth(3)).to_contain_text("[NAME|default] which model answers here")
    for _ in names:
        await page.press("#draft", "ArrowDown")
    await expect(offered.last).to_have_attribute("aria-selected", "true")
    await expect(offered.last).to_be_in_viewport(ratio=0.9)
    await page.fill("#draft", "")
    await send(page, "/help")
    listed = page.locator("#transcript .agent li code, #transcript li code")
    await expect(listed.nth(3)).to_have_text("/model [NAME|default]")
    assert (await listed.all_inner_texts())[:3] == ["/new", "/stop", "/status"]


async def test_a_picture_is_seen_before_and_after_it_is_sent(
    page: Page, model: ModelServer, tmp_path: Path
) -> None:
    (tmp_path / "red.png").write_bytes(png(400))
    (tmp_path / "broken.png").write_bytes(b"no picture")
    (tmp_path / "plan.txt").write_text("a plan")
    await page.set_input_files(
        "#file", [tmp_path / name for name in ("red.png", "broken.png", "plan.txt")]
    )
    rows = page.locator("#attached li.here")
    await expect(rows).to_have_count(3)
    small = rows.nth(0).locator("img")
    await expect(small).to_be_visible()
    assert await small.evaluate(DRAWN) == 400
    box = await small.bounding_box()
    assert box is not None
    assert box["width"] == box["height"] < 60
    for other in (1, 2):
        await expect(rows.nth(other).locator("svg").first).to_be_visible()
        await expect(rows.nth(other).locator("img")).to_have_count(0)
    await page.get_by_role("button", name="Remove broken.png").click()
    await expect(rows).to_have_count(2)
    await expect(small).to_be_visible()
    model.next(Turn(text="Red."))
    await send(page, "what is it")
    sent = page.locator("#transcript .person a.picture img")
    await expect(sent).to_be_visible()
    await expect(page.locator("#transcript .agent .md")).to_have_text("Red.")
    await page.reload()
    await expect(sent).to_be_visible()
    assert await sent.evaluate(DRAWN) == 400


async def turns(summary: Locator) -> None:
    """It shows a sign, which turns when it is opened."""
    closed = await summary.evaluate(WAY)
    assert closed not in ("none", "")
    await summary.click()
    await expect(summary.locator("xpath=..")).to_have_attribute("open", "")
    await summary.page.wait_for_function(
        f"([one, closed]) => ({WAY})(one) !== closed", arg=[await summary.element_handle(), closed]
    )


async def test_folded_parts_show_which_way_they_go(
    daemon: Daemon, model: ModelServer, page: Page
) -> None:
    (daemon.workspace / "notes.md").write_text("buy milk\n")
    model.next(
        Turn(
            text="I look.", calls=(Call("Read", {"file_path": str(daemon.workspace / "notes.md")}),)
        ),
        Turn(text="Milk."),
    )
    await send(page, "what do I need")
    await expect(page.locator("#transcript .agent .md").last).to_have_text("Milk.")
    await turns(page.locator("#transcript details.tool summary"))
    await go(page, "Messages")
    await turns(page.locator("#board summary.row").first)


async def test_a_job_of_every_few_seconds_says_what_that_means_before_it_is_made(
    page: Page,
) -> None:
    await go(page, "Cron")
    await page.get_by_role("button", name="Make the first job").click()
    await page.get_by_label("When").fill("0 9 * * * */20")
    warning = page.locator(".preview .warning")
    await expect(warning).to_have_text(
        "the sixth field, */20, is seconds; the model is asked, and paid, every 20s"
    )
    await page.get_by_label("When").fill("0 9 * * *")
    await expect(page.locator(".preview li").first).to_be_visible()
    await expect(warning).to_have_count(0)


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
