"""What a person does at the keyboard, beside the daemon: ``ohmo chat`` fed line by line, on the
real daemon."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tests.children import die_with_parent
from tests.faults.daemon import PATIENCE, until
from tests.faults.scene import Scene
from tests.journeys_platforms.conftest import Stage
from tests.journeys_platforms.test_trying_again import REFUSED
from tests.programs import OHMO, environ, ohmo


class Talk:
    """``shown``: everything the command printed so far."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process
        self.shown = ""

    async def says(self, line: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(f"{line}\n".encode())
        await self.process.stdin.drain()

    async def until(self, text: str) -> None:
        assert self.process.stdout is not None
        try:
            async with asyncio.timeout(PATIENCE):
                while text not in self.shown:
                    piece = await self.process.stdout.read(65_536)
                    assert piece, f"it ended before {text!r}: {self.shown}"
                    self.shown += piece.decode()
        except TimeoutError:
            raise AssertionError(f"not within {PATIENCE:g} s: {text!r} in {self.shown!r}") from None

    async def ends(self) -> int:
        assert self.process.stdin is not None
        self.process.stdin.close()
        return await asyncio.wait_for(self.process.wait(), PATIENCE)


@asynccontextmanager
async def talking(scene: Scene, *words: str) -> AsyncGenerator[Talk]:
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(
        *OHMO,
        *(words or ("chat",)),
        env=environ(scene.daemon.home, PYTHONUNBUFFERED="1"),
        stdin=pipe,
        stdout=pipe,
        stderr=asyncio.subprocess.STDOUT,
        preexec_fn=die_with_parent,
    )
    try:
        yield Talk(process)
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


@pytest.mark.person("watch", on="terminal")
async def test_an_answer_is_seen_while_it_grows(stage: Stage) -> None:
    async with stage("web") as scene:
        await scene.daemon.start()
        async with talking(
            scene, "-p", "m-1-cafe0001 #hold{12} #chunks{20}", "--output", "stream-json"
        ) as at:
            await at.until('"text_delta"')
            assert '"result"' not in at.shown
            scene.model.go.set()
            await at.until("word19 end")
            assert await at.ends() == 0


@pytest.mark.person("more", on="terminal")
async def test_what_is_typed_while_an_answer_comes_is_answered_after_it(stage: Stage) -> None:
    async with stage("web") as scene:
        await scene.daemon.start()
        async with talking(scene) as at:
            await at.says("m-1-cafe0001 #wait{2}")
            await scene.models_asked(1)
            await at.says("m-2-cafe0002")
            await at.says("m-3-cafe0003")
            for marker in ("m-1-cafe0001", "m-2-cafe0002", "m-3-cafe0003"):
                await at.until(f"echo: {marker}")
            assert await at.ends() == 0
            places = [at.shown.index(f"echo: m-{number}-") for number in (1, 2, 3)]
            assert places == sorted(places)


@pytest.mark.person("new", on="terminal")
async def test_a_new_conversation_begins_while_something_runs(stage: Stage) -> None:
    async with stage("web") as scene:
        await scene.daemon.start()
        async with talking(scene) as at:
            await at.says("m-1-cafe0001 #wait{60} the secret is green")
            await scene.models_asked(1)
            (session,) = (await scene.daemon.call("GET", "/api/v1/sessions"))[1]["sessions"]
            home = scene.daemon.home
            reset = ("sessions", "reset", session["thread"])
            await asyncio.to_thread(ohmo, home, *reset, code=0)
            await scene.stopped()
            await at.says("m-2-cafe0002")
            await at.until("echo: m-2-cafe0002")
            assert await at.ends() == 0
        assert "the secret is green" not in str(scene.model.asked[-1].body)


@pytest.mark.person("late", on="terminal")
async def test_what_nobody_allowed_in_time_is_run_by_a_word(
    stage: Stage, home: Path, work: Path
) -> None:
    async with stage("web") as scene:
        path = home / "config.yaml"
        path.write_text(
            path.read_text().replace(
                '{"profiles"', '{"permissions": {"approval_timeout": "1s"}, "profiles"', 1
            )
        )
        await scene.daemon.start()
        async with talking(scene) as at:
            await at.says(f"m-1-cafe0001 #run{{echo x >> {work / 'counter'}}}")
            await at.until("echo x >>")

            async def over() -> bool:
                return not (await scene.daemon.call("GET", "/api/v1/approvals"))[1]["approvals"]

            await until("nobody waits for the answer any more", over)
            assert not (work / "counter").exists()
        (session,) = (await scene.daemon.call("GET", "/api/v1/sessions"))[1]["sessions"]
        async with talking(scene, "chat", "--resume", session["thread"]) as at:
            await at.says("/approve")
            await scene.appears(work / "counter")
            assert await at.ends() == 0


@pytest.mark.person("choose", "words", on="terminal")
async def test_a_question_is_answered_by_a_choice_and_in_own_words(stage: Stage) -> None:
    async with stage("web") as scene:
        await scene.daemon.start()
        async with talking(scene) as at:
            await at.says("m-1-cafe0001 #ask{Which branch?|Main|Next}")
            await at.until("Which branch?")
            await at.says("Next")
            await at.until("echo: m-1-cafe0001")
            await at.says("m-2-cafe0002 #ask{Which day?}")
            await at.until("Which day?")
            await at.says("the first of May")
            await at.until("echo: m-2-cafe0002")
            assert await at.ends() == 0
        assert "Next" in scene.told("m-1-cafe0001")[0]
        assert "the first of May" in scene.told("m-2-cafe0002")[0]


@pytest.mark.person("restart", on="terminal")
async def test_a_conversation_goes_on_when_the_daemon_was_killed_under_it(stage: Stage) -> None:
    async with stage("web") as scene:
        await scene.daemon.start()
        async with talking(scene) as at:
            await at.says("m-1-cafe0001 #hold{6} #chunks{20}")
            await scene.models_asked(1)
            await scene.daemon.kill()
            scene.model.go.set()
            await scene.daemon.start()
            await at.until("word19 end")
            await at.says("m-2-cafe0002")
            await at.until("echo: m-2-cafe0002")
            assert await at.ends() == 0


@pytest.mark.person("retry", on="terminal")
async def test_what_failed_is_tried_again_by_a_word(stage: Stage) -> None:
    async with stage("web") as scene:
        await scene.daemon.start()
        async with talking(scene) as at:
            scene.model.next(REFUSED)
            await at.says("m-1-cafe0001")
            await at.until("profile says no")
            await until("the failed try has ended", scene.daemon.idle)
            await at.says("/retry")

            async def tried() -> bool:
                return scene.model.count == 2

            await until("it is tried again", tried)
            await at.until("echo: m-1-cafe0001")
            assert await at.ends() == 0


NAMES = {
    "telegram": "@ohmo_test_bot (7000001)",
    "discord": "@ohmo (1000000000000000001)",
    "slack": "@ohmo (",
    "feishu": "@ohmo (",
    "matrix": "@ohmo",
}


@pytest.mark.parametrize("on", NAMES)
async def test_a_channel_says_its_name(stage: Stage, on: str) -> None:
    async with stage(on) as scene:
        done = await asyncio.to_thread(ohmo, scene.daemon.home, "channels", "test", on, code=0)
        assert done.stderr == ""
        assert done.stdout.startswith(f"{on}: connected as {NAMES[on]}")
