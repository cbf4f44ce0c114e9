"""The dashboard, driven by a real browser on a house in memory: one browser, one house and one
login for the whole file."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from playwright.async_api import Browser, BrowserContext, Page, Route, async_playwright, expect

from channels.contract import Address, ChatId, Choice
from ohmo.contracts.agent import ToolDone, ToolRefused, ToolStarted, TurnEnded, TurnStarted
from ohmo.contracts.messages import CallResult, Layer, ModelStep, ToolCall, ToolResult
from ohmo.contracts.reports import Spender, UsageTotal
from ohmo.control.server import Doors
from tests.browser.conftest import FLAGS
from tests.browser.line import Line
from tests.parts import browser_path
from tests.unit.control.small_house import PERMISSION, SmallHouse, said

pytestmark = [
    pytest.mark.needs("chromium"),
    pytest.mark.timeout(120),
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.xdist_group("dashboard"),
]
TODAY = datetime.now(UTC).date().isoformat()


@dataclass
class Scene:
    """What all tests of this file share. Places are never used twice, so no test sees another's
    rows."""

    house: SmallHouse
    doors: Doors
    browser: Browser
    context: BrowserContext
    log: Path
    errors: list[str] = field(default_factory=list[str])

    def url(self, path: str) -> str:
        return f"{self.doors.url}/#/{path}"

    def thread(self, chat: str, words: str = "") -> str:
        place = Address("slack", "T1", ChatId(chat))
        thread = self.house.thread_at(place)
        if words:
            self.house.accept(said(place, words, f"{chat}-first"))
        return thread

    def watch(self, page: Page) -> Page:
        page.set_default_timeout(20_000)
        page.on(
            "console",
            lambda message: (
                self.errors.append(message.text) if message.type in ("error", "warning") else None
            ),
        )
        page.on("pageerror", lambda error: self.errors.append(str(error)))
        return page


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def scene(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Scene]:
    house, run = SmallHouse(), tmp_path_factory.mktemp("dashboard")
    house.log = run / "ohmo.jsonl"
    house.log.touch()
    async with house.open(run) as doors, async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=browser_path(), args=list(FLAGS))
        context = await browser.new_context(
            viewport={"width": 1100, "height": 800}, locale="en-GB", timezone_id="UTC"
        )
        made = Scene(house, doors, browser, context, house.log)
        page = await context.new_page()
        await page.goto(doors.login_link() or "")
        await page.wait_for_selector("#empty:not([hidden])")
        await page.close()
        try:
            yield made
        finally:
            await browser.close()


@pytest_asyncio.fixture(loop_scope="module")
async def page(scene: Scene) -> AsyncIterator[Page]:
    """A page of the browser that is logged in. Anything the console complains about fails the
    test."""
    scene.errors.clear()
    opened = scene.watch(await scene.context.new_page())
    yield opened
    await opened.close()
    assert [
        line
        for line in scene.errors
        if "net::ERR_" not in line and "Failed to load resource" not in line
    ] == []


async def test_every_place_is_one_click_away_and_says_what_it_is_when_empty(
    scene: Scene, page: Page
) -> None:
    await page.goto(scene.doors.url or "")
    await page.wait_for_selector("#empty:not([hidden])")
    await page.get_by_role("link", name="Operations").click()
    for name, words in (
        ("Approvals", "Nothing waits for you"),
        ("Logs", "The log is empty"),
        ("Channels", "slack refuses bot_token"),
    ):
        await page.get_by_role("navigation", name="Main").get_by_role("link", name=name).click()
        await expect(page.locator("#board-title")).to_have_text(name)
        await expect(page.locator("#board-body")).to_contain_text(words)
        await expect(page.locator("#places a[aria-current]")).to_have_text(name)
    await page.get_by_role("navigation", name="Main").get_by_role("link", name="Chats").click()
    await expect(page.locator("#draft")).to_be_focused()
    await expect(page.locator("#board")).to_be_hidden()


async def test_a_thread_is_followed_live_with_its_tools_words_and_costs(
    scene: Scene, page: Page
) -> None:
    thread = scene.thread("live", "what do my notes say?")
    gate = asyncio.Semaphore(2)
    await page.goto(scene.url("threads"))
    row = page.locator(f'li[data-key="{thread}"]')
    await expect(row).to_contain_text("what do my notes say?")
    turn = asyncio.create_task(
        scene.house.turn(thread, "one two **three** four", tool=True, pace=gate.acquire)
    )
    await expect(row.locator(".doing")).to_have_text("thinking")
    await row.locator("a").click()
    await expect(page.locator("#board-title")).to_have_text("what do my notes say?")
    await expect(page.locator("#board .now")).to_contain_text("one two")
    for _ in range(5):
        gate.release()
    await turn
    await expect(page.locator("#board .now")).to_be_empty()
    await expect(page.locator("#board .agent .md strong")).to_have_text("three")
    await expect(page.locator("#board .tool.done .name")).to_have_text("Read")
    await expect(page.locator("#board .cost")).to_contain_text(
        "160 in · 20 out · $0.0015 · 2 calls · small-model"
    )
    await page.locator("#board-body").focus()
    await page.keyboard.press("e")
    await expect(page.locator("#board .tool .result")).to_contain_text("buy milk")


async def test_what_a_turn_cost_is_shown_whole_when_it_ended_before_the_page_could_hear_of_it(
    scene: Scene, page: Page
) -> None:
    thread = scene.thread("early", "what do my notes say?")
    heard = asyncio.Event()

    async def hold(route: Route) -> None:
        await heard.wait()
        await route.continue_()

    await page.route("**/api/v1/events?thread=*", hold)
    await page.goto(scene.url(f"threads/{thread}"))
    await expect(page.locator("#board-title")).to_have_text("what do my notes say?")
    await scene.house.turn(thread, "one two three", tool=True, pace=asyncio.Semaphore(9).acquire)
    heard.set()
    await expect(page.locator("#board .cost")).to_contain_text("2 calls")


async def test_a_call_that_was_not_run_is_said_and_ends_no_other(scene: Scene, page: Page) -> None:
    thread, house = scene.thread("refused", "tidy up"), scene.house
    read, bash = (
        ToolCall("r.1", "Read", {"file_path": "notes.md"}, "toolu_1"),
        ToolCall("r.2", "Bash", {"command": "rm -r /"}, "toolu_2"),
    )
    house.step(thread, "r", ModelStep((read, bash), "small-model", "tools"))
    # what is said before nobody hears
    async with page.expect_response(lambda heard: "/api/v1/events" in heard.url):
        await page.goto(scene.url(f"threads/{thread}"))
    await expect(page.locator("#board .tool")).to_have_count(2)
    for event in (
        TurnStarted("r", "owner"),
        ToolStarted("r", "r.1", "Read", "notes.md"),
        ToolRefused("r", "r.2", "Bash", "rm -r /"),
    ):
        house.emit(thread, event)
    result = ToolResult("r.2", "Not allowed (deny): rm -r /", error=True, refused=Layer.POLICY)
    house.step(thread, "r", CallResult(result))
    house.emit(thread, ToolDone("r", "r.2", result))
    await expect(page.locator("#board .tool.refused .state")).to_have_text("not run")
    await expect(page.locator("#board .now .doing")).to_have_text("notes.md")
    house.emit(thread, TurnEnded("r", "answered", ""))
    await expect(page.locator("#board .now")).to_be_empty()


async def test_a_posts_end_appears_without_a_reload(scene: Scene, page: Page) -> None:
    thread = scene.thread("posts", "hello")
    row = scene.house.post(thread, "an answer", state="sending")
    await page.goto(scene.url(f"threads/{thread}"))
    await expect(page.locator("#board .agent")).to_contain_text("on its way")
    scene.house.settle(row, "dead", "the chat is gone")
    await expect(page.locator("#board .agent")).to_contain_text(
        "This could not be delivered: the chat is gone"
    )
    scene.house.settle(row, "sent")
    await expect(page.locator("#board .agent .refused")).to_have_count(0)


async def test_an_approval_is_answered_in_the_list_and_by_a_key(scene: Scene, page: Page) -> None:
    thread = scene.thread("asks", "clean up")
    await page.goto(scene.url("approvals"))
    await expect(page.locator("#board-body")).to_contain_text("Nothing waits for you")
    await scene.house.ask(thread, PERMISSION)
    card = page.locator(".ask")
    await expect(card).to_contain_text("rm -r build/")
    await card.get_by_role("button", name="Allow for this session").click()
    await expect(page.locator("#board-body")).to_contain_text("Nothing waits for you")
    await scene.house.ask(thread, PERMISSION)
    await expect(card).to_have_count(1)
    await page.keyboard.press("4")
    await expect(page.locator("#board-body")).to_contain_text("Nothing waits for you")
    await expect(page.locator("#board-body")).to_be_focused()  # not the top of the page
    assert [(verdict, scope) for _, verdict, scope, _ in scene.house.verdicts] == [
        ("allowed", "session"),
        ("denied", "once"),
    ]


async def test_a_question_is_answered_inside_its_thread(scene: Scene, page: Page) -> None:
    thread = scene.thread("inside", "clean up")
    await page.goto(scene.url(f"threads/{thread}"))
    await expect(page.locator("#board .bubble")).to_have_text("clean up")
    ask = await scene.house.ask(thread, PERMISSION)
    await page.get_by_role("button", name="Allow once").click()
    await expect(page.locator(".ask")).to_have_count(0)
    await expect(page.locator("#board .card.closed")).to_contain_text("answered: allowed")
    assert (ask, "allowed", "once", "") in scene.house.verdicts


async def test_a_dead_letter_says_why_and_is_tried_again(scene: Scene, page: Page) -> None:
    thread = scene.thread("dead", "first")
    scene.house.dead_letter(
        thread, "summarise the incident", "three tries failed: the model refused"
    )
    row = scene.house.post(thread, "the nightly build is green", state="sending")
    scene.house.settle(row, "dead", "channel_not_found")
    await page.goto(scene.url("messages/inbox"))
    await page.get_by_role("button", name="Dead letters").click()
    lost = page.locator("details", has_text="summarise the incident")
    await lost.locator("summary").click()
    await expect(lost).to_contain_text(
        "It could not be answered: three tries failed: the model refused"
    )
    await lost.get_by_role("button", name="Try again").click()
    await expect(page.locator("#board-toast")).to_have_text("It comes back as a new message")
    post = page.locator("details", has_text="the nightly build is green")
    await post.locator("summary").focus()
    await page.keyboard.press("Enter")
    await expect(post).to_contain_text("channel_not_found")
    await post.get_by_role("button", name="Try again").click()
    await expect(post).to_have_count(0)
    await page.get_by_role("button", name="Outbox").click()
    await expect(
        page.locator("details", has_text="the nightly build is green").locator(".pill").first
    ).to_have_text("ready")


class Cron:
    """The API of cron as it is agreed, for the page alone; the real one is driven in
    tests/browser/real."""

    def __init__(self) -> None:
        self.jobs: dict[str, dict[str, Any]] = {}
        self.asked: list[tuple[str, str]] = []

    async def answer(self, route: Route) -> None:
        request = route.request
        path = request.url.split("/api/v1/cron", 1)[1].strip("/")
        name, _, what = path.partition("/")
        if "preview" not in (request.post_data or ""):
            self.asked.append((request.method, path))
        if request.method == "POST" and not path:
            body: dict[str, Any] = json.loads(request.post_data or "{}")
            if body.get("schedule") == "99 * * * *":
                await route.fulfill(
                    status=400, json={"error": "schedule: 99 is no minute (0 to 59)"}
                )
                return
            if body.pop("preview", False):
                upcoming = [
                    {
                        "at": "2099-01-01T08:00:00Z",
                        "local": "Thu 2099-01-01 09:00 CET (Europe/Berlin)",
                    }
                ]
                await route.fulfill(
                    json={
                        "upcoming": upcoming,
                        "rules": body.get("rules", []),
                        "secrets": [],
                        "tz": body.get("tz", "UTC"),
                    }
                )
                return
            base = dict.fromkeys(
                ("schedule", "at", "every", "tz", "to", "thread", "deadline", "next_local", "last")
            )
            more = {
                "rules": [],
                "secrets": [],
                "catch_up": "once",
                "overlap": "skip",
                "enabled": True,
                "source": "person",
            }
            self.jobs[body["name"]] = {**base, **more, **body, "next": "2099-01-01T09:00:00Z"}
            await route.fulfill(status=201, json=self.jobs[body["name"]])
            return
        if request.method == "DELETE":
            del self.jobs[name]
        elif what in ("pause", "resume"):
            self.jobs[name]["enabled"] = what == "resume"
        if what == "history" and name not in self.jobs:
            await route.fulfill(status=404, json={"error": f"{name}: there is no such job"})
            return
        if what == "history":
            row = {
                "due": "2026-01-05T09:00:00Z",
                "state": "done",
                "reason": None,
                "started": "2026-01-05T09:00:00Z",
            }
            await route.fulfill(
                json={
                    "occurrences": [
                        {
                            **row,
                            "ended": "2026-01-05T09:00:04Z",
                            "turn": "t1",
                            "preview": "All is green",
                        }
                    ]
                }
            )
            return
        await route.fulfill(json={"jobs": list(self.jobs.values())})


async def test_a_job_is_made_run_paused_and_deleted(scene: Scene, page: Page) -> None:
    cron = Cron()
    await page.route("**/api/v1/cron**", cron.answer)
    await page.goto(scene.url("cron"))
    await page.get_by_role("button", name="Make the first job").click()
    await page.get_by_label("Name").fill("morning-report")
    await page.get_by_label("What shall the agent do?").fill("Read the CI results")
    await page.get_by_label("When").fill("99 * * * *")
    await page.get_by_label("Send the answer to").fill("slack:C1")
    await page.get_by_role("button", name="Create the job").click()
    await expect(page.get_by_role("alert")).to_have_text("schedule: 99 is no minute (0 to 59)")
    await page.get_by_label("When").fill("0 9 * * 1-5")
    await page.get_by_label("Time zone").fill("Europe/Berlin")
    await page.get_by_label("Deliver").select_option("changed")
    await page.get_by_label("It may, without asking").fill("Bash(gh run list:*)")
    await expect(page.locator(".preview li")).to_contain_text(
        "Thu 2099-01-01 09:00 CET (Europe/Berlin) here: Thu"
    )
    await expect(page.locator(".preview")).to_contain_text("Bash(gh run list:*)")
    await page.get_by_role("button", name="Create the job").click()
    await expect(page.locator("#board-title")).to_have_text("morning-report")
    await expect(page.locator("#board-body")).to_contain_text("All is green")
    made = cron.jobs["morning-report"]
    assert (made["schedule"], made["when"], made["rules"]) == (
        "0 9 * * 1-5",
        "changed",
        ["Bash(gh run list:*)"],
    )
    await page.get_by_role("button", name="Run now").click()
    await page.get_by_role("button", name="Pause").click()
    await expect(page.get_by_role("button", name="Resume")).to_be_visible()
    await page.get_by_role("link", name="All jobs").click()
    await expect(page.locator("a.row", has_text="morning-report")).to_contain_text("paused")
    await page.locator("a.row", has_text="morning-report").click()
    await page.get_by_role("button", name="Delete").click()
    await page.get_by_role("button", name="Delete it").click()
    await expect(page.locator("#board-body")).to_contain_text("Nothing is scheduled")
    assert [asked for asked in cron.asked if asked[0] != "GET"] == [
        ("POST", ""),
        ("POST", ""),
        ("POST", "morning-report/run"),
        ("POST", "morning-report/pause"),
        ("DELETE", "morning-report"),
    ]


async def test_a_job_that_somebody_else_deleted_is_said_to_be_gone(
    scene: Scene, page: Page
) -> None:
    cron = Cron()
    cron.jobs["nightly"] = {
        "name": "nightly",
        "schedule": "0 3 * * *",
        "prompt": "look around",
        "enabled": True,
        "source": "owner",
    }
    await page.route("**/api/v1/cron**", cron.answer)
    await page.goto(scene.url("cron/nightly"))
    await expect(page.locator("#board-body")).to_contain_text("All is green")
    del cron.jobs["nightly"]
    await page.keyboard.press("r")
    await expect(page.locator("#board-body")).to_contain_text("This job is gone")


async def test_what_nobody_allowed_in_time_is_run_from_the_thread(scene: Scene, page: Page) -> None:
    thread = scene.thread("late", "clean up")
    choices = (Choice("0:q", "Allow once", "good"), Choice("3:q", "Deny", "danger"))
    card = scene.house.post(thread, "**Bash: rm -r build/**", choices=choices, card=True)
    await page.goto(scene.url(f"threads/{thread}"))
    await expect(page.locator("#board .card")).to_be_visible()
    await expect(page.get_by_role("button", name="Run it now")).to_have_count(0)
    late = (Choice(f"run:{card}", "Run it now"),)
    scene.house.post(
        thread,
        "**Bash: rm -r build/**\n\n_No answer in time: not run._",
        target=card,
        kind="edit",
        choices=late,
    )
    await page.get_by_role("button", name="Run it now").click()
    await expect(page.locator("#board-toast")).to_contain_text("asked for again")
    wake, _ = scene.house.wakes[-1]
    assert (wake.prompt, wake.place.channel, wake.place.chat) == ("/approve", "slack", "late")
    scene.house.post(
        thread, "**Bash: rm -r build/**\n\n_Run now: allowed by owner_", target=card, kind="edit"
    )
    await expect(page.get_by_role("button", name="Run it now")).to_have_count(0)


async def test_usage_is_drawn_by_day_model_and_person(scene: Scene, page: Page) -> None:
    scene.house.spent = [
        UsageTotal(2, 1000, 500, 0, 100, 30_000, 0, day=TODAY, model="large", person="owner"),
        UsageTotal(
            1,
            100,
            0,
            0,
            10,
            1_000,
            0,
            day=TODAY,
            model="small",
            person="U1",
            channel="slack",
            account="T1",
        ),
        UsageTotal(
            1,
            90,
            0,
            0,
            9,
            900,
            0,
            day=TODAY,
            model="small",
            person="U1",
            channel="discord",
            account="1",
        ),
    ]
    scene.house.called = {Spender("slack", "T1", "U1"): "Ada"}
    await page.goto(scene.url("usage"))
    await expect(page.locator(".number").first).to_contain_text("$0.032")
    await expect(page.locator(".legend li")).to_have_text(["large", "small"])
    await expect(page.locator("svg.chart .bar")).to_have_count(30)
    await expect(page.locator("svg.chart .bar title").last).to_have_text(f"{TODAY}: $0.032")
    await page.get_by_role("button", name="By person").click()
    await expect(page.locator(".legend li")).to_have_text(["owner", "Ada", "discord:U1"])
    people = page.locator("table", has_text="By person").locator("tbody th")
    await expect(people).to_have_text(["owner", "Ada slack:U1", "discord:U1"])
    await page.get_by_label("Days").select_option("7")
    await expect(page.locator("svg.chart .bar")).to_have_count(7)
    await expect(page.locator("table").first).to_contain_text("large")


async def test_the_log_is_filtered_and_followed_without_a_line_lost(
    scene: Scene, page: Page
) -> None:
    def write(name: str, level: str = "info", **more: str) -> None:
        with scene.log.open("a") as file:
            file.write(
                json.dumps({"at": "2026-01-05T09:00:00Z", "level": level, "event": name, **more})
                + "\n"
            )

    write("old_news")
    write("old_trouble", "error", channel="slack")
    await page.goto(scene.url("logs"))
    await expect(page.locator(".log-event")).to_have_text(["old_trouble", "old_news"])
    write("fresh_news")
    await expect(page.locator(".log-event").first).to_have_text("fresh_news")
    await page.get_by_role("button", name="Pause").click()
    write("while_paused")
    await page.get_by_role("button", name="Follow").click()
    await expect(page.locator(".log-event").first).to_have_text("while_paused")
    await page.get_by_label("Level").select_option("error")
    await expect(page.locator(".log-event")).to_have_text(["old_trouble"])
    await page.locator("#board-body").focus()
    await page.keyboard.press("/")
    await page.keyboard.type("nowhere")
    await expect(page.locator("#board-body")).to_contain_text("Nothing fits")


async def test_a_cut_line_loses_nothing_in_any_list(scene: Scene) -> None:
    """Mission M.8: what happened while the page was cut off is shown when it is back, by what the
    stream told and not by a reload."""
    port = int((scene.doors.url or "").rsplit(":", 1)[1])
    line = Line(port)
    async with line.open():
        context = await scene.browser.new_context()
        page = await context.new_page()
        await page.goto((scene.doors.login_link() or "").replace(str(port), str(line.port)))
        await page.wait_for_selector("#empty:not([hidden])")
        await page.goto(f"http://127.0.0.1:{line.port}/#/threads")
        first = scene.thread("cut-0", "before the cut")
        await expect(page.locator(f'li[data-key="{first}"]')).to_be_visible()
        for number in range(1, 4):
            line.down = True
            line.cut()
            await expect(page.locator("#board-link")).to_have_text("reconnecting…")
            missed = scene.thread(f"cut-{number}", f"said in cut {number}")
            scene.house.emit(first, TurnStarted("t", "owner"))
            scene.house.emit(first, ToolStarted("t", "t.1", "Read", "notes.md"))
            line.down = False
            await expect(page.locator("#board-link")).to_have_text("")
            await expect(page.locator(f'li[data-key="{missed}"]')).to_contain_text(
                f"said in cut {number}"
            )
            await expect(page.locator(f'li[data-key="{first}"] .doing')).not_to_be_empty()
            scene.house.emit(first, TurnEnded("t", "answered", ""))
            await expect(page.locator(f'li[data-key="{first}"] .doing')).to_be_empty()
        await context.close()


async def test_words_are_found_in_threads_and_messages(scene: Scene, page: Page) -> None:
    thread = scene.thread("sought", "Wo ist der Zürcher Käse?")
    scene.thread("unsought", "nothing of the kind")
    await page.goto(scene.url("threads"))
    await expect(page.locator(f'li[data-key="{thread}"]')).to_be_visible()
    await page.keyboard.press("/")
    await page.keyboard.type("kase zurcher")
    rows = page.locator("#board .rows > li")
    await expect(rows).to_have_count(1)
    await expect(rows).to_have_attribute("data-key", thread)
    await page.goto(scene.url("messages/inbox"))
    await page.get_by_label("Words in messages").fill("KÄSE")
    await expect(page.locator("#board .rows > li")).to_have_count(1)
    await expect(page.locator("#board .rows")).to_contain_text("Zürcher Käse")
    await page.get_by_label("Words in messages").fill("cheese that is not there")
    await expect(page.locator("#board-body")).to_contain_text("No message has these words")


async def test_a_thousand_threads_come_in_pages_and_stay_smooth(scene: Scene, page: Page) -> None:
    for number in range(1000):
        scene.thread(f"many-{number}", f"question number {number}")
    await page.goto(scene.url("threads"))
    rows = page.locator("#board .rows > li")
    await expect(rows).to_have_count(50)
    before = 0
    while (shown := await rows.count()) < 1000 and shown != before:
        before = shown
        await page.evaluate("document.getElementById('board-body').scrollTop = 1e9")
        await expect(rows).not_to_have_count(before)
    assert await rows.count() >= 1000
    keys: list[str] = await page.evaluate(
        "[...document.querySelectorAll('#board .rows > li')].map((row) => row.dataset.key)"
    )
    assert len(keys) == len(set(keys))
    longest: float = await page.evaluate("""async () => {
            const body = document.getElementById('board-body');
            let longest = 0;
            const watcher = new PerformanceObserver((list) => list.getEntries().forEach((task) => (longest = Math.max(longest, task.duration))));
            watcher.observe({ type: 'longtask' });
            for (let step = 0; step < 60; step++) {
                body.scrollTop = body.scrollHeight * (step / 60);
                await new Promise(requestAnimationFrame);
            }
            watcher.disconnect();
            return longest;
        }""")
    print(f"longest task while scrolling 1 000 threads: {longest:.0f} ms")
    newest = scene.thread("many-newest", "the newest of all")
    await expect(page.locator(f'li[data-key="{newest}"]')).to_have_count(1)
    await page.evaluate("document.getElementById('board-body').scrollTop = 0")
    await page.keyboard.press("j")
    await expect(page.locator("#board .rows a").first).to_be_focused()


async def test_a_page_of_a_list_that_a_change_overtook_is_asked_for_again(
    scene: Scene, page: Page
) -> None:
    for number in range(120):
        scene.thread(f"paged-{number}", f"a matter of paging {number}")
    asked, overtaken = asyncio.Event(), asyncio.Event()

    async def slow(route: Route) -> None:
        asked.set()
        await overtaken.wait()
        await route.continue_()

    await page.route(re.compile(r"/api/v1/sessions\?.*&after="), slow)
    await page.goto(scene.url("threads"))
    rows = page.locator("#board .rows > li")
    await expect(rows).to_have_count(50)
    await page.evaluate("document.getElementById('board-body').scrollTop = 1e9")
    await asked.wait()
    async with page.expect_response(re.compile(r"/api/v1/sessions\?(?!.*&after=)")):
        scene.thread("paged-newest", "came meanwhile")
    overtaken.set()
    await expect(rows).not_to_have_count(50)


async def test_keys_lead_everywhere_and_are_listed(scene: Scene, page: Page) -> None:
    await page.goto(scene.url("channels"))
    await expect(page.locator(".channel-sheet")).to_have_count(2)
    await page.keyboard.press("?")
    await expect(page.get_by_role("dialog", name="Keyboard shortcuts")).to_contain_text(
        "Dead letters"
    )
    await page.keyboard.press("Escape")
    for keys, title in (
        ("ga", "Approvals"),
        ("gu", "Usage"),
        ("gd", "Messages"),
        ("gt", "Threads"),
    ):
        await page.keyboard.press(keys[0])
        await page.keyboard.press(keys[1])
        await expect(page.locator("#board-title")).to_have_text(title)
    await page.locator("#skip").focus()
    await expect(page.locator("#skip")).to_be_in_viewport()
    await page.keyboard.press("Enter")
    await expect(page.locator("#board-body")).to_be_focused()


async def test_dark_and_light_follow_the_system_and_the_choice(scene: Scene, page: Page) -> None:
    async def paper() -> str:
        return str(await page.evaluate("getComputedStyle(document.body).backgroundColor"))

    await page.emulate_media(color_scheme="dark")
    await page.goto(scene.url("channels"))
    dark = await paper()
    await page.emulate_media(color_scheme="light")
    light = await paper()
    assert dark != light
    await page.get_by_role("button", name="Colours: as the system").click()
    await page.get_by_role("button", name="Colours: light").click()
    await expect(page.locator("html")).to_have_attribute("data-theme", "dark")
    assert await paper() == dark
    await page.reload()
    assert await paper() == dark
    await page.get_by_role("button", name="Colours: dark").click()
    assert await paper() == light


@pytest.mark.parametrize(
    "path",
    """
        threads threads/{} approvals messages/inbox messages/dead cron/+ usage channels logs
    """.split(),
)
async def test_nothing_overflows_on_a_phone(scene: Scene, path: str) -> None:
    thread = scene.thread("phone", "wide " * 60 + "w" * 300)
    if not any("y" * 100 in str(item) for item in scene.house.history_of[thread]):
        scene.house.post(
            thread,
            "| a | b |\n|---|---|\n| "
            + "wide " * 40
            + "| x |\n\n```\n"
            + "y" * 200
            + "\n```\n\n"
            + "z" * 300,
        )
    context = await scene.browser.new_context(
        viewport={"width": 360, "height": 700},
        is_mobile=True,
        has_touch=True,
        storage_state=await scene.context.storage_state(),
    )
    page = await context.new_page()
    await page.goto(scene.url(path.format(thread)))
    await expect(page.locator("#board-title")).not_to_be_empty()
    await expect(page.locator("#board-body > *").first).to_be_attached()
    assert await page.evaluate("document.documentElement.scrollWidth") <= 360
    assert (
        await page.evaluate(
            "document.getElementById('board-body').scrollWidth -"
            " document.getElementById('board-body').clientWidth"
        )
        <= 0
    )
    await page.get_by_role("button", name="Show the menu").click()
    await page.get_by_role("link", name="Channels").click()
    await expect(page.locator("#board-title")).to_have_text("Channels")
    await expect(page.locator(".channel-sheet").first).to_be_in_viewport()
    await context.close()


async def test_the_page_needs_nobody_else_and_obeys_its_own_policy(
    scene: Scene, page: Page
) -> None:
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    await page.goto(scene.url("usage"))
    await expect(page.locator("svg.chart")).to_be_visible()
    assert [url for url in asked if not url.startswith((scene.doors.url or "", "data:"))] == []
    response = await page.request.get(f"{scene.doors.url}/")
    policy = response.headers["content-security-policy"]
    assert "unsafe" not in policy
    assert "default-src 'none'" in policy
    body = await response.text()
    assert re.search(r"<script(?![^>]*src=)|\sstyle=|\son[a-z]+=", body) is None
    assert body.count("<style>") == policy.count("'sha256-")  # its own style sheets, each named


async def test_what_people_models_and_platforms_call_things_is_only_text_everywhere(
    scene: Scene, page: Page
) -> None:
    """Places, words, tools, results, errors, jobs, models, people, channels and lines of the log,
    each as markup that would run."""
    house, evil = (
        scene.house,
        (
            '<img src=x onerror="document.title=1"><script>document.title=2</script><a'
            ' href="javascript:alert(1)">x</a>'
        ),
    )
    thread = scene.thread(evil, evil)
    call = ToolCall("evil.1", evil, {evil: evil}, "toolu_1")
    house.step(thread, "evil", ModelStep((call,), evil, "tools"))
    house.step(thread, "evil", CallResult(ToolResult(call.id, evil)))
    house.dead_letter(thread, evil, evil)
    house.settle(house.post(thread, evil, state="sending"), "dead", evil)
    card = await house.ask(
        thread, replace(PERMISSION, title=evil, detail=evil, choices=(Choice("deny", evil),))
    )
    house.spent = [UsageTotal(1, 100, 50, 10, 20, 1500, 0, day=TODAY, model=evil, person=evil)]
    with scene.log.open("a") as log:
        log.write(
            json.dumps(
                {
                    "at": f"{TODAY}T09:00:00Z",
                    "level": "error",
                    "event": evil,
                    evil: evil,
                    "exception": evil,
                }
            )
            + "\n"
        )
    job = {
        "name": evil,
        "prompt": evil,
        "to": evil,
        "tz": evil,
        "schedule": evil,
        "rules": [evil],
        "secrets": [evil],
        "next": "2099-01-01T09:00:00Z",
    }
    job |= {
        **dict.fromkeys(("at", "every", "thread", "deadline", "next_local", "last")),
        "catch_up": "once",
        "overlap": "skip",
        "enabled": True,
    }
    channel = {
        "name": evil,
        "state": evil,
        "connected": False,
        "detail": evil,
        "waiting": 1,
        "outgoing": 0,
        "dead": 1,
    }
    channel |= dict.fromkeys(("last_event", "last_delivery", "last_call", "oldest_waiting"))
    await page.route(
        "**/api/v1/cron**",
        lambda route: route.fulfill(json={"jobs": [{**job, "source": "person", "when": "always"}]}),
    )
    await page.route(
        "**/api/v1/channels", lambda route: route.fulfill(json={"channels": [channel]})
    )
    title = (
        "threads",
        f"threads/{thread}",
        "approvals",
        "messages/inbox",
        "messages/outbox",
        "messages/dead",
        "cron",
        "usage",
        "channels",
        "logs",
    )
    for path in title:
        await page.goto(scene.url(path))
        await page.reload()
        await expect(page.locator("#board-body")).to_contain_text("<img src=x onerror")
        await page.evaluate(
            "document.querySelectorAll('#board details').forEach((one) => (one.open = true))"
        )
        assert (
            await page.locator("#board img, #board script, #board a[href^=javascript]").count() == 0
        ), path
        assert await page.title() not in ("1", "2"), path
    house.asked.pop(card)
    house.spent = []


@pytest.mark.parametrize(
    "path", ["inbox/t1/1/retry", "outbox/x/retry", "outbox/x/drop", "approvals/x"]
)
async def test_a_foreign_page_can_neither_read_nor_change_anything(scene: Scene, path: str) -> None:
    """A form, a script of another origin and a rebound name: refused, though the browser would send
    the cookie."""
    request, url = scene.context.request, scene.doors.url or ""
    for headers, status in (
        ({"Origin": "http://127.0.0.1:1", "Content-Type": "application/json"}, 403),
        (
            {
                "Origin": "https://evil.example",
                "Sec-Fetch-Site": "cross-site",
                "Content-Type": "application/json",
            },
            403,
        ),
        ({"Host": "evil.example", "Content-Type": "application/json"}, 421),
        ({"Content-Type": "application/json"}, 403),  # a change by cookie that names no origin
    ):
        response = await request.post(f"{url}/api/v1/{path}", headers=headers, data="{}")
        assert response.status == status, headers
    form = await request.post(
        f"{url}/api/v1/approvals/x", headers={"Origin": url}, form={"verdict": "allowed"}
    )
    assert form.status == 415
    for read in ("logs", "channels", "sessions", "logs/events", "events"):
        assert (
            await request.get(f"{url}/api/v1/{read}", headers={"Sec-Fetch-Site": "cross-site"})
        ).status == 403
    stranger = await scene.browser.new_context()
    assert (await stranger.request.get(f"{url}/api/v1/logs")).status == 401
    await stranger.close()


async def test_the_first_paint_comes_within_a_second(scene: Scene, page: Page) -> None:
    await page.goto(scene.url("threads"))
    await expect(page.locator("#board .rows > li").first).to_be_visible()
    paint: float = await page.evaluate(
        "performance.getEntriesByName('first-contentful-paint')[0]?.startTime ?? -1"
    )
    print(f"first contentful paint: {paint:.0f} ms")
    assert paint > 0
