"""Set-up on the page of the real daemon: model, channels, people and rules, to the answer that
comes of it and the file that holds it."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from aiohttp import ClientSession
from playwright.async_api import Locator, Page, expect

from tests.browser.real.daemon import Daemon
from tests.browser.real.test_browser_on_the_real_house import send
from tests.faults.scene import RIGS
from tests.platforms.model.script import Asked, Turn
from tests.platforms.model.server import ModelServer

pytestmark = [
    pytest.mark.needs("chromium"),
    pytest.mark.timeout(240),
    pytest.mark.asyncio(loop_scope="session"),
    pytest.mark.xdist_group("real-browser"),
]
RIGHT, WRONG = "key-right-0123456789", "key-wrong-9876543210"
WRITTEN = """\
# My house, as I wrote it
profiles:
  default:
    provider: offline   # for now

# where it works
workspace: {workspace}
control: {{listen: "127.0.0.1:{port}"}}   # this door
channels:
  web:
    enabled: true  # the browser
# the end
"""
ASK = """
import http.client, json, socket
told = []
for method, path, body in (("GET", "", None), ("POST", "/rules", {{"version": "", "preset": "safe", "allow": ["Bash"], "ask": [], "deny": []}})):
    link = http.client.HTTPConnection("localhost")
    link.sock = socket.socket(socket.AF_UNIX)
    try:
        link.sock.connect("{socket}")
    except OSError as error:
        told.append(type(error).__name__)
        continue
    link.request(method, "/api/v1/setup" + path, json.dumps(body), {{"Content-Type": "application/json"}})
    told.append(str(link.getresponse().status))
print("heard", *told)
"""
ENTRY = [
    pytest.param(on, marks=[pytest.mark.needs("synapse")] if on == "matrix" else []) for on in RIGS
]


@pytest_asyncio.fixture(loop_scope="session")
async def daemon(home: Path) -> AsyncIterator[Daemon]:
    """Without a model, and with a file that somebody wrote by hand."""
    made = Daemon(home, None)
    (home / "config.yaml").write_text(WRITTEN.format(workspace=made.workspace, port=made.port))
    await made.start()
    try:
        yield made
    finally:
        await made.close()


def knows_its_key(model: ModelServer) -> None:
    """Only the right key is let in, and only by the OpenAI wire's header."""

    def answered(asked: Asked) -> Turn:
        if asked.headers.get("Authorization") == f"Bearer {RIGHT}":
            return Turn()
        return Turn(status=401, kind="invalid_request_error", message="Incorrect API key provided")

    model.default = answered


def assert_kept(before: str, now: str) -> None:
    """Every line of before is there, in its order."""
    rest = iter(now.splitlines())
    assert all(line in rest for line in before.splitlines())


async def opened(page: Page) -> Locator:
    await page.goto(f"{page.url.split('#')[0]}#/setup")
    await expect(page.locator(".setup h2").first).to_have_text("Model")
    return page.locator(".setup")


async def taken_over(page: Page) -> None:
    await expect(page.locator(".setup-banner")).to_have_text("ohmo runs with what is written.")


async def answers(page: Page, words: str) -> None:
    await page.goto(f"{page.url.split('#')[0]}#/chat")
    await page.locator("#new-chat").click()
    await send(page, words)
    await expect(page.locator("#transcript .agent .md").last).to_have_text(f"echo: {words}")


async def test_a_wrong_key_is_told_the_right_one_is_tried_and_written_and_the_next_message_is_answered(
    daemon: Daemon, model: ModelServer, page: Page
) -> None:
    knows_its_key(model)
    model.models = ["small-1", "large-2"]
    await page.locator("#empty").get_by_role("link", name="Set it up here").click()
    form = page.locator("form", has=page.get_by_role("heading", name="Model", exact=True))
    result = form.locator(".setup-result")
    await form.get_by_label("Provider").select_option("openai")
    await form.get_by_label("Address of the endpoint").fill(f"{model.url}/v1")
    await form.get_by_label("API key").fill(WRONG)
    await form.get_by_role("button", name="Test").click()
    await expect(result).to_contain_text("choose one of the models")
    await form.get_by_label("Models of this endpoint").select_option("large-2")
    await form.get_by_role("button", name="Test").click()
    await expect(result).to_contain_text("the key is not accepted")
    await expect(result).not_to_contain_text(WRONG)
    await form.get_by_label("API key").fill(RIGHT)
    await form.get_by_label("Model", exact=True).fill("huge-3")
    await form.get_by_role("button", name="Test").click()
    await expect(result).to_contain_text("there is no model huge-3 at this endpoint")
    await expect(result).to_contain_text("large-2")
    await form.get_by_label("Model", exact=True).fill("large-2")
    await form.get_by_role("button", name="Test").click()
    await expect(result).to_have_text("openai large-2 answered")
    assert (daemon.home / "config.yaml").read_text() == WRITTEN.format(
        workspace=daemon.workspace, port=daemon.port
    ), "a test writes"
    await form.get_by_role("button", name="Use this model").click()
    await taken_over(page)
    await expect(form.get_by_label("API key")).to_have_value("")
    await expect(form).to_contain_text("There is one (env:OPENAI_API_KEY)")
    await answers(page, "are you there")

    text = (daemon.home / "config.yaml").read_text()
    added = f"""\
    provider: openai   # for now
    base_url: "{model.url}/v1"
    models: ["large-2"]
    api_key: env:OPENAI_API_KEY
"""
    wanted = WRITTEN.format(workspace=daemon.workspace, port=daemon.port).replace(
        "    provider: offline   # for now\n", added
    )
    assert text == wanted
    env = daemon.home / ".env"
    assert f'OPENAI_API_KEY="{RIGHT}"' in env.read_text()
    assert env.stat().st_mode & 0o777 == 0o600
    kept = await page.evaluate(
        "JSON.stringify([{...localStorage}, {...sessionStorage},"
        " document.documentElement.outerHTML])"
    )
    shown = json.dumps(await page.evaluate("fetch('/api/v1/setup').then((one) => one.json())"))
    logs = "".join(path.read_text() for path in (daemon.home / "logs").iterdir())
    for place in (kept, shown, logs, daemon.said):
        assert RIGHT not in place
        assert WRONG not in place

    await page.reload()
    await opened(page)
    await expect(form.get_by_label("Model", exact=True)).to_have_value("large-2")
    await expect(form.get_by_label("API key")).to_have_value("")


@pytest.mark.parametrize("on", ENTRY)
async def test_a_channel_is_set_up_by_its_own_steps_tried_and_answers(
    daemon: Daemon, page: Page, on: str
) -> None:
    async with RIGS[on]() as rig:
        wanted = {key: str(value) for key, value in rig.settings().items() if key != "enabled"}
        await opened(page)
        read = "fetch('/api/v1/setup').then((one) => one.json())"
        [channel] = [one for one in (await page.evaluate(read))["channels"] if one["name"] == on]
        asked = {one["key"]: one for one in channel["keys"]}
        secrets = [key for key in asked if asked[key]["secret"]]
        config = daemon.home / "config.yaml"
        by_hand = json.dumps(
            {**{key: value for key, value in wanted.items() if key not in asked}, "dm": "open"}
        )
        config.write_text(
            config.read_text().replace("# the end", f"  {on}: {by_hand}  # mine\n# the end")
        )
        await page.reload()
        box = page.locator(".setup-channel").filter(has_text=channel["title"])
        state, result = box.locator("summary .pill").first, box.locator(".setup-result")
        await expect(state).to_have_text("off")
        await box.locator("summary").first.click()
        assert await box.locator("ol").first.locator("li").count() == len(channel["steps"])
        for key, one in asked.items():
            await box.get_by_label(one["question"]).fill(
                "123456:wrong-wrong-wrong" if key in secrets else wanted[key]
            )
        await box.get_by_role("button", name="Test").click()
        await expect(result).to_have_class("setup-result refused")
        for key in secrets:
            await box.get_by_label(asked[key]["question"]).fill(wanted[key])
        await box.get_by_role("button", name="Test").click()
        await expect(result).to_contain_text("Connected as")
        await box.get_by_role("button", name="Save and switch on").click()
        await taken_over(page)
        await expect(state).to_have_text("on")
        text, env = config.read_text(), (daemon.home / ".env").read_text()
        assert "# mine\n# the end" in text
        assert [key for key in secrets if wanted[key] in text or wanted[key] not in env] == []

        await connected(daemon, on)
        await rig.says("hello there")
        for _ in range(450):
            if any("No model is configured" in message.text for message in await rig.visible()):
                break
            await page.wait_for_timeout(100)
        else:
            raise AssertionError("it was never answered")
        await page.reload()
        await expect(state).to_have_text("on")
        await box.locator("summary").first.click()
        await box.get_by_role("button", name="Switch off").click()
        await taken_over(page)
        await expect(state).to_have_text("off")


async def connected(daemon: Daemon, name: str) -> None:
    for _ in range(100):
        states: dict[str, Any] = (await daemon.ask("status"))["channels"]
        if any(
            label.startswith(name) and one["state"] == "connected" for label, one in states.items()
        ):
            return
    raise AssertionError(f"{name} never connected")


async def test_roles_and_rules_are_written_and_hold_and_what_would_be_refused_is_not_written(
    daemon: Daemon, page: Page
) -> None:
    await opened(page)
    people = page.locator("form", has=page.get_by_role("heading", name="People", exact=True))
    config = daemon.home / "config.yaml"
    before = config.read_text()
    await people.get_by_label("Owner").fill("nobody at all")
    await people.get_by_role("button", name="Save the roles").click()
    await expect(people.locator(".setup-result")).to_contain_text(
        "expected CHANNEL:ID, for example slack:U123"
    )
    await people.get_by_label("Owner").fill("slak:U1")
    await people.get_by_role("button", name="Save the roles").click()
    await expect(people.locator(".setup-result")).to_contain_text("did you mean slack?")
    assert config.read_text() == before
    await people.get_by_label("Owner").fill("slack:U1")
    await people.get_by_label("Guests").fill("telegram:7\ntelegram:8")
    await people.get_by_role("button", name="Save the roles").click()
    await taken_over(page)
    rules = page.locator(
        "form", has=page.get_by_role("heading", name="What runs unasked", exact=True)
    )
    await rules.get_by_label("Runs unasked").fill("Write(${WORKSPACE}/**)")
    await rules.get_by_role("button", name="Save the rules").click()
    await taken_over(page)
    told = await daemon.ask("config", "show")
    assert told["owner"] == ["slack:U1"]
    assert told["access"]["roles"]["guest"] == ["telegram:7", "telegram:8"]
    assert_kept(before, config.read_text())
    await page.goto(f"{page.url.split('#')[0]}#/chat")
    await send(page, "run Write file_path=free.txt content=hello")
    await expect(page.locator("#transcript .agent").last).to_contain_text("Write says")
    assert (daemon.workspace / "free.txt").read_text().strip() == "hello"


async def test_a_hand_edit_is_not_overwritten_and_a_broken_file_is_told(
    daemon: Daemon, page: Page
) -> None:
    await opened(page)
    people = page.locator("form", has=page.get_by_role("heading", name="People", exact=True))
    config = daemon.home / "config.yaml"
    await people.get_by_label("Owner").fill("slack:U1")
    edited = config.read_text().replace("# the end", "owner: [slack:U2]\n# the very end")
    config.write_text(edited)
    await people.get_by_role("button", name="Save the roles").click()
    await expect(people.locator(".setup-result")).to_contain_text("was changed since it was read")
    assert config.read_text() == edited
    await people.get_by_role("button", name="Read it again").click()
    await expect(people.get_by_label("Owner")).to_have_value("slack:U2")
    config.write_text(f"{edited}nonsense: 1\n")
    await page.reload()
    await expect(page.locator(".setup-banner")).to_contain_text("nonsense: unknown key")
    await people.get_by_label("Owner").fill("slack:U3")
    await people.get_by_role("button", name="Save the roles").click()
    await expect(people.locator(".setup-result")).to_contain_text("nonsense")
    assert config.read_text() == f"{edited}nonsense: 1\n"


async def test_neither_a_stranger_nor_a_foreign_page_nor_the_agent_itself_reaches_the_set_up(
    daemon: Daemon, page: Page
) -> None:
    text = (daemon.home / "config.yaml").read_text()
    paths = (
        "",
        "/model/test",
        "/model",
        "/channels/slack/test",
        "/channels/slack",
        "/people",
        "/rules",
    )
    [cookie] = [f"{one.get('name')}={one.get('value')}" for one in await page.context.cookies()]
    foreign = {"Cookie": cookie, "Origin": "http://127.0.0.1:1", "Sec-Fetch-Site": "same-site"}
    async with ClientSession() as session:
        for path in paths:
            for headers, status in (
                ({}, 401),
                (foreign, 403),
                ({"Cookie": cookie}, 403 if path else 200),
            ):
                method = "POST" if path else "GET"
                async with session.request(
                    method, f"{daemon.url}/api/v1/setup{path}", json={}, headers=headers
                ) as answer:
                    assert answer.status == status, (path, headers)
    (daemon.workspace / "ask.py").write_text(ASK.format(socket=daemon.home / "run" / "ohmo.sock"))
    await send(page, "Bash: python3 ask.py")
    await page.locator(".card.agent").get_by_role("button", name="Allow once").click()
    await expect(page.locator("#transcript .agent").last).to_contain_text(
        re.compile(r"heard (403|\w+Error) (403|\w+Error)")  # by what it descends from, or at a wall
    )
    assert (daemon.home / "config.yaml").read_text() == text
