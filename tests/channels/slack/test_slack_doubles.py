"""A second ohmo on the same app is known by what it says; a script, a former life, dead connections
and our own echo are not taken for one."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from channels.competing_instance import CompetingInstance
from channels.contract import Address, ChatId, Options
from channels.errors import InUse
from channels.slack.adapter import Slack
from channels.slack.client import Pace, Wire
from channels.slack.history import Doubles
from ohmo_testing.channels import FakeContext
from tests.channels.second import answers, key, millis, new_id, posted, stopped
from tests.conformance.channels.stage import live, texts
from tests.platforms.slack.rig import SlackRig, rig
from tests.platforms.slack.workspace import BOT_TOKEN

QUICK = Pace(echo=0.0, look=0.05)
HERE = Address("slack", "T0HOUSE", ChatId("D0ADA"))


@pytest.fixture
async def slack() -> AsyncIterator[SlackRig]:
    async with rig() as made:
        yield made


def channel(slack: SlackRig, context: FakeContext) -> Slack:
    return slack.channel(options=Options(state=context.state), pace=QUICK)


async def posts(
    slack: SlackRig, key: str | None, *, since: float | None = 0, thread: str = ""
) -> None:
    """Somebody with our token does. ``since``: when it came, in seconds; None: it does not say."""
    payload: dict[str, Any] = {"key": key} | (
        {"since": round(since * 1000)} if since is not None else {}
    )
    metadata = (
        {"metadata": {"event_type": "ohmo", "event_payload": payload}} if key is not None else {}
    )
    body = (
        {"channel": "D0ADA", "text": "an answer"}
        | metadata
        | ({"thread_ts": thread} if thread else {})
    )
    assert (await posted(f"{slack.server.url}chat.postMessage", f"Bearer {BOT_TOKEN}", body))["ok"]


def looked(slack: SlackRig) -> int:
    """Questions whose post it was."""
    return sum("inclusive" in arguments for _, arguments in slack.server.calls)


@pytest.mark.parametrize("threaded", [False, True])
async def test_the_one_that_came_later_stops_after_three_answers_of_the_other_one(
    slack: SlackRig, context: FakeContext, threaded: bool
) -> None:
    async with live(channel(slack, context), context) as task:
        root = await slack.says("hello")
        await texts(context, 1, task)
        row = f"{new_id()}"
        for part in range(4):  # one answer in four parts counts once
            await posts(slack, f"{row}.{part}", thread=root if threaded else "")
        for _ in range(2):
            await posts(slack, key(), thread=root if threaded else "")
        with pytest.raises(InUse, match=r"another ohmo answers with this app \(3 times in a row\)"):
            await asyncio.wait_for(task, 20)


@pytest.mark.parametrize(
    "who",
    ["a script", "a younger one", "one that does not say since when", "a former life", "ourselves"],
)
async def test_others_that_speak_for_our_account_are_no_conflict(
    slack: SlackRig, context: FakeContext, who: str
) -> None:
    # rows of a life that was killed while they were on their way
    former = [key() for _ in range(4)]
    await asyncio.sleep(0.002)  # the next millisecond
    made = channel(slack, context)
    async with live(made, context) as task:
        await slack.says("hello")
        await texts(context, 1, task)
        for count in range(1, 5):
            match who:
                case "a script":
                    await posts(slack, None)
                case "a younger one":
                    await posts(slack, key(), since=time.time() + 60)
                case "one that does not say since when":
                    await posts(slack, key(), since=None)
                case "a former life":
                    await posts(slack, former.pop())
                case _:
                    await answers(made, HERE)
            if who != "ourselves":
                await slack.server.until(lambda server, count=count: looked(slack) >= count)
        await slack.says("still there?")
        await texts(context, 2, task)
    if who == "ourselves":
        assert looked(slack) == 0, "we know our own posts"


async def test_a_lost_connection_costs_no_place(slack: SlackRig, context: FakeContext) -> None:
    """The house is older than the other one, its connection is younger."""
    house, other = datetime.now(UTC) - timedelta(hours=2), datetime.now(UTC) - timedelta(hours=1)
    made = slack.channel(options=Options(state=context.state, since=house), pace=QUICK)
    async with live(made, context) as task:
        await slack.says("hello")
        await texts(context, 1, task)
        for count in range(1, 5):
            await posts(slack, key(), since=other.timestamp())
            await slack.server.until(lambda server, count=count: looked(slack) >= count)
        await answers(made, HERE)
        await slack.says("still there?")
        await texts(context, 2, task)
    ours = next(row for row in slack.server.workspace.rows["D0ADA"] if row["text"] == "our answer")
    assert ours["metadata"]["event_payload"]["since"] == millis(house), (
        "so that the other one knows it, too"
    )


async def test_other_connections_of_the_app_alone_are_no_conflict(
    slack: SlackRig, context: FakeContext, tmp_path: Path
) -> None:
    """The hello frame counts them, also those that are dead."""
    async with (
        live(slack.channel(), FakeContext(tmp_path / "one")),
        live(slack.channel(), FakeContext(tmp_path / "two")),
    ):
        await slack.server.until(lambda server: len(server.links) == 2)
        async with live(channel(slack, context), context) as task:
            await slack.server.until(lambda server: len(server.links) == 3)
            for count in (1, 2, 3, 4):
                await slack.says(f"question {count}")
                await texts(context, count, task)


@pytest.mark.parametrize("there", [True, False])
async def test_after_a_stop_what_the_other_one_said_meanwhile_ends_the_try_before_anything_is_stored(
    slack: SlackRig, context: FakeContext, there: bool
) -> None:
    async with live(channel(slack, context), context) as task:
        await slack.says("hello")
        await texts(context, 1, task)
    stopped(context.state)
    await slack.says("who answers?")
    await posts(slack, key() if there else None)
    async with live(channel(slack, context), context) as task:
        if there:
            with pytest.raises(InUse, match=r"another ohmo answers with this app \(still\)"):
                await asyncio.wait_for(task, 20)
            assert [message.text for message in context.messages] == ["hello"]
        else:
            assert await texts(context, 2, task) == ["hello", "who answers?"]


SHAPES: list[Any] = [
    "text",
    [],
    {"event_type": "ohmo"},
    {"event_type": "ohmo", "event_payload": "x"},
    {"event_type": "ohmo", "event_payload": {"key": 3, "since": "x"}},
    {"event_type": "ohmo", "event_payload": {"key": key(), "since": 0}},
]


@pytest.mark.parametrize("metadata", SHAPES)
@pytest.mark.parametrize("ts", ["x", "", "1e300", None])
def test_posts_of_any_shape_say_nothing(context: FakeContext, metadata: Any, ts: Any) -> None:
    doubles = Doubles(
        Wire("", "", "http://127.0.0.1:1/", QUICK),
        CompetingInstance(context.state, lambda: datetime.now(UTC)),
    )
    for _ in range(4):
        doubles.echo("D0ADA", {"ts": ts, "metadata": metadata})
        doubles.judge({"ts": ts, "metadata": metadata})
