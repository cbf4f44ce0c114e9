"""The page, driven by a real browser."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from playwright.async_api import Browser, Page, Route, expect

from channels.contract import Choice, Inbound
from channels.web.client import place
from ohmo.approvals.cards import closing
from ohmo.contracts.agent import ToolStarted, TurnEnded, TurnStarted
from ohmo.contracts.outbox import OutRow
from ohmo.contracts.tool import Question
from ohmo.contracts.turns import ThreadSettings
from ohmo.control.server import Doors
from tests.browser.line import Line
from tests.unit.control.small_house import PERMISSION, SmallHouse

pytestmark = [
    pytest.mark.needs("chromium"),
    pytest.mark.timeout(120),
    pytest.mark.asyncio(loop_scope="session"),
    pytest.mark.xdist_group("browser"),
]


def answering(house: SmallHouse, text: str, **more: Any) -> list[asyncio.Task[None]]:
    """Every message gets a streamed turn."""
    tasks: list[asyncio.Task[None]] = []
    house.on_message = lambda thread, _said: tasks.append(
        asyncio.create_task(house.turn(thread, text, **more))
    )
    return tasks


def said(house: SmallHouse) -> list[str]:
    return [
        i.arrival.text
        for items in house.history_of.values()
        for i in items
        if isinstance(getattr(i, "arrival", None), Inbound)
    ]  # pyright: ignore


async def send(page: Page, text: str) -> None:
    await page.fill("#draft", text)
    await page.press("#draft", "Enter")


async def until(true: Callable[[], bool]) -> None:
    async with asyncio.timeout(15):
        while not true():
            await asyncio.sleep(0.01)


async def test_a_message_is_answered_with_markdown_and_tool_activity(
    house: SmallHouse, page: Page
) -> None:
    answering(house, "You have **two** notes:\n\n- milk\n- `Grace`", tool=True)
    await send(page, "What do my notes say?")
    await expect(page.locator(".agent .md strong")).to_have_text("two")
    await expect(page.locator(".agent .md li")).to_have_count(2)
    await expect(page.locator(".aside")).to_have_text("I look at your notes.")
    tool = page.locator(".tool.done")
    await expect(tool.locator(".name")).to_have_text("Read")
    await tool.locator("summary").click()
    await expect(tool.locator(".result")).to_contain_text("buy milk")
    await expect(page.locator("#now")).to_be_empty()
    await expect(page.locator("#title")).to_have_text("What do my notes say?")


@pytest.mark.parametrize("enter", [True, False])
async def test_what_is_typed_while_the_page_still_loads_is_kept_and_said(
    house: SmallHouse, page: Page, enter: bool
) -> None:
    answering(house, "I heard you")
    here = asyncio.Event()

    async def later(route: Route) -> None:
        await here.wait()
        await route.continue_()

    await page.route("**/api/v1/known", later)
    await page.reload(wait_until="commit")
    await page.fill("#draft", "an early word")
    if enter:
        # the page runs
        await page.wait_for_function("document.getElementById('theme').title !== ''")
        await page.press("#draft", "Enter")
    here.set()
    await expect(page.locator("#title")).not_to_be_empty()
    if not enter:
        await expect(page.locator("#draft")).to_have_value("an early word")
        await page.press("#draft", "Enter")
    await expect(page.locator(".agent .md")).to_have_text("I heard you")
    assert said(house) == ["an early word"]
    await expect(page.locator("#draft")).to_have_value("")


async def test_text_streams_before_the_answer_is_there(house: SmallHouse, page: Page) -> None:
    gate = asyncio.Semaphore(3)
    answering(house, "one two three four five", pace=gate.acquire)
    await send(page, "count")
    await expect(page.locator("#now .streaming")).to_contain_text("one two three four")
    await expect(page.locator("#stop")).to_be_visible()
    await expect(page.locator("#transcript .agent")).to_have_count(0)
    for _ in range(10):
        gate.release()
    await expect(page.locator("#transcript .agent")).to_contain_text("one two three four five")
    await expect(page.locator("#now")).to_be_empty()
    await expect(page.locator("#stop")).to_be_hidden()


async def test_reloading_in_the_middle_of_a_turn_shows_the_text_so_far(
    house: SmallHouse, page: Page
) -> None:
    gate = asyncio.Semaphore(2)
    answering(house, "one two three four", pace=gate.acquire)
    await send(page, "count")
    await expect(page.locator("#now .streaming")).to_contain_text("one two three")
    await page.reload()
    await expect(page.locator("#now .streaming")).to_contain_text("one two three")
    await expect(page.locator("#stop")).to_be_visible()
    for _ in range(9):
        gate.release()
    await expect(page.locator("#transcript .agent")).to_contain_text("four")


async def test_the_line_about_a_tool_is_shown_once_and_a_stopped_turn_leaves_no_half_answer(
    house: SmallHouse, page: Page
) -> None:
    await send(page, "look")
    await until(lambda: said(house) == ["look"])
    (thread,) = house.addresses
    here = house.addresses[thread]
    house.emit(thread, TurnStarted("t", "owner"))
    house.emit(thread, ToolStarted("t", "t.1", "Read", "notes.md"))
    await house.web.typing(here, True)
    await house.web.revise(here, None, "I look.\n\n_Read: notes.md_")
    await expect(page.locator("#now .streaming")).to_have_text("I look.")
    await expect(page.locator("#now .doing")).to_have_text("notes.md")
    await house.web.typing(here, False)
    house.emit(thread, TurnEnded("t", "stopped", ""))
    await expect(page.locator("#now")).to_be_empty()
    await page.reload()
    await expect(page.locator("#transcript .bubble")).to_have_text("look")
    await expect(page.locator("#now")).to_be_empty()


async def test_markup_in_a_message_is_only_text(house: SmallHouse, page: Page) -> None:
    evil = (
        '<img src=x onerror="document.title=1"> <script>document.title=2</script>'
        " [x](javascript:document.title=3) ![y](javascript:alert(1)) <javascript:alert(1)>"
        " [z](data:text/html,hi) **<b onclick=1>bold</b>**"
    )
    answering(house, evil)
    await send(page, evil)
    answer = page.locator("#transcript .agent .md")
    await expect(answer).to_contain_text("<script>document.title=2</script>")
    assert (
        await page.locator(
            "#transcript img, #transcript script, #transcript a, #transcript b"
        ).count()
        == 0
    )
    await expect(page.locator("#transcript .bubble")).to_contain_text("<img src=x")


def link(url: str, words: str) -> str:
    return f'<a href="{url}" rel="noopener noreferrer nofollow" target="_blank">{words}</a>'


@pytest.mark.parametrize(
    ("text", "html"),
    [
        (
            "a *b* **c** ***d*** `e` ~~f~~",
            (
                "<p>a <em>b</em> <strong>c</strong> <strong><em>d</em></strong> <code>e</code>"
                " <s>f</s></p>"
            ),
        ),
        ("snake_case_name and 2 * 3 * 4", "<p>snake_case_name and 2 * 3 * 4</p>"),
        ("# One\n## Two", "<h2>One</h2><h3>Two</h3>"),
        ("- a\n  - b\n- c", "<ul><li>a<ul><li>b</li></ul></li><li>c</li></ul>"),
        ("3. a\n4. b", '<ol start="3"><li>a</li><li>b</li></ol>'),
        ("> a\n> b\n\nc", "<blockquote><p>a<br>b</p></blockquote><p>c</p>"),
        ("a\n\n---\n\nb", "<p>a</p><hr><p>b</p>"),
        ("\\*no\\* \\`no\\`", "<p>*no* `no`</p>"),
        ("*open and **open", "<p>*open and **open</p>"),
        ("1\\. no list", "<p>1. no list</p>"),
        ("``a ` b``", "<p><code>a ` b</code></p>"),
        ("**bold with `**` code**", "<p><strong>bold with <code>**</code> code</strong></p>"),
        *(
            (f"[x]({url})", "<p><span>x</span></p>")
            for url in "tg://user?id=1 javascript:a data:a matrix:u/a //a.b https://".split()
        ),
        ("[x](https://bank.com@evil.io)", "<p><span>x</span></p>"),
        ("<tg://user?id=1> https://[", "<p>&lt;tg://user?id=1&gt; https://[</p>"),
        ("[docs](https://a.io/x)", f"<p>{link('https://a.io/x', 'docs')}</p>"),
        (
            "https://a.io/x <https://a.io>",
            (
                f"<p>{link('https://a.io/x', 'https://a.io/x')}"
                f" {link('https://a.io', 'https://a.io')}</p>"
            ),
        ),
        ("[a.io/y](https://A.io/x)", f"<p>{link('https://A.io/x', 'a.io/y')}</p>"),
        (
            "[https://bank.com](https://evil.io/x)",
            f"<p>{link('https://evil.io/x', 'https://bank.com')} (evil.io)</p>",
        ),
        (
            "**[bank](https://evil.io)**.com",
            f"<p><strong>{link('https://evil.io', 'bank')} (evil.io)</strong>.com</p>",
        ),
        (
            "[bank．com](https://bank.com.evil.io)",
            f"<p>{link('https://bank.com.evil.io', 'bank．com')} (bank.com.evil.io)</p>",
        ),
        (
            "[me@bank.com](mailto:x@evil.io)",
            f"<p>{link('mailto:x@evil.io', 'me@bank.com')} (x@evil.io)</p>",
        ),
    ],
)
async def test_markdown_becomes_what_commonmark_says(page: Page, text: str, html: str) -> None:
    made = await page.evaluate(
        """async (text) => {
            const at = document.querySelector('script[type=module]').src.replace('app.js', 'markdown.js');
            const box = document.createElement('div');
            box.append((await import(at)).markdown(text));
            return box.innerHTML;
        }""",
        text,
    )
    assert made == html


async def test_an_approval_is_given_by_its_button_and_the_card_closes(
    house: SmallHouse, page: Page
) -> None:
    thread = ""

    async def ask(at: str) -> None:
        nonlocal thread
        thread = at
        await house.ask(at, PERMISSION)

    def answered(at: str, answer: Any) -> None:
        row = answer.message.removesuffix(".0")
        del house.asked[row]
        house.post(
            at,
            f"**Bash wants to run a command**\n\nallowed by you ({answer.choice})",
            target=row,
            kind="edit",
        )

    tasks: list[asyncio.Task[None]] = []
    house.on_message = lambda at, _said: tasks.append(asyncio.create_task(ask(at)))
    house.on_answer = answered
    await send(page, "clean up")
    card = page.locator(".card.agent")
    await expect(card.get_by_role("button", name="Allow once")).to_be_visible()
    assert await card.locator(".choice").all_inner_texts() == [
        "Allow once",
        "Allow for this session",
        "Always allow",
        "Deny",
    ]
    await card.get_by_role("button", name="Allow for this session").click()
    await expect(card).to_contain_text("allowed by you (allow:session)")
    await expect(card.locator(".choice")).to_have_count(0)
    assert [answer.choice for answer in house.answers] == ["allow:session"]
    await page.reload()
    await expect(page.locator(".card.agent.closed")).to_contain_text("allowed by you")
    await expect(page.locator(".choice")).to_have_count(0)


async def test_an_answered_card_says_what_was_decided_and_asks_no_more(
    house: SmallHouse, page: Page
) -> None:
    """While it is open the page shows the call itself, its words below; then the words alone."""

    def answered(at: str, answer: Any) -> None:
        row = answer.message.removesuffix(".0")
        del house.asked[row]
        items = [item for item in house.history_of[at] if isinstance(item, OutRow)]
        card = next(item for item in items if item.row.id == row)
        edit = closing(lambda: "closed", "Allowed once by owner")(card).outbound
        house.post(at, edit.text, target=row, kind="edit", card=edit.card)

    question = replace(PERMISSION, tool="Bash", arguments={"command": "rm -r build/"})
    tasks: list[asyncio.Task[str]] = []
    house.on_message = lambda at, _: tasks.append(asyncio.create_task(house.ask(at, question)))
    house.on_answer = answered
    await send(page, "clean up")
    card = page.locator(".card.agent")
    await expect(card.locator(".asked-words")).to_have_count(1)
    await expect(card).to_contain_text("without an answer it is not run")
    await card.get_by_role("button", name="Allow once").click()
    for _ in range(2):  # as it happens, and read again from the history
        await expect(page.locator(".card.agent.closed")).to_contain_text("Allowed once by owner")
        await expect(card).to_contain_text(PERMISSION.title)
        await expect(card).not_to_contain_text("without an answer it is not run")
        await expect(card.locator(".asked-words")).to_have_count(0)
        await page.reload()


async def test_a_question_takes_free_words(house: SmallHouse, page: Page) -> None:
    question = Question(
        "question",
        "Which colour?",
        "For the door.",
        (Choice("c0", "Red"), Choice("c1", "Blue")),
        "digest",
    )
    tasks: list[asyncio.Task[str]] = []
    house.on_message = lambda at, _said: tasks.append(asyncio.create_task(house.ask(at, question)))
    await send(page, "paint the door")
    await page.get_by_label("Answer in your own words").fill("green, like grass")
    await page.get_by_role("button", name="Answer").click()
    await expect(page.locator(".card.agent")).to_contain_text("answered: green, like grass")
    assert [(verdict, word) for _, verdict, _, word in house.verdicts] == [
        ("allowed", "green, like grass")
    ]


async def test_escape_stops_a_running_turn(house: SmallHouse, page: Page) -> None:
    gate = asyncio.Semaphore(1)
    tasks = answering(house, "one two three", pace=gate.acquire)
    await send(page, "count")
    await expect(page.locator("#stop")).to_be_visible()
    house.on_message = lambda _thread, _said: None
    await page.keyboard.press("Escape")
    await until(lambda: said(house) == ["count", "/stop"])
    for _ in range(5):
        gate.release()
    await asyncio.gather(*tasks)


async def test_shift_enter_makes_a_line_and_enter_sends_both(house: SmallHouse, page: Page) -> None:
    await page.focus("#draft")
    await page.keyboard.type("one")
    await page.keyboard.press("Shift+Enter")
    await page.keyboard.type("two")
    await page.keyboard.press("Enter")
    await until(lambda: said(house) == ["one\ntwo"])
    await expect(page.locator("#draft")).to_have_value("")


async def test_several_conversations_keep_their_own_words(house: SmallHouse, page: Page) -> None:
    answering(house, "done")
    await send(page, "first talk")
    await expect(page.locator("#transcript .agent")).to_have_count(1)
    await page.get_by_role("button", name="New chat").click()
    await expect(page.locator("#empty")).to_be_visible()
    await send(page, "second talk")
    await expect(page.locator("#transcript .agent")).to_have_count(1)
    await expect(page.locator("#chats a")).to_have_count(2)
    await page.locator("#chats a", has_text="first talk").click()
    await expect(page.locator("#transcript .bubble")).to_have_text("first talk")


async def test_full_auto_is_seen_at_a_glance_in_both_schemes(house: SmallHouse, page: Page) -> None:
    answering(house, "done")
    await send(page, "first")
    await expect(page.locator("#terms")).to_contain_text("Asks")
    ends = datetime.now(UTC) + timedelta(hours=1)
    await house.choose(
        next(iter(house.addresses)), ThreadSettings(mode="full_auto", free_until=ends)
    )
    await page.reload()
    await expect(page.get_by_role("button", name="Mode: Full auto")).to_be_visible()
    for scheme, red in (("light", "rgb(184, 72, 61)"), ("dark", "rgb(224, 132, 120)")):
        await page.emulate_media(color_scheme=scheme)  # pyright: ignore[reportArgumentType]
        await expect(page.locator(".box")).to_have_css("border-top-color", red)


async def test_a_file_goes_up_with_its_message(
    house: SmallHouse, page: Page, tmp_path: Path
) -> None:
    path = tmp_path / "plan.txt"
    path.write_text("the plan")
    await page.set_input_files("#file", str(path))
    await expect(page.locator("#attached li.here")).to_contain_text("plan.txt")
    await send(page, "read this")
    await expect(page.locator("#transcript .files a")).to_have_text("plan.txt")
    (item,) = await house.inbox()
    assert isinstance(item.arrival, Inbound)
    fetched = await house.web.fetch(item.arrival.attachments[0], tmp_path, 1000)
    assert fetched.read_text() == "the plan"


async def test_no_model_says_what_to_do(chromium: Browser, house: SmallHouse, doors: Doors) -> None:
    house.provider = "offline: no ANTHROPIC_API_KEY, OPENAI_API_KEY in the environment"
    page = await chromium.new_page()
    await page.goto(doors.login_link() or "")
    await expect(page.locator("#empty .setup")).to_contain_text("No model is configured yet")
    await expect(page.locator("#empty .setup")).to_contain_text("no ANTHROPIC_API_KEY")
    await page.get_by_role("button", name="run Write").click()
    await expect(page.locator("#draft")).to_have_value(
        "run Write file_path=notes.txt content=hello"
    )


async def test_who_is_not_logged_in_is_told_how(chromium: Browser, doors: Doors) -> None:
    page = await chromium.new_page()
    errors: list[str] = []
    page.on("console", lambda message: errors.append(message.text))
    await page.goto(doors.url or "")
    await expect(page.get_by_role("dialog")).to_contain_text("ohmo login")
    assert errors == []


async def test_a_browser_is_logged_out_where_the_status_stands(page: Page) -> None:
    await page.get_by_role("button", name="Status", exact=True).click()
    await page.get_by_role("button", name="Log this browser out").click()
    await page.wait_for_selector("#door:not([hidden])")
    assert (await page.request.get(page.url.partition("#")[0] + "api/v1/status")).status == 401


async def test_the_status_drawer_tells_each_channels_truth(page: Page) -> None:
    await page.get_by_role("button", name="Status", exact=True).click()
    await expect(page.locator("#facts")).to_contain_text(
        "slack refuses bot_token; put a new one in config.yaml"
    )
    await expect(page.locator("#channels .dot")).to_have_count(2)
    await page.keyboard.press("Escape")
    await expect(page.locator("#drawer")).to_be_hidden()


async def test_a_phone_has_a_menu_and_nothing_overflows(
    chromium: Browser, house: SmallHouse, doors: Doors
) -> None:
    context = await chromium.new_context(
        viewport={"width": 360, "height": 700}, is_mobile=True, has_touch=True
    )
    page = await context.new_page()
    answering(
        house,
        "| a | b |\n|---|---|\n| "
        + "wide " * 40
        + "| x |\n\n```\n"
        + "y" * 200
        + "\n```\n\n"
        + "z" * 300,
    )
    await page.goto(doors.login_link() or "")
    await page.wait_for_selector("#empty:not([hidden])")
    await send(page, "w" * 200)
    await expect(page.locator("#transcript .agent")).to_have_count(1)
    assert await page.evaluate("document.documentElement.scrollWidth") <= 360
    assert (
        await page.evaluate(
            "document.getElementById('scroll').scrollWidth -"
            " document.getElementById('scroll').clientWidth"
        )
        <= 0
    )
    await page.get_by_role("button", name="Show the conversations").click()
    await expect(page.locator("#new-chat")).to_be_in_viewport()
    await context.close()


async def test_what_is_typed_while_the_house_is_down_is_sent_once_when_it_is_back(
    chromium: Browser, house: SmallHouse, doors: Doors
) -> None:
    port = int((doors.url or "").rsplit(":", 1)[1])
    line = Line(port)
    async with line.open():
        page = await (await chromium.new_context()).new_page()
        await page.goto((doors.login_link() or "").replace(str(port), str(line.port)))
        await page.wait_for_selector("#empty:not([hidden])")
        line.down = True
        line.cut()
        await expect(page.locator("#link")).to_have_text("reconnecting…")
        await send(page, "first")
        await send(page, "second")
        await expect(page.locator("#waiting .pending")).to_have_count(2)
        assert said(house) == []
        line.down = False
        await expect(page.locator("#transcript .bubble")).to_have_text(["first", "second"])
        await expect(page.locator("#waiting .pending")).to_have_count(0)
        await expect(page.locator("#link")).to_have_text("")
        assert said(house) == ["first", "second"]
        assert await page.evaluate("localStorage.getItem('ohmo.outbox')") == "[]"
        await page.reload()
        await expect(page.locator("#transcript .bubble")).to_have_text(["first", "second"])
        assert said(house) == ["first", "second"]


async def test_a_line_cut_at_every_event_of_a_turn_leaves_the_same_transcript(
    chromium: Browser, doors: Doors, house: SmallHouse
) -> None:
    """Mission M.8, in the page: after every cut the transcript is byte for byte the one a fresh
    page shows."""
    port = int((doors.url or "").rsplit(":", 1)[1])
    line = Line(port)
    async with line.open():
        context = await chromium.new_context()
        page, fresh = await context.new_page(), await context.new_page()
        await page.goto((doors.login_link() or "").replace(str(port), str(line.port)))
        await page.wait_for_selector("#empty:not([hidden])")
        whole, events = await _streamed(page, fresh, house, line, "whole", None)
        # the durable items alone; how many drafts come between depends on the speed of the machine
        assert events > 7
        for cut in range(1, events + 1):
            text, _ = await _streamed(page, fresh, house, line, f"cut{cut}", cut)
            assert text == whole, f"cut at event {cut}"
        await context.close()


async def _streamed(
    page: Page, fresh: Page, house: SmallHouse, line: Line, chat: str, cut: int | None
) -> tuple[str, int]:
    """One streamed turn in a chat of its own; returns the visible words and how many events there
    were."""
    line.events, line.cut_after = 0, cut
    url = page.url.split("#")[0]
    await page.goto(f"{url}#chat={chat}")
    thread = house.thread_at(place(chat))
    await house.web.browser.say(chat, "go on", f"{chat:x<10}")

    async def pace() -> None:
        await asyncio.sleep(0.002)

    await house.turn(thread, "Here **it** is:\n\n- one\n- two 🎉 and three", tool=True, pace=pace)
    await expect(page.locator("#transcript .agent")).to_have_count(1)
    await expect(page.locator("#now")).to_be_empty()
    await expect(page.locator("#link")).to_have_text("")
    events, line.cut_after = line.events, None
    await fresh.goto(f"{url}#chat={chat}")
    await expect(fresh.locator("#transcript .agent")).to_have_count(1)
    show = "document.getElementById('transcript').innerHTML"
    assert await page.evaluate(show) == await fresh.evaluate(show), f"cut at {cut}"
    words: str = await page.inner_text("#transcript")
    times = await page.locator("#transcript time").all_inner_texts()
    for time in times:
        words = words.replace(time, "")
    return words, events
