"""RemoteTrigger against the webhooks of our own house: signed as they check it, taken once."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

import pytest
from aiohttp import web
from tool_calls import judged

from ohmo.contracts.messages import ToolResult
from ohmo.contracts.tool import CallContext
from ohmo.control.responses import Refusal
from ohmo.control.webhooks import Webhook, WebhookRoutes
from ohmo.tools.catalogue import load_tools
from ohmo.tools.remote_trigger import RemoteTrigger
from ohmo.tools.results import ToolError
from ohmo.tools.systems import OtherHouse, Systems
from ohmo.tools.workbench import Workbench
from tests.unit.control.test_control_webhooks import House

HOOK = Webhook("build", "s3cret", prompt="{{ body }}")


@dataclass
class Other:
    """``before``: answers before the real webhooks are reached."""

    house: House = field(default_factory=House)
    before: list[int] = field(default_factory=list)
    lost: bool = False  # the first answer of the real one does not arrive
    asked: int = 0
    url: str = ""

    @web.middleware
    async def weather(self, request: web.Request, handler: object) -> web.StreamResponse:
        self.asked += 1
        if self.before:
            return web.Response(status=self.before.pop(0))
        try:
            answer = await handler(request)  # pyright: ignore[reportCallIssue]
        except Refusal as error:  # as the control server says it
            return web.Response(status=error.status)
        if self.lost:
            self.lost = False
            assert request.transport is not None
            request.transport.abort()
        return answer


@asynccontextmanager
async def listening(other: Other) -> AsyncIterator[Other]:
    other.house.now = datetime.now(UTC)
    app = web.Application(middlewares=[other.weather])
    app.add_routes(WebhookRoutes(other.house.hooks(HOOK)).routes())
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    other.url = f"http://127.0.0.1:{runner.addresses[0][1]}/hooks/build"
    try:
        yield other
    finally:
        await runner.cleanup()


async def trigger(
    bench: Workbench, context: CallContext, url: str, secret: str = "s3cret"
) -> ToolResult:
    remotes = {"ci": OtherHouse(url, secret)}
    tool = RemoteTrigger(replace(bench, systems=Systems(remotes=remotes)))
    given = tool.parse({"name": "ci", "payload": {"what": "lỗi", "n": 1}})
    return (await tool.run(given, judged(tool, given, context))).result


async def test_the_other_house_takes_what_was_signed_and_once(
    bench: Workbench, context: CallContext
) -> None:
    async with listening(Other()) as other:
        first = await trigger(bench, context, other.url)
        again = await trigger(bench, context, other.url)  # the same call, after a restart
        another = await trigger(bench, replace(context, call="turn.2"), other.url)
    assert first.text.startswith("ci has taken it"), first.text
    assert again.text == "ci had taken this before"
    assert another.text == first.text
    assert len(other.house.wakes) == 2
    [wake, _] = other.house.wakes.values()
    assert json.dumps({"what": "lỗi", "n": 1}, ensure_ascii=False) in wake.prompt


async def test_an_answer_that_got_lost_is_asked_for_again_and_the_effect_stays_one(
    bench: Workbench, context: CallContext
) -> None:
    async with listening(Other(before=[503], lost=True)) as other:
        result = await trigger(bench, context, other.url)
    assert result.text == "ci had taken this before"
    assert other.asked == 3
    assert len(other.house.wakes) == 1


@pytest.mark.parametrize(
    ("before", "secret", "words"),
    [
        ([], "wrong", "remotes.ci.secret"),
        ([404], "s3cret", "the service answered 404"),
        ([307], "s3cret", "not followed"),
        ([200], "s3cret", "no webhook of ohmo"),
        ([500, 500, 500], "s3cret", "the service answered 500"),
    ],
)
async def test_what_goes_wrong_is_one_line_without_the_secret(
    bench: Workbench, context: CallContext, before: list[int], secret: str, words: str
) -> None:
    async with listening(Other(before=before)) as other:
        result = await trigger(bench, context, other.url, secret)
    assert result.error
    assert words in result.text
    assert secret not in result.text.replace("remotes.ci.secret", "")
    assert not other.house.wakes


def test_only_a_house_that_is_written_down_is_there(bench: Workbench, context: CallContext) -> None:
    assert "RemoteTrigger" not in load_tools(bench)
    tool = RemoteTrigger(replace(bench, systems=Systems(remotes={"ci": OtherHouse("u", "s")})))
    assert "ci" in tool.description
    with pytest.raises(ToolError, match="there are ci"):
        tool.footprint(tool.parse({"name": "http://x/", "payload": {}}), context.cwd)
