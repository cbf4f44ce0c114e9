"""An answer that takes its time is seen growing, in one message that becomes the answer; typing and
previews end with it."""

from __future__ import annotations

import itertools
import json
import shlex
import time
from typing import Any

import pytest

from tests.conformance.rig import Visible
from tests.faults.daemon import until
from tests.faults.scene import Scene
from tests.journeys_platforms.conftest import Stage


async def longer(scene: Scene, marker: str) -> Visible:
    """The draft, once it has been edited."""
    found: list[Visible] = []

    async def edited() -> bool:
        found[:] = [one for one in await scene.answers(marker) if one.edits]
        return bool(found)

    await until("a draft that has grown", edited)
    return found[0]


async def the_answer(scene: Scene, marker: str) -> Visible:
    """The one message that shows the whole answer."""
    await scene.answered(marker)
    await scene.quiet()
    (answer,) = await scene.answers(marker)
    return answer


# one message, edited


@pytest.mark.parametrize(
    "chat", ["dm:ada", pytest.param("group", marks=pytest.mark.person("group", on="slack"))]
)
@pytest.mark.person("say", "watch", on="slack")
async def test_on_slack_one_draft_is_edited_at_its_pace_and_becomes_the_answer(
    stage: Stage, chat: str
) -> None:
    async with stage("slack") as scene:
        await scene.daemon.start()
        began = time.monotonic()
        marker = await scene.says("#chunks{20} #pace{0.35} #hold{12}", on="slack", chat=chat)
        draft = await scene.drafted(marker)
        scene.model.go.set()
        answer = await the_answer(scene, marker)
        assert answer.id == draft.id
        methods = [method for method, _ in scene.rigs["slack"].server.calls]
        assert methods.count("chat.postMessage") == 1
        assert 2 <= methods.count("chat.update") <= (time.monotonic() - began) / 1.5 + 2
        await scene.check()


@pytest.mark.person("say", "watch", on="matrix")
async def test_on_matrix_one_draft_is_edited_at_its_pace_and_becomes_the_answer(
    stage: Stage,
) -> None:
    async with stage("matrix") as scene:
        await scene.daemon.start()
        began = time.monotonic()
        marker = await scene.says("#chunks{20} #pace{0.7} #hold{10}", on="matrix")
        draft = await scene.drafted(marker)
        scene.model.go.set()
        answer = await the_answer(scene, marker)
        assert answer.id == draft.id
        assert 2 <= answer.edits <= (time.monotonic() - began) / 5 + 2
        await scene.check()


@pytest.mark.parametrize("on", ["slack", "telegram"])
@pytest.mark.person("say", "watch")
async def test_an_answer_that_a_hook_sends_back_is_seen_growing_and_gives_way_to_the_next(
    stage: Stage, on: str
) -> None:
    once = (
        "import json, re, sys; event = json.load(sys.stdin);"
        "marker = re.search('m-[0-9]+-[0-9a-f]+', event['last_assistant_message'])[0];"
        "sys.exit() if event['stop_hook_active'] else print(marker, file=sys.stderr);"
        "sys.exit(2)"
    )
    once = shlex.join(["python3", "-c", once])
    hooks = {"Stop": [{"hooks": [{"type": "command", "command": once}]}]}
    async with stage(on, **({on: {"streaming": "edits"}} if on == "telegram" else {})) as scene:
        (scene.daemon.home / "hooks.yaml").write_text(json.dumps({"hooks": hooks}))
        await scene.daemon.start()
        marker = await scene.says("#chunks{12} #pace{0.35}", on=on)
        draft = await scene.drafted(marker)
        answer = await the_answer(scene, marker)
        assert answer.id == draft.id
        assert answer.text.count("word3") == 1
        assert len([one for one in scene.model.asked if marker in str(one.body)]) == 2
        await scene.check()


@pytest.mark.parametrize("on", ["slack", "discord", "matrix"])
@pytest.mark.fault(68)
@pytest.mark.person("stop", "watch")
async def test_a_draft_of_a_stopped_turn_says_so_and_no_second_message_appears(
    stage: Stage, on: str
) -> None:
    async with stage(on) as scene:
        await scene.daemon.start()
        marker = await scene.says("#chunks{100} #pace{0.3}", on=on, answered=False)
        await scene.drafted(marker)
        draft = await longer(scene, marker)
        await scene.rigs[on].says("/stop")
        await scene.stopped()
        left, reply = [message for message in await scene.rigs[on].visible() if message.by_bot]
        assert left.id == draft.id
        assert left.text.startswith(" ".join(draft.text.split()[:-1])), (
            "nothing that was read is taken away"
        )
        assert "stopped by Ada" in left.text
        assert reply.text == "Stopped."


# previews


@pytest.mark.person("say", "watch", on="telegram")
async def test_on_telegram_a_private_chat_previews_the_answer_and_shows_it_once(
    stage: Stage,
) -> None:
    async with stage("telegram") as scene:
        await scene.daemon.start()
        marker = await scene.says("#chunks{12} #pace{0.4} #hold{6}")
        chat = scene.rigs["telegram"].server.world.chat("dm:ada")

        async def previewed() -> bool:
            return bool(chat.drafts)

        await until("a preview", previewed)
        scene.model.go.set()
        answer = await the_answer(scene, marker)
        texts = [draft["text"] for draft in chat.drafts]
        assert len(texts) >= 2
        assert len({draft["draft_id"] for draft in chat.drafts}) == 1, (
            "one draft that grows, not several"
        )
        assert all(later.startswith(earlier[:20]) for earlier, later in itertools.pairwise(texts))
        assert chat.draft is None, "the answer takes the preview away"
        assert answer.edits == 0
        await scene.check()


@pytest.mark.person("group", on="telegram")
async def test_on_telegram_a_group_sees_typing_and_then_the_answer_only(stage: Stage) -> None:
    async with stage("telegram") as scene:
        await scene.daemon.start()
        marker = await scene.says("#chunks{12} #pace{0.4}", chat="group", topic="77")
        answer = await the_answer(scene, marker)
        chat = scene.rigs["telegram"].server.world.chat("group")
        assert chat.drafts == []
        assert chat.typing
        assert answer.edits == 0
        await scene.check()


async def test_on_telegram_edits_can_be_chosen_and_are_one_message_in_a_group(stage: Stage) -> None:
    async with stage("telegram", telegram={"streaming": "edits"}) as scene:
        await scene.daemon.start()
        began = time.monotonic()
        marker = await scene.says("#chunks{20} #pace{0.4} #hold{12}", chat="group", topic="77")
        draft = await scene.drafted(marker)
        scene.model.go.set()
        answer = await the_answer(scene, marker)
        assert answer.id == draft.id
        assert 1 <= answer.edits <= (time.monotonic() - began) / 3 + 2
        await scene.check()


# typing


async def types(scene: Scene, on: str) -> bool:
    """Whether the platform shows the bot typing in Ada's chat right now."""
    rig: Any = scene.rigs[on]
    match on:
        case "telegram":
            times = rig.server.world.chat("dm:ada").typing
            return bool(times) and rig.server.world.clock() - times[-1] < 5  # sendChatAction
        case "discord":
            place = rig.server.world.place("dm:ada")
            ours = [row for row in place.messages.values() if row["author"].get("bot")]
            # our message ends it (Trigger Typing Indicator)
            told = bool(ours) and place.last == ours[-1]["id"]
            return (
                bool(place.typing) and not told and rig.server.world.clock() - place.typing[-1] < 10
            )
        case "slack":
            states = [
                args["status"]
                for method, args in rig.server.calls
                if method == "assistant.threads.setStatus"
            ]
            return bool(states) and states[-1] != ""
        case "feishu":
            return bool(rig.world.reactions)
        case _:
            return bool(rig.proxy.typing) and rig.proxy.typing[-1]


@pytest.mark.parametrize("on", ["telegram", "slack", "discord", "matrix", "feishu"])
@pytest.mark.parametrize("end", ["answer", "stop"])
@pytest.mark.fault(37)
async def test_typing_begins_with_a_turn_and_ends_with_it(stage: Stage, on: str, end: str) -> None:
    async with stage(
        on,
        telegram={"streaming": "off"},
        slack={"streaming": "off"},
        discord={"streaming": "off"},
        matrix={"streaming": "off"},
    ) as scene:
        await scene.daemon.start()
        root = (
            scene.rigs["slack"].server.workspace.says("D0ADA", "U0ADA", "a root")["ts"]
            if on == "slack"
            else None
        )  # threads only
        if root is not None:
            await until("the root is answered", lambda: _count(scene, "slack", 1))
        marker = await scene.says("#hold{0}", on=on, topic=root, answered=end == "answer")
        await until(f"typing on {on}", lambda: types(scene, on))
        if end == "stop":
            await scene.rigs[on].says("/stop", topic=root)
            await scene.stopped()
        else:
            scene.model.go.set()
            await scene.answered(marker)

        async def quiet() -> bool:
            return not await types(scene, on)

        await until(f"no typing on {on}", quiet)


async def test_typing_of_a_life_that_was_killed_ends_with_the_answers_of_the_next(
    stage: Stage,
) -> None:
    """Where the platform does not end it by itself. The next life answers too fast to type, so
    nobody else takes it back."""
    stays = ("slack", "matrix", "feishu")
    async with stage(*stays, **{on: {"streaming": "off"} for on in stays}) as scene:
        await scene.daemon.start()
        root = scene.rigs["slack"].server.workspace.says("D0ADA", "U0ADA", "a root")["ts"]
        for on in stays:
            await scene.says("#wait{600}", on=on, topic=root if on == "slack" else None)
        for on in stays:
            await until(f"typing on {on}", lambda on=on: types(scene, on))
        await scene.daemon.kill()
        scene.model.patient = False  # pyright: ignore[reportAttributeAccessIssue]
        await scene.daemon.start()
        await scene.answered()
        answered = time.monotonic()

        async def quiet() -> bool:
            return not any([await types(scene, on) for on in stays])

        await until("nobody types", quiet)
        assert time.monotonic() - answered < 20, (
            "the platforms end it by themselves only after 30 s and more"
        )
        await scene.check(also=lambda one: "no marker" in one.text)


async def _count(scene: Scene, on: str, least: int) -> bool:
    return sum(message.by_bot for message in await scene.rigs[on].visible()) >= least


@pytest.mark.parametrize("on", ["telegram", "slack", "discord", "feishu", "matrix", "web"])
async def test_what_a_model_thinks_aloud_is_a_quote(stage: Stage, on: str) -> None:
    async with stage(on) as scene:
        await scene.daemon.start()
        marker = await scene.says("#think{the kettle first} #chunks{12} #pace{0.2}", on=on)
        draft = await scene.drafted(marker) if on in ("discord", "matrix") else None
        await scene.answered(marker)
        (answer,) = await scene.answers(marker)
        assert "the kettle first" in answer.text
        assert "think>" not in answer.text
        assert draft is None or "think>" not in draft.text
        await scene.quiet()


async def cards(scene: Scene, marker: str) -> list[Visible]:
    return await scene.answers(marker)


@pytest.mark.person("group", "watch", on="feishu")
async def test_a_group_mention_is_answered_once_by_a_card_that_streams(stage: Stage) -> None:
    async with stage("feishu") as scene:
        await scene.daemon.start()
        rig = scene.rigs["feishu"]
        await rig.says("just talking among us", chat="group", person="bob", mention=False)
        marker = await scene.says("#chunks{14} #pace{0.3} #hold{10}", on="feishu", chat="group")
        await scene.drafted(marker)
        scene.model.go.set()
        await scene.answered(marker)
        await scene.quiet()
        (answer,) = await cards(scene, marker)
        assert len(rig.world.writes) >= 2
        row = rig.world.find(answer.id)
        assert not rig.world.entities[row["card_id"]]["streaming"]
        assert [text for message, text in rig.world.writes if message != answer.id] == []
        calls = [(verb, path) for verb, path, _ in rig.server.kept.calls]
        assert (
            sum(
                verb == "POST" and path.endswith(("im/v1/messages", "/reply"))
                for verb, path in calls
            )
            == 1
        )
        assert rig.world.reactions == {}, "typing is over"
        await scene.check()


@pytest.mark.person("group", on="feishu")
async def test_in_a_thread_of_a_group_the_answer_stays_in_the_thread(stage: Stage) -> None:
    async with stage("feishu", feishu={"streaming": "edits"}) as scene:
        await scene.daemon.start()
        root = await scene.rigs["feishu"].says("a topic", chat="group", person="bob", mention=False)
        marker = await scene.says("#chunks{8} #pace{0.3}", on="feishu", chat="group", topic=root)
        await scene.answered(marker)
        await scene.quiet()
        (answer,) = await cards(scene, marker)
        assert answer.topic == root
        assert scene.rigs["feishu"].world.writes == []
        await scene.check()
