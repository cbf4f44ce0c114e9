"""The page for everybody: no finding of axe of any grade in either scheme, at 390 px nothing beside
the screen, all of it by the keyboard."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator

import pytest
from axe_playwright_python.async_playwright import Axe
from playwright.async_api import Page, expect

from tests.browser.real.conftest import OpenPage
from tests.browser.real.daemon import Daemon
from tests.browser.real.many import multiply
from tests.browser.real.test_browser_on_the_real_house import send
from tests.platforms.model.script import Call, Turn
from tests.platforms.model.server import ModelServer

pytestmark = [
    pytest.mark.needs("chromium"),
    pytest.mark.timeout(240),
    pytest.mark.asyncio(loop_scope="session"),
    pytest.mark.xdist_group("real-browser"),
]
PLACES = """
    threads approvals messages/inbox messages/outbox messages/dead people permissions cron cron/+
    cron/morning usage channels logs setup
""".split()
MARKDOWN = """\
# Title

Some **bold** [link](https://example.org) and `code`

```python
x = 1  # one
```

| a | b |
|---|---|
| 1 | 2 |

- [ ] one
- [x] two

> said

#### Far below
"""


async def furnished(daemon: Daemon, model: ModelServer, page: Page) -> None:
    """A house with something to show on every page: an answer, tools, a failure, an open question,
    a permission, a job."""
    (daemon.workspace / "notes.md").write_text("one\ntwo\n")
    model.next(
        Turn(text="I look.", calls=(Call("Read", {"file_path": "notes.md"}),)), Turn(text=MARKDOWN)
    )
    await send(page, "look at my notes")
    await expect(page.locator("#transcript .agent .md").last).to_contain_text("Some bold")
    model.next(
        Turn(text="I write.", calls=(Call("Write", {"file_path": "a.txt", "content": "x"}),)),
        Turn(text="written"),
    )
    await send(page, "write it")
    await page.get_by_role("button", name="Always allow", exact=True).click()
    await expect(page.locator("#transcript .agent .md").last).to_have_text("written")
    model.next(Turn(status=400, kind="invalid_request_error", message="no"))
    await send(page, "fail")
    await expect(page.get_by_role("button", name="Try again")).to_be_visible()
    await page.evaluate(
        """fetch("/api/v1/cron", {method: "POST", headers: {"Content-Type": "application/json"},
        body: JSON.stringify({name: "morning", schedule: "0 9 * * *", tz: "UTC", prompt: "good morning"})})"""
    )
    model.next(
        Turn(
            text="I change it.",
            calls=(
                Call("Edit", {"file_path": "notes.md", "old_string": "two", "new_string": "three"}),
            ),
        )
    )
    await send(page, "change it")
    await expect(page.locator(".card.agent .choice").first).to_be_visible()


async def places(page: Page) -> AsyncIterator[str]:
    """Every page in turn, drawn to its end."""
    chat = page.url
    origin = chat.split("#")[0]
    thread = (await page.evaluate("fetch('/api/v1/sessions').then((one) => one.json())"))[
        "sessions"
    ][0]["thread"]
    for place in ("chat", *PLACES, f"threads/{thread}"):
        await page.goto(chat if place == "chat" else f"{origin}#/{place}")
        if place == "chat":
            await expect(page.locator(".card.agent .choice").first).to_be_visible()
        else:
            await expect(page.locator("#board-body > *").first).to_be_attached()
            await expect(page.locator("#board-body [aria-busy=true]")).to_have_count(0)
        await page.wait_for_timeout(150)
        if place == "setup":
            await expect(page.locator(".setup-channel")).to_have_count(5)
            await page.evaluate(
                "document.querySelectorAll('#board-body details').forEach((one) => (one.open ="
                " true))"
            )
        yield place


def assert_nothing(found: dict[str, list[str]]) -> None:
    told = [f"{place}: {line}" for place, lines in found.items() for line in lines]
    assert not told, "\n".join(told)


async def findings(page: Page) -> list[str]:
    # of what is right it need not collect every place
    options = {"resultTypes": ["violations"]}
    found = (await Axe().run(page, options=options)).response["violations"]
    return [
        f"{one['id']} ({one['impact']}): {node['html'][:160]}"
        f" {node['any'][0]['message'] if node['any'] else ''}"
        for one in found
        for node in one["nodes"]
    ]


@pytest.mark.parametrize("scheme", ["light", "dark"])
async def test_axe_finds_nothing_of_any_grade_on_any_page(
    daemon: Daemon, model: ModelServer, page: Page, scheme: str
) -> None:
    await page.emulate_media(
        color_scheme="dark" if scheme == "dark" else "light", reduced_motion="reduce"
    )
    await page.reload()  # colours change slowly while one looks
    await expect(page.locator("#empty")).to_be_visible()
    found = {"empty": await findings(page)}
    await furnished(daemon, model, page)
    async for place in places(page):
        found[place] = await findings(page)
    for name, key, box in (("palette", "Control+k", "#palette"), ("keys", "?", "#keys")):
        await page.locator("#board-body").focus()
        await page.keyboard.press(key)
        await expect(page.locator(box)).to_be_visible()
        found[name] = await findings(page)
        await page.keyboard.press("Escape")
    await page.goto(page.url.split("#")[0])
    await page.locator("#open-status").click()
    await expect(page.locator("#facts > *").first).to_be_visible()
    found["status"] = await findings(page)
    origin = page.url.split("#")[0]
    await page.goto("about:blank")
    await page.context.clear_cookies()
    await page.goto(origin)
    await expect(page.locator("#door")).to_be_visible()
    found["door"] = await findings(page)
    assert_nothing(found)


# What lies beside the screen and is not inside something that scrolls by itself.
BESIDE = """() => {
  const outside = (box) => box.width > 0 && box.height > 0 && (box.right > innerWidth + 1 || box.left < -1);
  const wide = (one) => outside(one.getBoundingClientRect());
  const holds = (one) => ["auto", "scroll", "hidden", "clip"].includes(getComputedStyle(one).overflowX);
  const scrolls = (one) => one && (holds(one) || scrolls(one.parentElement));
  const seen = [...document.querySelectorAll(".main:not([hidden]) *, dialog[open] *, #drawer:not([hidden]) *")];
  const found = seen.filter((one) => wide(one) && !scrolls(one.parentElement)).map((one) => one.outerHTML.slice(0, 120));
  return document.documentElement.scrollWidth > innerWidth ? [...found, `the page is ${document.documentElement.scrollWidth} wide`] : found;
}"""


async def test_at_390_pixels_nothing_lies_beside_the_screen_and_everything_can_be_done(
    daemon: Daemon, model: ModelServer, page: Page
) -> None:
    await page.set_viewport_size({"width": 390, "height": 780})
    await furnished(daemon, model, page)
    found: dict[str, list[str]] = {}
    async for place in places(page):
        found[place] = await page.evaluate(BESIDE)
    assert_nothing(found)
    await page.goto(f"{page.url.split('#')[0]}#/threads")
    for name in ("People", "Set-up", "Chats"):
        await page.locator("#board-menu").click()
        await page.locator("#places").get_by_role("link", name=name, exact=True).click()
        await expect(page.locator("#shell.menu-open")).to_have_count(0)
    await expect(page.locator("#chat")).to_be_visible()
    await page.locator("#open-menu").click()
    await page.locator("#new-chat").click()
    await send(page, "hello from the pocket")
    await expect(page.locator("#transcript .agent .md").last).to_have_text(
        "echo: hello from the pocket"
    )
    await page.locator("#open-menu").click()
    await page.locator("#chats a").last.click()
    await page.locator(".card.agent").get_by_role("button", name="Deny").click()
    await expect(page.locator(".card.agent .choice")).to_have_count(0)


# What is in focus: a name for it, whether it can be seen, and whether one sees that it is.
FOCUS = """() => {
  const one = document.activeElement;
  if (!one || one === document.body) return null;
  const ring = (style) => style.outlineStyle !== "none" || style.boxShadow !== "none";
  const rings = (node) => node && node !== document.body && (ring(getComputedStyle(node)) || rings(node.parentElement));
  one.dataset.reached = "";
  return { name: one.outerHTML.slice(0, 120), ring: Boolean(rings(one)) };
}"""
MISSED = """() => [...document.querySelectorAll("a[href], button, input, select, textarea, summary, [tabindex='0']")]
  .filter((one) => !one.disabled && one.tabIndex >= 0 && one.checkVisibility({ visibilityProperty: true }))
  .filter((one) => !one.closest("[inert]") && one.dataset.reached === undefined)
  .map((one) => one.outerHTML.slice(0, 120))"""


async def test_everything_on_every_page_is_reached_and_left_by_the_keyboard(
    daemon: Daemon, model: ModelServer, page: Page
) -> None:
    await furnished(daemon, model, page)
    found: dict[str, list[str]] = {}
    async for place in places(page):
        hidden: list[str] = []
        missed: list[str] = []
        ends = 0  # from where it is to the end of the page, and once all around
        for _ in range(1_600):
            await page.keyboard.press("Tab")
            at = await page.evaluate(FOCUS)
            ends += at is None
            hidden += [at["name"]] if at is not None and not at["ring"] else []
            if at is None and ends >= 2:
                # what is drawn anew under the finger ends a round early
                missed = await page.evaluate(MISSED)
                if not missed or ends == 4:
                    break
        else:
            hidden.append("the keyboard is caught")
        found[place] = [*hidden, *missed]
    assert_nothing(found)


NAME = """() => {
  const one = document.activeElement;
  return (one.labels?.[0]?.textContent ?? one.getAttribute("aria-label") ?? one.textContent).trim();
}"""


async def test_a_message_an_approval_and_the_set_up_are_done_by_the_keyboard_alone(
    daemon: Daemon, model: ModelServer, page: Page
) -> None:
    async def to(name: str) -> None:
        """Tab until it is in focus."""
        for _ in range(300):
            await page.keyboard.press("Tab")
            if await page.evaluate(NAME) == name:
                return
        raise AssertionError(f"{name} is never in focus")

    model.next(
        Turn(text="I write.", calls=(Call("Write", {"file_path": "a.txt", "content": "x"}),)),
        Turn(text="written"),
    )
    await page.keyboard.type("write it")
    await page.keyboard.press("Enter")
    await expect(page.get_by_role("button", name="Allow once")).to_be_visible()
    await to("Allow once")
    await page.keyboard.press("Enter")
    await expect(page.locator("#transcript .agent .md").last).to_have_text("written")
    await page.keyboard.press("Control+k")
    await page.keyboard.type("set-up")
    await page.keyboard.press("Enter")
    await expect(page.locator(".setup h2").first).to_have_text("Model")
    await to("Owner")
    await page.keyboard.type("slack:U1")
    await to("Save the roles")
    await page.keyboard.press("Enter")
    await expect(page.locator(".setup-banner")).to_have_text("ohmo runs with what is written.")
    assert (await daemon.ask("config", "show"))["owner"] == ["slack:U1"]
    await page.keyboard.press("g")
    await page.keyboard.press("c")
    await expect(page.locator("#draft")).to_be_focused()


async def test_ten_thousand_conversations_are_found_scrolled_and_gone_on_with(
    daemon: Daemon, page: Page, pages: OpenPage
) -> None:
    await send(page, "a conversation about kettles")
    await expect(page.locator("#transcript .agent .md").last).to_have_text(
        "echo: a conversation about kettles"
    )
    await daemon.stop()
    multiply(daemon.home / "ohmo.db", 10_000)
    await daemon.start()
    many = await pages(daemon.link)
    chats = many.locator("#chats a")
    await expect(chats.first).to_have_text(re.compile("^a conversation about kettles"))
    for _ in range(4):  # the list goes on while one scrolls
        shown = await chats.count()
        await chats.last.scroll_into_view_if_needed()
        await expect(chats.nth(shown)).to_be_attached()
    await many.locator("#find-chat input").fill("conversation 9876 about")
    await expect(chats.first).to_contain_text("a conversation 9876 about kettles")
    await chats.first.click()
    await expect(many.locator("#transcript .agent .md").last).to_have_text(
        "echo: a conversation about kettles"
    )
    await send(many, "and what about tea")
    await expect(many.locator("#transcript .agent .md").last).to_have_text(
        "echo: and what about tea"
    )
    for place in ("threads", "messages/inbox", "messages/outbox", "usage"):
        await many.goto(f"{daemon.url}/#/{place}")
        await expect(many.locator("#board-body > *").first).to_be_attached()
        await expect(many.locator("#board-body [aria-busy=true]")).to_have_count(0, timeout=5_000)
