"""What an owner does in the dashboard when things are not as usual: people at the door, dear
threads, jobs to mend, clocks and logins gone wrong."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from playwright.async_api import Browser, Page, Route, expect

from channels.contract import Address, ChatId
from ohmo.contracts.reports import UsageTotal
from ohmo.contracts.store import Hint
from ohmo.contracts.turns import PersonRow
from ohmo.control.server import Doors
from tests.browser.test_browser_dashboard import Cron
from tests.unit.control.small_house import PERMISSION, SmallHouse, said

pytestmark = [
    pytest.mark.needs("chromium"),
    pytest.mark.timeout(120),
    pytest.mark.asyncio(loop_scope="session"),
    pytest.mark.xdist_group("browser"),
]


async def go(page: Page, path: str) -> None:
    await page.goto(f"{page.url.split('#')[0]}#/{path}")


def slack(house: SmallHouse, chat: str, words: str) -> str:
    place = Address("slack", "T1", ChatId(chat))
    house.accept(said(place, words, f"{chat}-first"))
    return house.thread_at(place)


async def test_a_person_is_let_in_by_code_and_shown_out_again(
    page: Page, house: SmallHouse
) -> None:
    soon = datetime.now(UTC) + timedelta(minutes=20)
    house.persons += [
        PersonRow("telegram", "bot", "4711", "<b>Grace</b>", "asking", "hash of K7-QX", soon),
        PersonRow("slack", "T1", "U1", "Ada", "owner", by="boot"),
    ]
    await go(page, "people")
    await expect(page.locator("#board-title")).to_have_text("People")
    rows = page.locator("#board .rows li")
    await expect(rows.nth(0)).to_contain_text("asks to be let in")
    # what strangers call themselves is text
    await expect(rows.nth(0)).to_contain_text("<b>Grace</b>")
    await expect(rows.nth(0)).to_contain_text("the code ends in")
    await expect(rows.nth(1)).to_contain_text("let in by boot")
    await page.get_by_label("Code").fill("wrong")
    await page.get_by_role("button", name="Let in").click()
    await expect(page.get_by_role("alert")).to_contain_text("nobody asks with this code")
    await page.get_by_label("Code").fill(" K7-QX ")
    await page.keyboard.press("Enter")
    await expect(page.locator("#board-toast")).to_have_text("<b>Grace</b> is let in as guest")
    await expect(page.get_by_label("Code")).to_have_value("")
    await (
        page.locator("#board .rows li", has_text="4711")
        .get_by_role("button", name="Show out")
        .click()
    )
    await page.get_by_role("button", name="Keep it").click()
    assert [one.role for one in house.persons] == ["guest", "owner"]
    await (
        page.locator("#board .rows li", has_text="4711")
        .get_by_role("button", name="Show out")
        .click()
    )
    await page.get_by_role("dialog").get_by_role("button", name="Show out").click()
    await expect(page.locator("#board-toast")).to_have_text("<b>Grace</b> is let in no more")
    await page.evaluate("document.activeElement.blur()")
    await page.keyboard.press("g")
    await page.keyboard.press("c")
    await page.locator("#title").click()
    await page.keyboard.press("g")
    await page.keyboard.press("p")
    await expect(page.locator("#board-title")).to_have_text("People")


async def test_what_each_thread_cost_leads_to_the_thread(page: Page, house: SmallHouse) -> None:
    slack(house, "C1", "cheap words")
    dear = slack(house, "C2", "dear words")
    await go(page, "usage")
    table = page.locator("table", has_text="By thread")
    await expect(table.locator("tbody tr").first).to_contain_text("dear words slack:C2")
    await expect(table.locator("tbody tr").first).to_contain_text("$0.0030")
    await table.get_by_role("link", name="dear words").click()
    await expect(page).to_have_url(re.compile(f"#/threads/{dear}$"))


async def test_a_job_is_edited_and_only_what_was_touched_is_sent(page: Page) -> None:
    cron = Cron()
    job: dict[str, Any] = {
        "name": "morning",
        "schedule": "0 9 * * 1-5",
        "at": None,
        "every": None,
        "tz": "Europe/Berlin",
        "prompt": "Read CI",
        "to": "slack:C1",
        "thread": None,
        "rules": ["Bash(gh run list:*)"],
        "secrets": ["GH_TOKEN"],
        "deadline": "30m",
        "catch_up": "once",
        "overlap": "skip",
        "when": "always",
        "jitter": None,
        "retry": 0,
        "expires": None,
        "enabled": True,
        "source": "owner",
        "next": "2099-01-01T08:00:00Z",
        "next_local": "Thu",
        "last": None,
    }
    sent: list[dict[str, Any]] = []

    async def one(route: Route) -> None:
        if route.request.method == "GET":
            await route.fulfill(json=job)
            return
        body = route.request.post_data_json
        if body.get("preview"):
            upcoming = [
                {"at": "2099-01-01T17:00:00Z", "local": "Thu 2099-01-01 18:00 CET (Europe/Berlin)"}
            ]
            await route.fulfill(json={**job, **body, "upcoming": upcoming})
            return
        sent.append(body)
        cron.jobs["morning"] = {**job, **body}
        await route.fulfill(json=cron.jobs["morning"])

    cron.jobs["morning"] = job
    await page.route("**/api/v1/cron**", cron.answer)
    await page.route("**/api/v1/cron/*/history", cron.answer)
    await page.route("**/api/v1/cron/morning", one)
    await go(page, "cron/morning")
    await page.get_by_role("button", name="Edit").click()
    await expect(page.locator("#board-title")).to_have_text("Edit morning")
    await expect(page.get_by_label("Name")).to_have_attribute("readonly", "")
    for label, value in {
        "When": "0 9 * * 1-5",
        "Time zone": "Europe/Berlin",
        "It may, without asking": "Bash(gh run list:*)",
        "Ends after": "30m",
    }.items():
        await expect(page.get_by_label(label)).to_have_value(value)
    await expect(page.locator("#job-secrets-help")).to_contain_text("It gets GH_TOKEN")
    await page.get_by_label("When").fill("0 18 * * 1-5")
    await page.get_by_label("Send the answer to").fill("")
    await page.get_by_label("Deliver").select_option("wrong")
    await expect(page.locator(".preview li")).to_contain_text("18:00 CET")
    await page.get_by_role("button", name="Save the changes").click()
    await expect(page.locator("#board-toast")).to_have_text("morning is changed")
    await expect(page.locator("#board-title")).to_have_text("morning")
    assert sent == [{"schedule": "0 18 * * 1-5", "to": "", "when": "wrong"}]


async def test_times_name_their_zone_and_count_by_the_clock_of_the_house(
    chromium: Browser, house: SmallHouse, doors: Doors
) -> None:
    """The browser is three hours late and in another zone than the house."""
    context = await chromium.new_context(locale="en-GB", timezone_id="America/New_York")
    page = await context.new_page()
    await page.clock.install(time=datetime.now(UTC) - timedelta(hours=3))
    await page.goto(doors.login_link() or "")
    await page.wait_for_selector("#empty:not([hidden])")
    thread = slack(house, "C1", "what time is it?")
    dead = house.dead_letter(thread, "a lost question", "three tries failed")
    await go(page, "messages/dead")
    lost = page.locator("details", has_text="a lost question")
    await expect(lost.locator("summary time")).to_have_text("just now")
    await lost.locator("summary").click()
    here = dead.said_at.astimezone(ZoneInfo("America/New_York"))
    await expect(lost.locator(".exact").first).to_contain_text(f"{here:%H:%M:%S}")
    await expect(lost.locator(".exact").first).to_contain_text(re.compile("E[SD]T|GMT-[45]"))
    await go(page, "chat")
    await page.get_by_role("button", name="Status", exact=True).click()
    await expect(page.locator("#facts .house")).to_contain_text("America/New_York")
    await expect(page.locator("#facts .warning")).to_contain_text(
        "3 hours behind the clock of the machine ohmo runs on"
    )
    await context.close()


async def test_a_login_that_ends_under_an_open_list_is_said_at_once_and_one_in_another_tab_brings_it_back(
    chromium: Browser, house: SmallHouse, doors: Doors
) -> None:
    slack(house, "C1", "still here")
    context = await chromium.new_context()
    page = await context.new_page()
    await page.goto(doors.login_link() or "")
    await go(page, "threads")
    await expect(page.locator("#board a.row")).to_contain_text("still here")
    await context.clear_cookies()
    await page.locator("#places").get_by_role("link", name="Messages").click()
    await expect(page.get_by_role("dialog")).to_contain_text("This browser is not logged in")
    other = await context.new_page()
    await other.goto(doors.login_link() or "")
    # its tab is looked at again
    await page.evaluate("document.dispatchEvent(new Event('visibilitychange'))")
    await expect(page.locator("#board-title")).to_have_text("Messages")
    await expect(page.locator("#board .message")).to_contain_text("still here")
    await context.close()


@pytest.mark.parametrize(
    ("status", "title"), [(403, "This is not allowed here"), (500, "This could not be read")]
)
async def test_a_view_that_cannot_be_read_says_why_and_offers_another_try(
    chromium: Browser, house: SmallHouse, doors: Doors, status: int, title: str
) -> None:
    slack(house, "C1", "readable after all")
    context = await chromium.new_context()
    page = await context.new_page()
    await page.goto(doors.login_link() or "")
    await page.route(
        "**/api/v1/sessions?**",
        lambda route: route.fulfill(
            status=status, json={"error": "the store is being mended; look at ohmo doctor"}
        ),
    )
    await go(page, "threads")
    await expect(page.get_by_role("alert")).to_contain_text(title)
    await expect(page.get_by_role("alert")).to_contain_text("look at ohmo doctor")
    await page.unroute("**/api/v1/sessions?**")
    await page.get_by_role("button", name="Try again").click()
    await expect(page.locator("#board a.row")).to_contain_text("readable after all")
    await go(page, "threads/nowhere")
    await expect(page.get_by_role("alert")).to_contain_text("This is not here")
    await page.get_by_role("link", name="All threads").click()
    await expect(page.locator("#board a.row")).to_contain_text("readable after all")
    await context.close()


@pytest.mark.parametrize(
    ("place", "asked", "shown"), [("people", "pairing", "Ada"), ("cron", "cron", "morning")]
)
async def test_a_view_that_could_not_be_read_once_comes_back_also_when_nothing_in_it_changed(
    page: Page, house: SmallHouse, place: str, asked: str, shown: str
) -> None:
    house.persons.append(PersonRow("slack", "T1", "U1", "Ada", "owner", by="boot"))
    cron = Cron()
    cron.jobs["morning"] = {
        "name": "morning",
        "schedule": "0 9 * * *",
        "enabled": False,
        "source": "owner",
        "to": None,
        "last": None,
    }
    await page.route("**/api/v1/cron**", cron.answer)
    await go(page, place)
    await expect(page.locator("#board .row-title")).to_contain_text(shown)

    async def away(route: Route) -> None:
        await route.fulfill(status=503, json={"error": "the disk is full"})

    await page.route(f"**/api/v1/{asked}**", away)
    house.hint(Hint("any"))
    await expect(page.locator("#board .nothing[role=alert]")).to_contain_text("the disk is full")
    await page.unroute(f"**/api/v1/{asked}**", away)
    house.hint(Hint("any"))
    await expect(page.locator("#board .row-title")).to_contain_text(shown)
    await expect(page.locator("#board .nothing[role=alert]")).to_have_count(0)


async def test_an_answer_that_was_overtaken_is_not_drawn(page: Page, house: SmallHouse) -> None:
    """Ninety days are slow, seven are quick: what stands there at last are the seven, which were
    asked for last."""
    today = str(datetime.now(UTC).date())
    house.spent = [UsageTotal(2, 1000, 500, 0, 100, 30_000, 0, day=today, model="large")]
    held: list[Route] = []

    async def hold(route: Route) -> None:
        held.append(route)

    await go(page, "usage")
    await expect(page.locator("svg.chart .bar")).to_have_count(30)
    await page.route("**/api/v1/usage?days=90**", hold)
    async with (
        page.expect_request("**/api/v1/usage?days=90&by=person"),
        page.expect_request("**/api/v1/usage?days=90&by=thread**"),
        page.expect_request("**/api/v1/usage?days=90&by=purpose"),
    ):
        await page.get_by_label("Days").select_option("90")
    await page.get_by_label("Days").select_option("7")
    await expect(page.locator("svg.chart .bar")).to_have_count(7)
    old = {
        "model": "of ninety days",
        "day": today,
        "calls": 9,
        "input": 9,
        "cached": 0,
        "written": 0,
        "output": 9,
        "micro_usd": 1,
        "unpriced": 0,
    }
    assert len(held) == 3
    for route in held:
        async with page.expect_response("**/api/v1/usage?days=90**"):
            await route.fulfill(
                json={
                    "usage": [
                        {**old, "who": "ohmo itself", "name": "turn", "id": "", "address": None}
                    ]
                }
            )
    await page.get_by_role("button", name="By person").click()  # drawn anew from what was read
    await page.get_by_role("button", name="By model").click()
    await expect(page.locator("#board .numbers-table").first).to_contain_text("large")
    await expect(page.locator("#board .numbers-table").first).not_to_contain_text("of ninety days")


async def test_why_a_message_was_ignored_is_found_by_its_state(
    page: Page, house: SmallHouse
) -> None:
    thread = slack(house, "C1", "a question that was answered")
    dead = house.dead_letter(thread, "hello from a stranger", "")
    items = house.history_of[thread]
    items[items.index(dead)] = replace(
        dead,
        ending="refused",
        reason="people not in channels.slack.allow.people are not heard here",
    )
    await go(page, "messages/inbox")
    await expect(page.locator(".message")).to_have_count(2)
    await page.get_by_label("State").select_option("refused")
    await expect(page.locator(".message")).to_have_count(1)
    await page.locator(".message summary").click()
    await expect(page.locator(".message .why")).to_have_text(
        "It was refused: people not in channels.slack.allow.people are not heard here"
    )
    await page.get_by_label("State").select_option("stopped")
    await expect(page.locator("#board-body")).to_contain_text("No message is stopped")


async def test_words_run_from_the_side_they_are_read_from_and_a_torn_line_of_the_log_hides_no_other(
    page: Page, house: SmallHouse
) -> None:
    thread = slack(house, "C1", "مرحبا، كيف الحال؟")
    house.post(thread, "שלום, **world**\n\nand left again")
    await go(page, f"threads/{thread}")
    ways = page.locator("#board .md p")
    await expect(ways).to_have_count(2)
    directions = [
        await way.evaluate("one => getComputedStyle(one).direction") for way in await ways.all()
    ]
    assert directions == ["rtl", "ltr"]
    assert (
        await page.locator("#board .bubble .plain").evaluate(
            "one => getComputedStyle(one).direction"
        )
        == "rtl"
    )
    torn = {
        "logs": [
            {"place": "1", "event": "half", "level": "info"},
            {"place": "0", "at": "2026-01-05T09:00:00Z", "event": "whole", "level": "info"},
        ]
    }
    await page.route(
        "**/api/v1/logs?**", lambda route: route.fulfill(json={**torn, "next": None, "since": ""})
    )
    await page.route("**/api/v1/logs/events**", lambda route: route.abort())
    await go(page, "logs")
    await expect(page.locator(".log-event")).to_have_text(["half", "whole"])
    await expect(page.locator(".log-line time").first).to_have_text("?")


async def test_texts_are_told_from_their_ground_in_both_schemes(
    chromium: Browser, house: SmallHouse, doors: Doors
) -> None:
    """WCAG 2.2, 1.4.3: 4.5 to 1; a question waits, something runs, the line was cut, code has a
    language."""
    thread = slack(house, "C1", "hello")
    house.post(thread, "Look:\n\n```sh\nls\n```")
    await house.ask(thread, PERMISSION)
    for scheme in ("light", "dark"):
        context = await chromium.new_context(color_scheme=scheme)
        page = await context.new_page()
        await page.goto(doors.login_link() or "")
        await go(page, f"threads/{thread}")
        await expect(page.locator("#board .ask")).to_be_visible()
        await page.evaluate(
            "for (const [id, words] of [['board-link', 'reconnecting…']])"
            " Object.assign(document.getElementById(id), {className: 'link lost', textContent:"
            " words})"
        )
        assert await page.evaluate(FAINT) == {}, scheme
        await context.close()


FAINT = """() => {
  const canvas = Object.assign(document.createElement('canvas'), {width: 1, height: 1}).getContext('2d', {willReadFrequently: true});
  const read = (colour) => { canvas.clearRect(0, 0, 1, 1); canvas.fillStyle = colour; canvas.fillRect(0, 0, 1, 1); return [...canvas.getImageData(0, 0, 1, 1).data]; };
  const linear = (v) => (v / 255 <= 0.03928 ? v / 255 / 12.92 : ((v / 255 + 0.055) / 1.055) ** 2.4);
  const light = ([r, g, b]) => 0.2126 * linear(r) + 0.7152 * linear(g) + 0.0722 * linear(b);
  const over = (top, below) => below.map((v, i) => (i < 3 ? top[i] * top[3] / 255 + v * (1 - top[3] / 255) : 255));
  const ground = (one) => {
    const below = one.parentElement ? ground(one.parentElement) : [255, 255, 255, 255];
    return over(read(getComputedStyle(one).backgroundColor), below);
  };
  const found = {};
  const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walk.nextNode()) {
    const text = walk.currentNode, one = text.parentElement;
    if (!text.textContent.trim() || !one.checkVisibility({checkOpacity: true, checkVisibilityCSS: true}) || one.closest(':disabled, option, noscript')) continue;
    const below = ground(one), top = over(read(getComputedStyle(one).color), below);
    const [a, b] = [light(top.slice(0, 3)), light(below.slice(0, 3))];
    const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    if (ratio < 4.5) found[`${one.className || one.tagName}: ${text.textContent.trim().slice(0, 30)}`] = ratio.toFixed(2);
  }
  return found;
}"""


async def test_on_a_phone_names_stay_whole_and_nothing_covers_anything(
    page: Page, house: SmallHouse
) -> None:
    await page.set_viewport_size({"width": 390, "height": 800})
    thread = slack(house, "narrow", "tidy up")
    await house.turn(thread, "It is done.", tool=True)
    await go(page, f"threads/{thread}")
    name = page.locator("#board .tool .name").first
    await expect(name).to_be_visible()
    await name.evaluate(
        "(one) => (one.nextElementSibling.textContent = 'a long command '.repeat(20))"
    )
    assert await name.evaluate(
        "(one) => one.getClientRects().length === 1 && one.offsetHeight < 30 && one.scrollWidth <="
        " one.offsetWidth"
    )

    house.spent = [
        UsageTotal(
            2, 1000, 500, 0, 100, 30_000, 0, day=str(datetime.now(UTC).date()), model="large"
        )
    ]
    await go(page, "usage")
    # today, without a finger
    await expect(page.locator("svg.chart .bar").last.locator("rect").last).to_be_in_viewport()
    await expect(page.locator(".legend li")).to_be_in_viewport(ratio=1)

    cron = Cron()
    job = {
        "name": "dentist",
        "prompt": "x",
        "at": "2099-01-01T08:00:00Z",
        "next": "2099-01-01T08:00:00Z",
        "to": None,
        "last": None,
    }
    cron.jobs["dentist"] = {
        "schedule": None,
        "every": None,
        "enabled": True,
        "source": "owner",
        **job,
    }
    await page.route("**/api/v1/cron**", cron.answer)
    await go(page, "cron")
    row = page.locator("#board a.row")
    await expect(row).to_contain_text("once, Thu, 1 Jan 2099")
    assert await row.evaluate(
        "(one) => one.querySelector('.row-sub').scrollWidth <="
        " one.querySelector('time').getBoundingClientRect().left"
    )


async def test_who_is_asked_for_is_called_by_name(page: Page, house: SmallHouse) -> None:
    thread = slack(house, "asks", "clean up")
    card = await house.ask(thread, PERMISSION)
    house.asked[card] = replace(house.asked[card], person="U1")
    await go(page, "approvals")
    await expect(page.locator(".ask")).to_contain_text("for Ada (U1) in slack:asks")
    await go(page, "threads")
    await expect(page.locator("#board a.row")).to_contain_text("slack:asks · Ada")
