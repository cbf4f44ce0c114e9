"""What is too large is said and cut, in bounded memory; what deceives or breaks is taken out, on
its way in and out."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.faults.scene import Scene
from tests.journeys_platforms.conftest import Stage
from tests.platforms.model.script import Turn

pytestmark = pytest.mark.cold_start

MIB = 1 << 20


def peak(scene: Scene) -> int:
    """Bytes of memory the daemon has used at most (Linux: proc(5), VmHWM)."""
    status = Path(f"/proc/{scene.daemon.pid}/status").read_text()
    found = re.search(r"VmHWM:\s+(\d+) kB", status)
    assert found is not None
    return int(found[1]) * 1024


async def warm(scene: Scene) -> int:
    """The peak after everything was needed once."""
    for _ in range(3):
        await scene.says(on="slack")
    await scene.answered()
    return peak(scene)


def slack_says(scene: Scene, text: str, files: list[dict[str, object]] | None = None) -> None:
    scene.rigs["slack"].server.workspace.says("D0ADA", "U0ADA", text, files=files)


@pytest.mark.fault(33, on="slack")
async def test_a_megabyte_of_text_is_answered_in_bounded_memory_and_the_model_is_told_of_the_cut(
    stage: Stage,
) -> None:
    async with stage("slack") as scene:
        await scene.daemon.start()
        before = await warm(scene)
        slack_says(scene, "x" * MIB)
        await scene.says("and this", on="slack")
        await scene.answered()
        (long,) = [
            request
            for request in scene.model.asked
            if request.said.endswith("characters left out)")
        ]
        assert 200_000 < len(long.said) < 200_200
        assert f"(cut: {MIB - 200_000} of {MIB} characters left out)" in long.said
        assert peak(scene) - before < 64 * MIB
        await scene.check(also=lambda one: one.text == "no marker")


@pytest.mark.fault(33, on="slack")
async def test_a_hundred_files_with_one_message_are_all_named_and_answered(stage: Stage) -> None:
    async with stage("slack") as scene:
        await scene.daemon.start()
        before = await warm(scene)
        server = scene.rigs["slack"].server
        slack_says(
            scene,
            "see these",
            [server.host_file(f"note-{number}.txt", b"line\n" * 2000) for number in range(100)],
        )
        await scene.models_asked(4)
        content = json.dumps(scene.model.asked[-1].body["messages"][-1]["content"])
        paths = re.findall(r"\[file: note-\d+\.txt, text/plain, ([^\]]+)\]", content)
        assert len(set(paths)) == 100
        assert all(Path(path).stat().st_size == 10_000 for path in paths)
        assert peak(scene) - before < 64 * MIB
        await scene.check(also=lambda one: one.text == "no marker")


@pytest.mark.fault(33, on="slack")
async def test_a_file_of_200_megabytes_is_not_fetched_and_it_is_said(stage: Stage) -> None:
    async with stage("slack") as scene:
        await scene.daemon.start()
        before = await warm(scene)
        huge = scene.rigs["slack"].server.host_file("film.bin", bytes(200 * MIB))
        slack_says(scene, "see this", [huge])
        slack_says(scene, "and this, which lies about its size", [{**huge, "size": 5}])
        await scene.models_asked(5)
        told = json.dumps([request.body["messages"] for request in scene.model.asked[-2:]])
        assert (
            "The file film.bin could not be fetched: Slack: the file has 209715200 bytes, at most"
            " 104857600 are fetched" in told
        )
        assert (
            "The file film.bin could not be fetched: Slack: the file has more than 104857600 bytes"
            in told
        )
        assert peak(scene) - before < 64 * MIB
        await scene.check(also=lambda one: one.text == "no marker")
        assert not list((scene.daemon.home / "media").rglob("*film.bin"))


FAMILY = "👩\u200d👩\u200d👧\u200d👦 👩🏽\u200d💻"
LEGAL = f"שלום مرحبا क्\u200dष می\u200cخواهم {FAMILY} e\u0301 é \u200fעברית\u200e 日本"
DECEIT = "\u202egnp.exe\u202c \u2066x\u2069 \U000e0041\U000e0042 \u200d"
BROKEN = "\x00 \ud83d \udc00"  # no homeserver takes these
BAD = re.compile("[\x00\ud800-\udfff\u202a-\u202e\u2066-\u2069\U000e0000-\U000e007f]")


@pytest.mark.parametrize("on", ["telegram", "slack", "matrix"])
@pytest.mark.fault(34)
async def test_strange_words_arrive_clean_and_legal_text_goes_both_ways_unchanged(
    stage: Stage, on: str
) -> None:
    async with stage(on) as scene:
        await scene.daemon.start()
        scene.model.next(Turn(f"{LEGAL}{DECEIT}{BROKEN}"))
        await scene.rigs[on].says(f"{LEGAL}{DECEIT}{BROKEN if on != 'matrix' else ''}")
        await scene.says("m", on=on)
        await scene.answered()
        heard = scene.model.asked[0].said
        assert heard.startswith(LEGAL)
        assert not BAD.search(heard)
        answer = next(message for message in await scene.rigs[on].visible() if message.by_bot)
        assert answer.text.startswith(LEGAL)
        assert not BAD.search(answer.text)
        assert not BAD.search(scene.daemon.log)
        await scene.check(also=lambda one: one.text.startswith(LEGAL))
