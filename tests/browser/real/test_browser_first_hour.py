"""What a person does in the first hour, on the real daemon: files, long words, compositions,
tables, formulas, code."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from playwright.async_api import Page, expect

from tests.browser.real.daemon import Daemon
from tests.browser.real.test_browser_on_the_real_house import WORDS, send
from tests.faults.directed_model import behind
from tests.platforms.model.script import Call, Turn
from tests.platforms.model.server import ModelServer

pytestmark = [
    pytest.mark.needs("chromium"),
    pytest.mark.timeout(240),
    pytest.mark.asyncio(loop_scope="session"),
    pytest.mark.xdist_group("real-browser"),
]

# How often a word of the tables stands on more than one line.
BROKEN_WORDS = """() => {
  let broken = 0;
  const walk = document.createTreeWalker(document.querySelector("#transcript table"), NodeFilter.SHOW_TEXT);
  for (let text = walk.nextNode(); text; text = walk.nextNode())
    for (const word of text.data.matchAll(/[^\\s-]+/g)) {
      const range = document.createRange();
      range.setStart(text, word.index);
      range.setEnd(text, word.index + word[0].length);
      if (range.getClientRects().length > 1) broken += 1;
    }
  return broken;
}"""


@pytest.mark.person("attach", on="page")
async def test_several_files_picked_at_once_all_go_along(
    model: ModelServer, page: Page, tmp_path: Path
) -> None:
    names = ["one.txt", "two.txt", "three.txt", "four.txt"]
    for name in names:
        (tmp_path / name).write_text(f"I am {name}")
    await page.set_input_files("#file", [tmp_path / name for name in names])
    await expect(page.locator("#attached li.here")).to_have_count(4)
    model.next(Turn(text="Four files."))
    await send(page, "look at these")
    await expect(page.locator("#transcript .person a.file")).to_have_text(names)
    await expect(page.locator("#transcript .agent .md")).to_have_text("Four files.")
    for name in names:
        assert name in str(model.asked[-1].body)


async def test_of_300_000_characters_none_is_lost_in_silence(
    daemon: Daemon, model: ModelServer, page: Page
) -> None:
    words = "0123456789" * 30_000
    await page.evaluate(
        "(text) => { const box = document.getElementById('draft'); box.value = text;"
        " box.dispatchEvent(new Event('input')); }",
        words,
    )
    await page.press("#draft", "Enter")
    await expect(page.locator("#toast")).to_contain_text(
        "300,000 characters are more than one message holds (200,000)"
    )
    await expect(page.locator("#attached li.here")).to_contain_text("message.txt")
    await expect(page.locator("#draft")).to_have_value("")
    model.next(Turn(text="Read."))
    await send(page, "summarise it")
    await expect(page.locator("#transcript .agent .md")).to_have_text("Read.")
    link = await page.locator("#transcript .person a.file").get_attribute("href")
    assert link is not None
    assert await (await page.request.get(f"{daemon.url}{link}")).text() == words
    said = {"text": words, "key": "k" * 12}
    refused = await page.evaluate(
        """async (said) => (await fetch("/api/v1/web/chats/c1/messages", {
            method: "POST", headers: {"Content-Type": "application/json"}, body: JSON.stringify(said) })).json()""",
        said,
    )
    assert "a message holds 200000 characters, this has 300000" in refused["error"]


async def test_the_enter_that_ends_a_composition_sends_nothing(
    model: ModelServer, page: Page
) -> None:
    await page.fill("#draft", "にほん")
    await page.focus("#draft")
    wire = await page.context.new_cdp_session(page)
    await wire.send(
        "Input.dispatchKeyEvent",
        {"type": "rawKeyDown", "key": "Enter", "code": "Enter", "windowsVirtualKeyCode": 229},
    )
    await wire.send(
        "Input.dispatchKeyEvent",
        {"type": "keyUp", "key": "Enter", "code": "Enter", "windowsVirtualKeyCode": 13},
    )
    await expect(page.locator("#draft")).to_have_value("にほん")
    await expect(page.locator(".turn.person")).to_have_count(0)
    model.next(Turn(text="はい"))
    await page.press("#draft", "Enter")
    await expect(page.locator("#transcript .agent .md")).to_have_text("はい")
    await expect(page.locator(".turn.person")).to_have_count(1)


async def test_tables_break_no_word_also_on_a_phone(model: ModelServer, page: Page) -> None:
    await page.set_viewport_size({"width": 390, "height": 800})
    heads = "Configuration Responsibility Troubleshooting Authentication Documentation".split()
    row = [
        "internationalization of everything",
        "straightforward",
        "characteristically",
        "`OHMO_HOME_DIRECTORY`",
        "yes",
    ]
    lines = [f"| {' | '.join(heads)} |", "|---" * 5 + "|", f"| {' | '.join(row)} |"]
    model.next(Turn(text="\n".join(lines)))
    await send(page, "a table")
    await expect(page.locator("#transcript table")).to_be_visible()
    assert await page.evaluate(BROKEN_WORDS) == 0
    assert (
        await page.evaluate(
            "document.getElementById('scroll').scrollWidth -"
            " document.getElementById('scroll').clientWidth"
        )
        <= 0
    )
    scrolls = (
        "(box => box.scrollWidth > box.clientWidth)(document.querySelector('#transcript .table'))"
    )
    assert await page.evaluate(scrolls)  # the table is moved sideways, not the page


async def test_formulas_are_left_whole_and_money_is_money(model: ModelServer, page: Page) -> None:
    text = (
        r"Let \(a_1 * b_1 = \frac{1}{2}\) and $x_i^2 * y_i$ be. It costs $5 and *not* $6."
        "\n\n$$\n\\sum_{i=1}^n a_i * b_i\n= c_i\n$$\n\nend"
    )
    model.next(Turn(text=text))
    await send(page, "a formula")
    shown = page.locator("#transcript .agent")
    await expect(shown.locator("span.math")).to_have_text(
        [r"\(a_1 * b_1 = \frac{1}{2}\)", "$x_i^2 * y_i$"]
    )
    await expect(shown.locator("div.math")).to_have_text("$$\n\\sum_{i=1}^n a_i * b_i\n= c_i\n$$")
    await expect(shown.locator("em")).to_have_text("not")
    await expect(shown).to_contain_text("It costs $5 and not $6.")


async def test_code_has_colours_and_stays_the_same_text(model: ModelServer, page: Page) -> None:
    code = (
        'def hello(name: str) -> None:  # says it\n    """Hi <b>you</b>."""\n    return print(f"hi'
        ' {name}", 42)'
    )
    model.next(Turn(text=f"```python\n{code}\n```\n\n```nonsense\nif x\n```"))
    await send(page, "some code")
    shown = page.locator("#transcript .agent code")
    await expect(shown.first.locator(".code-keyword")).to_have_text(["def", "None", "return"])
    await expect(shown.first.locator(".code-comment")).to_have_text("# says it")
    await expect(shown.first.locator(".code-number")).to_have_text("42")
    assert await shown.first.text_content() == code
    await expect(shown.last.locator("span")).to_have_count(0)
    colours = "getComputedStyle(document.querySelector('#transcript .code-keyword')).color"
    light = await page.evaluate(colours)
    await page.emulate_media(color_scheme="dark")
    assert await page.evaluate(colours) != light


async def test_a_message_is_copied_asked_again_edited_and_the_whole_exported(
    model: ModelServer, page: Page, tmp_path: Path
) -> None:
    await page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    (tmp_path / "plan.txt").write_text("the plan")
    await page.set_input_files("#file", tmp_path / "plan.txt")
    await expect(page.locator("#attached li.here")).to_have_count(1)
    model.next(Turn(text="The **first** answer."))
    await send(page, "what is the plan")
    answers = page.locator("#transcript .turn.agent")
    await expect(answers).to_have_count(1)
    await answers.first.hover()
    await answers.first.get_by_role("button", name="Copy this message").click()
    assert await page.evaluate("navigator.clipboard.readText()") == "The **first** answer."

    model.next(Turn(text="The second answer."))
    await answers.first.get_by_role("button", name="Ask again").click()
    await expect(answers.last.locator(".md")).to_have_text("The second answer.")
    asked = page.locator("#transcript .turn.person")
    await expect(asked).to_have_count(2)
    await expect(asked.last.locator("a.file")).to_have_text("plan.txt")  # with its file

    await asked.first.hover()
    await asked.first.get_by_role("button", name="Edit and send anew").click()
    await expect(page.locator("#draft")).to_have_value("what is the plan")
    await expect(page.locator("#draft")).to_be_focused()
    await expect(page.locator("#attached li.here")).to_contain_text("plan.txt")
    await page.keyboard.type(" for today")
    model.next(Turn(text="The third answer."))
    await page.keyboard.press("Enter")
    await expect(answers.last.locator(".md")).to_have_text("The third answer.")
    await expect(asked.last.locator(".plain")).to_have_text("what is the plan for today")

    await page.locator("#chats li").first.hover()
    await page.get_by_role("button", name="More about what is the plan").click()
    async with page.expect_download() as download:
        await page.get_by_role("menuitem", name="Export as Markdown").click()
    saved = await download.value
    assert saved.suggested_filename == "what is the plan.md"
    text = Path(await saved.path()).read_text(encoding="utf-8")
    assert text.startswith("# what is the plan\n\n## You, ")
    assert text.count("- file: plan.txt") == 3
    places = [
        text.index(words)
        for words in (
            "The **first** answer.",
            "The second answer.",
            "for today",
            "The third answer.",
        )
    ]
    assert places == sorted(places)


@pytest.mark.person("model", on="page")
async def test_the_message_box_says_model_mode_and_cost(model: ModelServer, page: Page) -> None:
    terms = page.locator("#terms")
    await expect(terms.get_by_role("button", name="Model: claude-sonnet-4-5")).to_be_visible()
    await expect(terms.get_by_role("button", name="Mode: Asks")).to_be_visible()
    await send(page, "what does it cost")
    await expect(terms.locator(".cost-now")).to_have_text(
        re.compile(r"^\$0\.\d+ · [\d.]+K? tokens$")
    )
    await terms.get_by_role("button", name="Mode: Asks").click()
    await page.get_by_role("menuitem", name="Plan only: changes nothing").click()
    await expect(terms.get_by_role("button", name="Mode: Plan only")).to_be_visible()
    model.next(
        Turn(text="I write.", calls=(Call("Write", {"file_path": "x.txt", "content": "x"}),)),
        Turn(text="Not written."),
    )
    await send(page, "write a file")
    await expect(page.locator("#transcript .agent .md").last).to_have_text("Not written.")
    await page.reload()  # it is kept by the house
    await expect(terms.get_by_role("button", name="Mode: Plan only")).to_be_visible()
    await page.get_by_role("button", name="New chat").click()
    await expect(terms.get_by_role("button", name="Mode: Asks")).to_be_visible()


async def test_full_auto_is_chosen_with_open_eyes_and_seen(
    model: ModelServer, page: Page, daemon: Daemon
) -> None:
    terms = page.locator("#terms")
    await send(page, "hello")
    await expect(terms.locator(".cost-now")).to_be_visible()
    await terms.get_by_role("button", name="Mode: Asks").click()
    await page.get_by_role("menuitem", name="only the sandbox holds it").click()
    await expect(terms.get_by_role("button", name="Mode: Full auto")).to_be_visible()
    await expect(page.locator("#transcript")).to_contain_text("Mode is now full_auto, until")
    model.next(
        Turn(text="I write.", calls=(Call("Write", {"file_path": "x.txt", "content": "x"}),)),
        Turn(text="Written."),
    )
    await send(page, "write a file")
    await expect(page.locator("#transcript .agent .md").last).to_have_text("Written.")
    assert (daemon.workspace / "x.txt").exists()


@pytest.mark.person("more", "edit", on="page")
async def test_what_waits_its_turn_is_shown_so_taken_back_or_read_now(
    model: ModelServer, page: Page
) -> None:
    held = Turn(text="one two three", hold=3)
    model.next(held)
    await send(page, "begin")
    await expect(page.locator("#stop")).to_be_visible()
    for words in ("never mind", "hurry up", "and then this"):
        await send(page, words)
    waits = page.locator("#transcript .turn.person", has=page.locator(".actions.shown"))
    await expect(waits).to_have_count(3)
    await expect(waits.first).to_contain_text("waits its turn")
    await page.reload()
    await expect(waits).to_have_count(3)
    await waits.filter(has_text="never mind").get_by_role("button", name="Take back").click()
    await waits.filter(has_text="hurry up").get_by_role("button", name="Read it now").click()
    await expect(
        page.locator("#transcript .bubble").filter(has_text="/steer hurry up")
    ).to_be_visible()
    model.go.set()
    await expect(page.locator("#transcript .agent .md").last).to_contain_text("and then this")
    await expect(waits).to_have_count(0)
    answers = page.locator("#transcript .agent .md")
    assert await answers.all_inner_texts() == [
        "one two three",
        "echo: hurry up",
        "echo: and then this",
    ]
    told = "".join(str(asked.body) for asked in model.asked)
    assert "never mind" not in told
    assert "hurry up" in told
    await expect(page.get_by_text("never mind")).to_have_count(0)


async def test_what_is_to_be_read_now_is_read_before_the_next_step(
    daemon: Daemon, model: ModelServer, page: Page
) -> None:
    (daemon.workspace / "notes.md").write_text("one\n")
    model.next(Turn(text="I look.", calls=(Call("Read", {"file_path": "notes.md"}),), hold=3))
    await send(page, "begin")
    await expect(page.locator("#stop")).to_be_visible()
    await send(page, "hurry up")
    await (
        page.locator("#transcript .turn.person")
        .filter(has_text="hurry up")
        .get_by_role("button", name="Read it now")
        .click()
    )
    await expect(
        page.locator("#transcript .bubble").filter(has_text="/steer hurry up")
    ).to_be_visible()
    model.go.set()
    await expect(page.locator("#transcript .agent .md").last).to_have_text("echo: hurry up")
    assert [len(str(asked.body).split("hurry up")) - 1 for asked in model.asked] == [0, 1]


async def test_a_card_shows_the_change_the_command_once_and_its_deadline(
    daemon: Daemon, model: ModelServer, page: Page
) -> None:
    (daemon.workspace / "notes.md").write_text("one\nbuy milk\nthree\n")
    change = {
        "file_path": "notes.md",
        "old_string": "one\nbuy milk",
        "new_string": "one\nbuy milk and bread",
    }
    model.next(Turn(text="I change it.", calls=(Call("Edit", change),)), Turn(text="changed"))
    await send(page, "add bread")
    card = page.locator(".card.agent:not(.closed)")
    await expect(card.locator(".diff .code-removed")).to_have_text("- buy milk\n")
    await expect(card.locator(".diff .code-added")).to_have_text("+ buy milk and bread\n")
    await expect(card.locator(".deadline")).to_contain_text("Ends in 5 min")
    await expect(card.locator(".asked-words")).to_contain_text("it may change something")
    await expect(page).to_have_title("(1) add bread · ohmo")
    await card.get_by_role("button", name="Allow once").click()
    await expect(page.locator("#transcript .agent .md").last).to_have_text("changed")
    await expect(page).to_have_title("add bread · ohmo")

    model.next(
        Turn(text="I run it.", calls=(Call("Bash", {"command": "rm -rf build && make all"}),)),
        Turn(text="ran"),
    )
    await send(page, "run it")
    await expect(card.locator(".diff, figure")).to_have_text("rm -rf build && make all")
    assert (await card.inner_text()).count("rm -rf build && make all") == 1
    await card.get_by_role("button", name="Deny").click()
    await expect(page.locator("#transcript .agent .md").last).to_have_text("ran")

    # What nobody would see is only shown by the card's own words, where it is written out.
    model.next(
        Turn(text="I run it.", calls=(Call("Bash", {"command": "rm -rf bui\u200bld"}),)),
        Turn(text="no"),
    )
    await send(page, "run the other")
    await expect(card).to_contain_text("\\u200b")
    await expect(card.locator("figure")).to_have_count(0)
    await card.get_by_role("button", name="Deny").click()


@pytest.mark.person("new", on="page")
async def test_a_new_conversation_begins_while_something_runs(
    model: ModelServer, page: Page
) -> None:
    model.next(Turn(text=WORDS, chunks=30, stall=8))
    await send(page, "the secret is green")
    await expect(page.locator("#now .streaming")).to_contain_text("word2")
    await send(page, "/new")
    await expect(page.locator("#transcript")).to_contain_text("A new conversation begins here")
    await expect(page.locator("#stop")).to_be_hidden()
    await send(page, "and now?")
    await expect(page.locator("#transcript .agent").last).to_contain_text("echo: and now?")
    assert "the secret is green" not in str(model.asked[-1].body)


@pytest.mark.person("whole", on="page")
async def test_a_long_command_is_shown_to_its_last_line_before_anybody_can_allow_it(
    model: ModelServer, page: Page, daemon: Daemon
) -> None:
    command = behind(500, "touch done.txt")
    model.next(
        Turn(text="I run it.", calls=(Call("Bash", {"command": command}),)), Turn(text="ran")
    )
    await send(page, "run it")
    card = page.locator(".card.agent:not(.closed)")
    await expect(card.get_by_role("button", name="Allow once")).to_be_visible()
    for opener in await card.get_by_role("button", name=re.compile("^Show")).all():
        await opener.click()
    shown = await card.inner_text()
    assert all(line.strip() in shown for line in command.split("\n"))
    await card.get_by_role("button", name="Allow once").click()
    await expect(page.locator("#transcript .agent .md").last).to_have_text("ran")
    assert (daemon.workspace / "done.txt").exists()


@pytest.mark.person("receive", on="page")
async def test_a_file_that_was_made_is_shown_and_can_be_opened(
    model: ModelServer, page: Page, daemon: Daemon
) -> None:
    (daemon.workspace / "notes.txt").write_text("the kettle is on the left")
    call = Call("Brief", {"message": "here it is", "attachments": ["notes.txt"]})
    model.next(Turn(calls=(call,)), Turn(text="Shown."))
    await send(page, "show me the notes")
    await expect(page.locator("#transcript")).to_contain_text("here it is")
    await expect(page.locator("#transcript .agent .md").last).to_have_text("Shown.")
    link = page.locator("#transcript a", has_text="notes.txt")
    text = await page.evaluate(
        "(url) => fetch(url).then((answer) => answer.text())", await link.get_attribute("href")
    )
    assert text == "the kettle is on the left"


async def test_the_browser_tells_that_something_waits_when_nobody_looks(
    model: ModelServer, page: Page
) -> None:
    await page.context.add_init_script(
        """window.told = []; window.Notification = class extends EventTarget {
             static permission = "default";
             static async requestPermission() { this.permission = "granted"; return "granted"; }
             constructor(title, more) { super(); window.told.push(`${title}: ${more.body}`); }
           };"""
    )
    await page.reload()
    await page.wait_for_selector("#empty:not([hidden])")
    await page.get_by_role("button", name="Status", exact=True).click()
    await page.get_by_role("button", name="Tell me when something waits for me").click()
    await expect(page.locator("#notify")).to_be_hidden()
    await page.get_by_role("button", name="Close the status").click()
    await page.evaluate(
        "Object.defineProperty(document, 'visibilityState', { get: () => 'hidden' })"
    )
    model.next(
        Turn(text="I write.", calls=(Call("Write", {"file_path": "x.txt", "content": "x"}),))
    )
    await send(page, "write a file")
    await expect(page.locator(".card.agent .diff .code-added")).to_have_text("+ x\n")
    await expect(page).to_have_title("(1) write a file · ohmo")
    assert await page.evaluate("window.told") == ["ohmo waits for you: One question is open"]


async def test_ctrl_k_leads_to_conversations_and_places(page: Page) -> None:
    for words in ("about apples", "about pears"):
        await page.get_by_role("button", name="New chat").click()
        await send(page, words)
        await expect(page.locator("#transcript .agent .md")).to_have_text(f"echo: {words}")
    await page.locator("#draft").focus()
    await page.keyboard.press("Control+k")
    await expect(page.get_by_label("Go to", exact=True).and_(page.locator("input"))).to_be_focused()
    await page.keyboard.type("apples")
    await expect(page.locator(".palette-list li").first).to_have_text("about apples")
    await page.keyboard.press("Enter")
    await expect(page.locator("#title")).to_have_text("about apples")
    await page.keyboard.press("Control+k")
    await page.keyboard.type("usa")
    await expect(page.locator(".palette-list li")).to_have_text(["Usage"])
    await page.keyboard.press("Enter")
    await expect(page.locator("#board-title")).to_have_text("Usage")
    await page.keyboard.press("Control+k")
    await page.keyboard.press("Escape")
    await expect(page.locator("#palette")).to_be_hidden()


async def test_the_page_can_be_installed(daemon: Daemon, page: Page) -> None:
    wire = await page.context.new_cdp_session(page)
    found = await wire.send("Page.getAppManifest")
    assert found["errors"] == []
    assert json.loads(found["data"])["display"] == "standalone"
    told = await wire.send("Page.getInstallabilityErrors")
    assert [
        error["errorId"]
        for error in told["installabilityErrors"]
        if error["errorId"] != "in-incognito"
    ] == []
    for name, size in (("icon-192.png", 192), ("icon-512.png", 512)):
        src = found["url"].replace("manifest.webmanifest", name)
        seen = await page.evaluate(
            "async (src) => { const i = new Image(); i.src = src; await i.decode(); return"
            " i.naturalWidth; }",
            src,
        )
        assert seen == size
