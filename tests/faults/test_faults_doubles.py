"""Row 51: two houses with one token, each with a store of its own; real SDKs, five minutes that
take no time, and real daemons."""

from __future__ import annotations

import json
import shutil
from collections.abc import AsyncGenerator, Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from aiohttp import ClientError

from channels.contract import Address, ChatId, Inbound
from channels.matrix.client import Pace as MatrixPace
from channels.slack.client import Pace as SlackPace
from ohmo.gateway.switchboard import LISTENS, PROBE, Switchboard
from tests import warm
from tests.channels.second import note
from tests.faults.conftest import Stage
from tests.faults.daemon import Daemon, until
from tests.faults.houses import House
from tests.faults.scene import RIGS
from tests.faults.test_faults_reload import new_house, reload
from tests.platforms.telegram.world import BOT


class Running:
    """A house and its board."""

    def __init__(self, house: House, board: Switchboard, ending: AsyncExitStack) -> None:
        self.house = house
        self._board = board
        self._ending = ending

    @property
    def state(self) -> str:
        """What ``ohmo status`` says of its channel."""
        return self._board.report()[self.house.rig.name].state

    @property
    def detail(self) -> str:
        return self._board.report()[self.house.rig.name].detail

    async def becomes(self, state: str) -> None:
        await holds(
            f"{self.house.rig.name} is {state}, not {self.state}: {self.detail}",
            lambda: self.state == state,
        )

    async def tries(self) -> None:
        """Five minutes, to the second: as long as it is stopped nothing but its next try waits."""
        time, before = self.house.time, self.house.lives
        await time.run_to(time.now + PROBE - 1)
        assert self.house.lives == before, "it tries more often than every five minutes"
        await time.run_to(time.now + 1)
        await holds("the next try", lambda: self.house.lives == before + 1)

    async def speaks(self) -> None:
        """What waited is said, after it only listened for a while."""
        await self.becomes("connected")
        await self.house.time.run_to(self.house.time.now + LISTENS)

        async def all_said() -> bool:
            return not await self.house.waiting()

        await until("what waited is said", all_said)

    async def leaves(self) -> None:
        await self._ending.aclose()


async def holds(what: str, true: Callable[[], bool]) -> None:
    async def seen() -> bool:
        return true()

    await until(what, seen)


class Street:
    """Where houses on one platform stand."""

    def __init__(self, rig: Any, folder: Path) -> None:
        self._rig = rig
        self._folder = folder
        self._all = AsyncExitStack()

    async def builds(self, name: str) -> Running:
        """Or opens anew, with what its life before left in its folder."""
        state = self._folder / name
        state.mkdir(mode=0o700, exist_ok=True)
        made, ending = (
            House(self._rig, state),
            await self._all.enter_async_context(AsyncExitStack()),
        )
        return Running(made, await ending.enter_async_context(made.running()), ending)

    async def close(self) -> None:
        await self._all.aclose()


@asynccontextmanager
async def street(on: str, folder: Path) -> AsyncGenerator[tuple[Any, Street]]:
    async with RIGS[on]() as rig:
        made = Street(rig, folder)
        try:
            yield rig, made
        finally:
            await made.close()


@pytest.mark.fault(51, on="telegram")
async def test_of_two_houses_on_one_bot_the_one_that_came_later_stops_and_tries_once_in_five_minutes(
    tmp_path: Path,
) -> None:
    async with street("telegram", tmp_path) as (rig, houses):
        rig.pace = replace(rig.pace, held=0.0)  # which takes a second where it waits for one

        def conflicts() -> int:
            return [call.code for call in rig.server.calls if call.method == "getUpdates"].count(
                409
            )

        one = await houses.builds("one")
        await one.becomes("connected")
        await rig.says("are you there?")
        await holds("it hears", lambda: one.house.heard == 1)
        rests, stays = await houses.builds("two"), one
        await rests.becomes("conflict")
        assert "somebody else polls" in rests.detail
        assert "2 times in a row" in rests.detail
        assert stays.state == "connected"
        seen = conflicts()
        assert seen == 2 + 2, "two of each"
        await rests.house.posts(
            "kept until the other one is gone", Address("telegram", str(BOT["id"]), ChatId("1001"))
        )
        for count in (1, 2, 3):
            # a poll of the other one that succeeds, as in five minutes there are many
            await rig.says("who is there?")
            await holds("the other one hears", lambda count=count: stays.house.heard == count + 1)
            await rests.tries()
            await holds(
                "the try ends two polls of the other one, and twice is ended by it",
                lambda seen=seen: conflicts() == seen + 4,
            )
            await rests.becomes("conflict")
            seen += 4
        assert "still" in rests.detail
        assert await rests.house.waiting() == ["kept until the other one is gone"]
        assert (stays.state, rests.house.heard) == ("connected", 0)
        await stays.leaves()
        await rig.says("and now?")
        await rests.tries()
        await rests.speaks()
        await holds("it hears again", lambda: rests.house.heard == 1)
        assert [message.text for message in await rig.visible() if message.by_bot] == [
            "kept until the other one is gone"
        ]
        await rests.leaves()
        rig.server.faults.conflicts = (
            1  # the platform still holds the poll of the life that was killed
        )
        again = await houses.builds("two")
        await rig.says("and after a kill?")
        await holds("it hears without waiting for five minutes", lambda: again.house.heard == 1)
        assert (again.house.lives, again.house.time.now) == (1, 0.0)


async def question(rig: Any, text: str, *houses: Running) -> Address:
    """Said to the bot, and heard by all of them; where."""
    await rig.says(text)

    def heard() -> list[list[Inbound]]:
        return [
            [said for said in one.house.told if isinstance(said, Inbound) and text in said.text]
            for one in houses
        ]

    await holds(f"all of them hear {text}", lambda: all(heard()))
    return heard()[0][0].address


async def answer(rig: Any, house: Running, text: str, at: Address) -> None:
    await house.house.posts(text, at)

    async def seen() -> bool:
        return any(message.by_bot and text in message.text for message in await rig.visible())

    await until(f"{text} is seen", seen)


@pytest.mark.fault(51)
@pytest.mark.parametrize("on", ["discord"])
async def test_of_two_houses_that_both_answer_the_younger_one_stops_and_tries_once_in_five_minutes(
    tmp_path: Path, on: str
) -> None:
    async with street(on, tmp_path) as (rig, houses):
        one = await houses.builds("one")
        await one.becomes("connected")
        two = await houses.builds("two")
        await two.becomes("connected")
        for count in (1, 2, 3):
            assert two.state == "connected"
            at = await question(rig, f"question {count}", one, two)
            for house, name in ((one, "one"), (two, "two")):
                await answer(rig, house, f"{name} says {count}", at)
        await two.becomes("conflict")
        assert "another ohmo answers with this" in two.detail
        assert "3 times in a row" in two.detail
        await two.house.posts("kept until the other one is gone", at)
        for count in (4, 5):
            at = await question(rig, f"question {count}", one)
            await answer(rig, one, f"one says {count}", at)
            await two.tries()
            await two.becomes("conflict")
            assert "still" in two.detail
        assert one.state == "connected"
        assert await two.house.waiting() == ["kept until the other one is gone"]
        await one.leaves()
        await two.tries()
        await two.speaks()
        await question(rig, "and now?", two)
        assert "kept until the other one is gone" in [
            shown.text for shown in await rig.visible() if shown.by_bot
        ]


@pytest.mark.fault(51, on="slack")
async def test_of_two_houses_on_one_slack_app_the_younger_one_stops_and_tries_once_in_five_minutes(
    tmp_path: Path,
) -> None:
    async with street("slack", tmp_path) as (rig, houses):
        rig.pace = SlackPace(echo=0.2, look=0.05)
        one = await houses.builds("one")
        await one.becomes("connected")
        at = await question(rig, "hello", one)
        two = await houses.builds("two")
        await two.becomes("connected")
        rig.server.spread = True  # each hears a part, as Slack has it
        count = 0
        while two.state != "conflict":
            count += 1
            await answer(rig, one, f"one says {count}", at)
            assert count < 50, "nobody stops"
        assert "another ohmo answers with this app" in two.detail
        assert "3 times in a row" in two.detail
        await two.house.posts("kept until the other one is gone", at)
        for count in (1, 2):
            await answer(
                rig, one, f"one goes on {count}", await question(rig, f"question {count}", one)
            )
            await two.tries()
            await two.becomes("conflict")
            assert "still" in two.detail
        assert one.state == "connected"
        assert not [
            said for said in two.house.told if isinstance(said, Inbound) and "question" in said.text
        ], "it takes nothing meanwhile"
        assert await two.house.waiting() == ["kept until the other one is gone"]
        await one.leaves()
        await two.tries()
        await two.becomes("connected")
        await question(rig, "and now?", two)
        await two.speaks()
        assert "kept until the other one is gone" in [
            shown.text for shown in await rig.visible() if shown.by_bot
        ]


@pytest.mark.needs("synapse")
@pytest.mark.fault(51, on="matrix")
async def test_of_two_houses_on_one_matrix_account_the_younger_one_stops_and_tries_once_in_five_minutes(
    tmp_path: Path,
) -> None:
    async with street("matrix", tmp_path) as (rig, houses):
        rig.pace = MatrixPace(ask=0.1)
        one = await houses.builds("one")
        await one.becomes("connected")
        at = await question(rig, "hello", one)
        two = await houses.builds("two")
        await two.becomes("conflict")
        assert "another ohmo is connected with this account" in two.detail
        assert "3 times in a row" in two.detail
        await two.house.posts("kept until the other one is gone", at)
        for _ in range(2):
            await two.tries()
            await two.becomes("conflict")
            assert "still" in two.detail
        await question(rig, "who hears?", one)
        assert one.state == "connected"
        assert await two.house.waiting() == ["kept until the other one is gone"]
        await one.leaves()
        await two.tries()
        await two.becomes("connected")
        await question(rig, "and now?", two)
        await two.speaks()
        assert [shown.text for shown in await rig.visible() if shown.by_bot] == [
            "kept until the other one is gone"
        ]
        assert json.loads(note(tmp_path / "two").read_text())["back"], (
            "it keeps the place it came back to, whatever becomes of its connections"
        )


# real daemons


def another(home: Path, on: str) -> Daemon:
    """A second home with the same configuration."""
    made = home.parent / "another"
    made.mkdir(mode=0o700)
    shutil.copy(home / "config.yaml", made / "config.yaml")
    return Daemon(made, [on, "web"], start=warm.start)


async def state(daemon: Daemon, on: str) -> str:
    with suppress(ClientError, OSError, TimeoutError):
        _, status = await daemon.call("GET", "/api/v1/status")
        return str(status["channels"][on]["state"])
    return ""


async def rests_among(on: str, *daemons: Daemon) -> Daemon | None:
    for one in daemons:
        if await state(one, on) == "conflict":
            return one
    return None


async def notice(daemon: Daemon) -> tuple[str, str]:
    """Channel and words of what its owner was told."""
    told: list[tuple[str, str]] = []

    async def there() -> bool:
        _, found = await daemon.call("GET", "/api/v1/outbox?limit=100&state=sent")
        outbounds = [row["row"]["outbound"] for row in found["outbox"]]
        told[:] = [
            (one["address"]["channel"], one["text"])
            for one in outbounds
            if "is stopped" in one["text"]
        ]
        return bool(told)

    await until("the owner is told", there)
    assert len(told) == 1, told
    return told[0]


@pytest.mark.fault(51, on="telegram")
async def test_of_two_daemons_on_one_telegram_bot_one_rests_and_goes_on_when_the_other_one_is_gone(
    stage: Stage, home: Path
) -> None:
    async with stage("telegram", "web") as scene:
        await scene.daemon.start()
        await scene.says()
        await scene.answered()
        second = another(home, "telegram")
        await second.start(ready=False)
        try:

            async def somebody_rests() -> bool:
                return await rests_among("telegram", scene.daemon, second) is not None

            await until("one of them rests", somebody_rests)
            rests = await rests_among("telegram", scene.daemon, second)
            assert rests is not None
            stays = second if rests is scene.daemon else scene.daemon
            through, words = await notice(rests)
            assert through == "web"
            assert "telegram is stopped: Telegram: somebody else polls with this token" in words
            assert await state(rests, "web") == "connected", "others are not affected"
            marker = await scene.says()
            await scene.answered(marker)
            assert len(await scene.answers(marker)) == 1
            assert (await state(rests, "telegram"), await state(stays, "telegram")) == (
                "conflict",
                "connected",
            )
            assert await stays.stop() == 0
            await rests.kill()
            # for a moment the platform holds a killed life's poll
            scene.rigs["telegram"].server.faults.conflicts = 1
            await rests.start()  # nobody waits five minutes here
            marker = await scene.says()
            await scene.answered(marker)
            assert len(await scene.answers(marker)) == 1
        finally:
            if second.alive:
                await second.kill()


@pytest.mark.fault(51, on="discord")
async def test_of_two_daemons_on_one_discord_bot_one_rests_after_three_double_answers(
    stage: Stage, home: Path
) -> None:
    async with stage("discord", "web") as scene:
        await scene.daemon.start()
        await scene.says(on="discord")
        await scene.answered()
        second = another(home, "discord")
        await second.start()
        try:
            rests, count = None, 0
            while rests is None:
                marker, count = await scene.says(on="discord"), count + 1
                assert count <= 4, "both go on answering"

                async def all_said(marker: str = marker) -> bool:
                    if await rests_among("discord", scene.daemon, second) is not None:
                        return True
                    return sum(" end" in one.text for one in await scene.answers(marker)) == 2

                await until("both answer, or one of them rests", all_said)
                rests = await rests_among("discord", scene.daemon, second)
            assert count >= 3
            stays = second if rests is scene.daemon else scene.daemon
            through, words = await notice(rests)
            assert through == "web"
            assert (
                "discord is stopped: Discord: another ohmo answers with this token (3 times in a"
                " row)" in words
            )
            marker = await scene.says(on="discord")
            await scene.answered(marker)
            assert len(await scene.answers(marker)) == 1, "one of them answers"
            assert (await state(rests, "discord"), await state(stays, "discord")) == (
                "conflict",
                "connected",
            )
        finally:
            if second.alive:
                await second.kill()


@pytest.mark.fault(51, on="slack")
async def test_a_daemon_that_connects_anew_is_as_old_as_before(stage: Stage) -> None:
    """Of two the younger one leaves: neither a lost connection nor a changed configuration must
    make the elder one the younger."""
    async with stage("slack") as scene:
        await scene.daemon.start()
        rig = scene.rigs["slack"]
        for _ in range(2):
            marker = await scene.says(on="slack")
            await scene.answered(marker)
            await rig.cut()
        await reload(scene, permissions={"mode": "plan"})
        await new_house(scene)
        await scene.answered(await scene.says(on="slack"))
        told = [
            row["metadata"]["event_payload"]["since"]
            for row in rig.server.workspace.rows["D0ADA"]
            if "metadata" in row
        ]
        assert len(told) >= 3
        assert len(set(told)) == 1
