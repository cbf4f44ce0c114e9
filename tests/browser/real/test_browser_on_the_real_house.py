"""The page on the real daemon, which is killed at the worst moments; the model is scripted."""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.async_api import Page, expect

from tests.browser.real.conftest import OpenPage
from tests.browser.real.daemon import Daemon
from tests.platforms.model.script import Call, Turn
from tests.platforms.model.server import ModelServer

pytestmark = [
    pytest.mark.needs("chromium"),
    pytest.mark.timeout(240),
    pytest.mark.asyncio(loop_scope="session"),
    pytest.mark.xdist_group("real-browser"),
]

WORDS = " ".join(f"word{number}" for number in range(1, 31))


async def send(page: Page, text: str) -> None:
    await page.fill("#draft", text)
    await page.press("#draft", "Enter")


async def until(true: Callable[[], bool], what: str) -> None:
    try:
        async with asyncio.timeout(45):
            while not true():
                await asyncio.sleep(0.02)
    except TimeoutError:
        raise AssertionError(f"never: {what}") from None


async def fresh_equals(pages: OpenPage, page: Page) -> None:
    """What this page shows after all it went through is, as soon as both are at rest, what a page
    shows that is opened now."""
    fresh = await pages(page.url)
    await same(page, fresh)
    await fresh.close()


async def same(one: Page, other: Page) -> None:
    show = "document.getElementById('transcript').innerHTML"
    shown = ("", "-")
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(20):
            while shown[0] != shown[1]:
                shown = (await one.evaluate(show), await other.evaluate(show))
                await asyncio.sleep(0.05)
    assert shown[0] == shown[1]


async def nothing_is_lost(daemon: Daemon, **endings: int) -> None:
    audit = await daemon.ask("inbox", "audit")
    assert audit["problems"] == []
    assert {name: number for name, number in audit["endings"].items() if number} == endings


def pattern(text: str) -> re.Pattern[str]:
    """Begins with it; the time of day follows."""
    return re.compile("^" + re.escape(text))


def edit_of(path: Path) -> Turn:
    return Turn(
        text="I change it.",
        calls=(
            Call(
                "Edit",
                {"file_path": str(path), "old_string": "milk", "new_string": "milk and bread"},
            ),
        ),
    )


@pytest.mark.person("say", "watch", on="page")
async def test_the_printed_link_opens_a_chat_that_answers_while_it_thinks(
    daemon: Daemon, model: ModelServer, page: Page, pages: OpenPage
) -> None:
    model.next(Turn(text=f"**Hello** {WORDS}", chunks=30, between=0.1))
    await send(page, "hello there")
    await expect(page.locator("#transcript .bubble")).to_have_text("hello there")
    await expect(page.locator("#now .streaming")).to_contain_text("word3")
    await expect(page.locator("#stop")).to_be_visible()
    await expect(page.locator("#transcript .agent .md strong")).to_have_text("Hello")
    await expect(page.locator("#transcript .agent")).to_contain_text("word30")
    await expect(page.locator("#now")).to_be_empty()
    await fresh_equals(pages, page)
    again = await pages(daemon.link)
    await expect(again.locator("#toast")).to_contain_text("used already")
    await nothing_is_lost(daemon, answered=1)


@pytest.mark.person("allow", on="page")
async def test_an_edit_is_asked_and_allowed_once_by_its_button(
    daemon: Daemon, model: ModelServer, page: Page, pages: OpenPage
) -> None:
    notes = daemon.workspace / "notes.md"
    notes.write_text("buy milk\n")
    model.next(edit_of(notes), Turn(text="It is done."))
    await send(page, "add bread")
    card = page.locator(".card.agent")
    await expect(card).to_contain_text("Edit")
    await expect(card).to_contain_text("milk and bread")
    assert notes.read_text() == "buy milk\n"
    await card.get_by_role("button", name="Allow once").click()
    await expect(page.locator("#transcript .agent:not(.card)")).to_have_text(
        [pattern("It is done.")]
    )
    assert notes.read_text() == "buy milk and bread\n"
    await expect(card.locator(".choice")).to_have_count(0)
    await expect(card).to_contain_text("llowed")
    await expect(page.locator(".tool.done .name")).to_have_text("Edit")
    await fresh_equals(pages, page)


@pytest.mark.person("deny", on="page")
async def test_a_denied_edit_does_not_happen_and_the_model_hears_of_it(
    daemon: Daemon, model: ModelServer, page: Page
) -> None:
    notes = daemon.workspace / "notes.md"
    notes.write_text("buy milk\n")
    model.next(edit_of(notes), Turn(text="Then not."))
    await send(page, "add bread")
    await page.get_by_role("button", name="Deny").click()
    await expect(page.locator("#transcript .agent:not(.card)")).to_contain_text(["Then not."])
    assert notes.read_text() == "buy milk\n"
    assert "denied" in model.asked[-1].raw.decode().lower()


@pytest.mark.person("allow", "restart", on="page")
async def test_a_card_survives_kill_9_and_its_button_still_works_exactly_once(
    daemon: Daemon, model: ModelServer, page: Page, pages: OpenPage
) -> None:
    notes = daemon.workspace / "notes.md"
    notes.write_text("buy milk\n")
    model.next(edit_of(notes), Turn(text="It is done."))
    await send(page, "add bread")
    allow = page.get_by_role("button", name="Allow once")
    await expect(allow).to_be_visible()
    await daemon.kill()
    await expect(page.locator("#link")).to_have_text("reconnecting…")
    await daemon.start()
    await expect(page.locator("#link")).to_have_text("")
    await allow.click()
    await expect(page.locator("#transcript .agent:not(.card)")).to_contain_text(["It is done."])
    assert notes.read_text() == "buy milk and bread\n"
    await expect(page.locator(".card.agent .choice")).to_have_count(0)
    assert len(model.asked) == 2
    await fresh_equals(pages, page)
    await nothing_is_lost(daemon, answered=2)


async def test_a_button_pressed_while_the_house_is_down_counts_when_it_is_back(
    daemon: Daemon, model: ModelServer, page: Page
) -> None:
    notes = daemon.workspace / "notes.md"
    notes.write_text("buy milk\n")
    model.next(edit_of(notes), Turn(text="It is done."))
    await send(page, "add bread")
    allow = page.get_by_role("button", name="Allow once")
    await expect(allow).to_be_visible()
    await daemon.kill()
    await expect(page.locator("#link")).to_have_text("reconnecting…")
    await allow.click()
    await expect(allow).to_be_disabled()
    assert notes.read_text() == "buy milk\n"
    await daemon.start()
    await expect(page.locator("#transcript .agent:not(.card)")).to_contain_text(["It is done."])
    assert notes.read_text() == "buy milk and bread\n"


@pytest.mark.person("restart", on="page")
async def test_kill_9_in_the_middle_of_an_answer_leaves_one_answer(
    daemon: Daemon, model: ModelServer, page: Page, pages: OpenPage
) -> None:
    model.next(
        Turn(text=f"first {WORDS}", chunks=30, between=0.2),
        Turn(text="The whole answer.", chunks=3),
    )
    await send(page, "tell me")
    await expect(page.locator("#now .streaming")).to_contain_text("word3")
    await daemon.kill()
    await expect(page.locator("#link")).to_have_text("reconnecting…")
    await daemon.start()
    await expect(page.locator("#transcript .agent")).to_have_text([pattern("The whole answer.")])
    await expect(page.locator("#now")).to_be_empty()
    await expect(page.locator("#link")).to_have_text("")
    await expect(page.locator("#stop")).to_be_hidden()
    await fresh_equals(pages, page)
    await nothing_is_lost(daemon, answered=1)


@pytest.mark.person("restart", on="page")
async def test_what_is_typed_while_the_house_is_down_is_sent_exactly_once(
    daemon: Daemon, model: ModelServer, page: Page, pages: OpenPage
) -> None:
    await send(page, "before")
    await expect(page.locator("#transcript .agent")).to_contain_text(["echo: before"])
    await daemon.kill()
    await expect(page.locator("#link")).to_have_text("reconnecting…")
    await send(page, "meanwhile")
    await expect(page.locator("#waiting .pending")).to_have_text([pattern("meanwhile")])
    await page.close()  # what was typed is kept by the browser, not by the page
    await daemon.start()
    page = await pages(page.url)
    await expect(page.locator("#transcript .bubble")).to_have_text(["before", "meanwhile"])
    await expect(page.locator("#transcript .agent")).to_have_text(
        [pattern("echo: before"), pattern("echo: meanwhile")]
    )
    await expect(page.locator("#waiting .pending")).to_have_count(0)
    await fresh_equals(pages, page)
    assert [asked.said for asked in model.asked] == ["before", "meanwhile"]
    await nothing_is_lost(daemon, answered=2)


@pytest.mark.person("choose", on="page")
async def test_a_question_is_answered_by_a_choice(
    daemon: Daemon, model: ModelServer, page: Page, pages: OpenPage
) -> None:
    model.next(
        Turn(calls=(Call("AskUser", {"question": "Which colour?", "choices": ["Red", "Blue"]}),)),
        Turn(text="Good."),
    )
    await send(page, "paint the door")
    await expect(page.locator(".card.agent")).to_contain_text("Which colour?")
    await page.get_by_role("button", name="Blue").click()
    await expect(page.locator("#transcript .agent:not(.card)")).to_contain_text(["Good."])
    await expect(page.locator(".card.agent .choice")).to_have_count(0)
    assert "Blue" in str(model.asked[-1].body["messages"][-1])
    await fresh_equals(pages, page)


@pytest.mark.parametrize("where", ["card", "message"])
@pytest.mark.person("words", on="page")
async def test_a_question_is_answered_in_own_words(
    daemon: Daemon, model: ModelServer, page: Page, pages: OpenPage, where: str
) -> None:
    model.next(
        Turn(calls=(Call("AskUser", {"question": "Which colour?", "choices": ["Red", "Blue"]}),)),
        Turn(text="Good."),
    )
    await send(page, "paint the door")
    words = page.get_by_label("Answer in your own words")
    await expect(words).to_be_visible()
    if where == "card":
        await words.fill("green, like grass")
        await page.get_by_role("button", name="Answer").click()
    else:
        await send(page, "green, like grass")
    await expect(page.locator("#transcript .agent:not(.card)")).to_contain_text(["Good."])
    assert "green, like grass" in str(model.asked[-1].body["messages"][-1])
    assert len(model.asked) == 2
    await expect(page.locator(".card.agent .choice")).to_have_count(0)
    await fresh_equals(pages, page)


async def test_words_said_while_the_house_is_down_answer_the_question_it_had_asked(
    daemon: Daemon, model: ModelServer, page: Page, pages: OpenPage
) -> None:
    model.next(Turn(calls=(Call("AskUser", {"question": "Which colour?"}),)), Turn(text="Good."))
    await send(page, "paint the door")
    await expect(page.locator("#transcript .agent")).to_contain_text(["Which colour?"])
    await daemon.kill()
    await expect(page.locator("#link")).to_have_text("reconnecting…")
    await send(page, "green, like grass")
    await daemon.start()
    await expect(page.locator("#transcript .agent").last).to_contain_text("Good.")
    assert "green, like grass" in str(model.asked[-1].body["messages"][-1])
    assert len(model.asked) == 2
    await fresh_equals(pages, page)
    await nothing_is_lost(daemon, answered=2)


@pytest.mark.person("stop", on="page")
async def test_stop_ends_a_running_turn_and_the_next_message_is_answered(
    daemon: Daemon, model: ModelServer, page: Page, pages: OpenPage
) -> None:
    model.next(Turn(text=WORDS, chunks=30, stall=8))
    await send(page, "tell me")
    await expect(page.locator("#now .streaming")).to_contain_text("word2")
    await page.get_by_role("button", name="Stop").click()
    await expect(page.locator("#stop")).to_be_hidden()
    await expect(page.locator("#now")).to_be_empty()
    await expect(page.locator("#transcript .command")).to_contain_text("/stop")
    await expect(page.locator("#transcript .agent").first).to_contain_text("word2")
    await page.reload()
    await expect(page.locator("#transcript .agent").first).to_contain_text("word2")
    await expect(page.locator("#transcript .agent").first).to_contain_text("stopped by")
    await send(page, "and now?")
    await expect(page.locator("#transcript .agent").last).to_contain_text("echo: and now?")
    told = model.asked[-1].body["messages"]
    assert [one["role"] for one in told] == ["user", "assistant", "user"]
    assert "word2" in str(told[1])
    assert "stopped" in str(told[2])
    await until(lambda: model.dropped == 1, "the model's stream is closed")
    await fresh_equals(pages, page)


async def test_two_pages_on_one_chat_show_the_same(
    daemon: Daemon, model: ModelServer, page: Page, pages: OpenPage
) -> None:
    notes = daemon.workspace / "notes.md"
    notes.write_text("buy milk\n")
    model.next(Turn(text=WORDS, chunks=30, between=0.1), edit_of(notes), Turn(text="It is done."))
    other = await pages(page.url)
    await send(page, "one")
    await expect(other.locator("#now .streaming")).to_contain_text("word3")
    await expect(other.locator("#transcript .agent")).to_contain_text(["word30"])
    await send(other, "two")
    await expect(page.locator("#transcript .bubble")).to_have_text(["one", "two"])
    await page.get_by_role("button", name="Allow once").click()
    for one in (page, other):
        await expect(one.locator("#transcript .agent").last).to_contain_text("It is done.")
        await expect(one.locator(".choice")).to_have_count(0)
        await expect(one.locator("#now")).to_be_empty()
    await same(page, other)
    await fresh_equals(pages, page)


@pytest.mark.person("attach", on="page")
async def test_an_attached_file_reaches_the_model_and_can_be_opened_again(
    daemon: Daemon, model: ModelServer, page: Page, tmp_path: Path
) -> None:
    plan = tmp_path / "plan.txt"
    plan.write_text("plant the apple tree")
    await page.set_input_files("#file", str(plan))
    await expect(page.locator("#attached li.here")).to_contain_text("plan.txt")
    await send(page, "read this")
    await expect(page.locator("#transcript .agent")).to_have_count(1)
    assert "plan.txt" in model.asked[-1].raw.decode()
    link = page.locator("#transcript .files a")
    await expect(link).to_have_text("plan.txt")
    text = await page.evaluate(
        "(url) => fetch(url).then((answer) => answer.text())", await link.get_attribute("href")
    )
    assert text == "plant the apple tree"


@pytest.mark.person("go on", on="page")
async def test_ctrl_c_ends_well_and_the_chat_goes_on_after_the_next_start(
    daemon: Daemon, page: Page
) -> None:
    await send(page, "one")
    await expect(page.locator("#transcript .agent")).to_contain_text(["echo: one"])
    assert await daemon.stop() == 0
    assert "Traceback" not in daemon.said
    await daemon.start()
    await send(page, "two")
    await expect(page.locator("#transcript .agent").last).to_contain_text("echo: two")
