"""What is put into the home or lies in a project is asked for where its owner reads: one card for one
content, answered by a button or in words, by who may, also after a restart; and nothing of it takes
part before."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.conformance.rig import Visible
from tests.faults.daemon import until
from tests.faults.scene import Scene
from tests.journeys_platforms.conftest import Stage
from tests.journeys_platforms.test_people_files_and_questions import shown
from tests.journeys_platforms.test_questions_of_jobs import (
    replies,
    runs,
    says,
    with_job,
    with_owner,
)

BUTTONS = ("telegram", "slack")


def plugin(home: Path, words: str = "Weigh it.", name: str = "shop") -> None:
    folder = home / "plugins" / name
    files = {
        "plugin.yaml": f"name: {name}\nversion: 1.0.0\ndescription: Runs it.\n",
        "skills/tea/SKILL.md": f"---\nname: tea\ndescription: How tea is sold.\n---\n{words}\n",
        "hooks/hooks.json": json.dumps(
            {
                "hooks": {
                    "PreToolUse": [{"hooks": [{"type": "command", "command": "./guard_the_till"}]}]
                }
            }
        ),
    }
    for at, text in files.items():
        path = folder / at
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


async def rows(scene: Scene) -> list[dict[str, Any]]:
    return list((await scene.daemon.call("GET", "/api/v1/trust"))[1]["trusts"])


async def trusted(scene: Scene, name: str) -> list[str]:
    """The contents of that name that hold."""
    return [one["digest"] for one in await rows(scene) if one["name"] == name
            and one["revoked_at"] is None]  # fmt: skip


async def state(scene: Scene, name: str) -> str:
    found = (await scene.daemon.call("GET", "/api/v1/plugins"))[1]["plugins"]
    return str(next(one["state"] for one in found if one["name"] == name))


async def card(scene: Scene, on: str, about: str, chat: str = "dm:ada") -> Visible:
    """The newest about it that nobody answered."""

    def is_open(one: Visible) -> bool:
        return "Trust" in one.text and about in one.text and "/trust allow" in one.text

    return await shown(scene, on, chat, is_open, f"a card about {about}")


async def settled(scene: Scene, on: str, note: str, chat: str = "dm:ada") -> Visible:
    def is_settled(one: Visible) -> bool:
        return note in one.text and not one.choices and "/trust allow" not in one.text

    return await shown(scene, on, chat, is_settled, f"a card with the note {note}")


async def count(scene: Scene, on: str, chat: str = "dm:ada") -> int:
    """Cards, whatever became of them."""
    return sum("off until you say so" in one.text for one in await scene.rigs[on].visible(chat))


@pytest.mark.parametrize("on", [*BUTTONS, "discord", "feishu"])
@pytest.mark.person("allow", "restart")
async def test_a_plugin_is_trusted_by_the_button_of_its_card_also_after_a_restart(
    stage: Stage, on: str
) -> None:
    async with stage(on) as scene:
        await with_owner(scene, on)
        plugin(scene.daemon.home)
        asked = await card(scene, on, "shop")
        assert "guard_the_till" in asked.text
        assert "network" in asked.text
        assert str(scene.daemon.home / "plugins" / "shop") in asked.text
        assert await state(scene, "shop") == "untrusted"
        await scene.daemon.kill()
        await scene.daemon.start()
        await scene.rigs[on].presses(asked.id, asked.choices[0])
        await settled(scene, on, "Trusted by")
        assert await state(scene, "shop") == "trusted"
        (row,) = await rows(scene)
        assert row["digest"][:12] in asked.text
        assert row["person"].startswith(f"{on}:")
        assert await count(scene, on) == 1


@pytest.mark.parametrize("on", BUTTONS)
async def test_a_card_whose_bytes_changed_trusts_nothing_and_a_new_one_asks(
    stage: Stage, on: str
) -> None:
    async with stage(on) as scene:
        await with_owner(scene, on)
        plugin(scene.daemon.home)
        first = await card(scene, on, "shop")
        await scene.daemon.kill()
        plugin(scene.daemon.home, "Weigh it!")
        await scene.rigs[on].presses(first.id, first.choices[0])  # on its way while nobody is there
        await scene.daemon.start()
        await settled(scene, on, "this trusts nothing")
        second = await card(scene, on, "shop")
        assert second.id != first.id
        assert await trusted(scene, "shop") == []
        await scene.rigs[on].presses(second.id, second.choices[0])
        await settled(scene, on, "Trusted by")
        (digest,) = await trusted(scene, "shop")
        assert digest[:12] in second.text
        assert digest[:12] not in first.text
        plugin(scene.daemon.home, "Weigh it?")  # and what was trusted asks again as it changes
        third = await card(scene, on, "It changed since it was trusted")
        assert await state(scene, "shop") == "changed"
        await scene.rigs[on].presses(third.id, third.choices[1])
        await settled(scene, on, "Left off by")
        assert await state(scene, "shop") == "changed"


@pytest.mark.parametrize("on", BUTTONS)
async def test_a_card_about_what_keeps_changing_says_so_where_it_stands(
    stage: Stage, on: str
) -> None:
    async with stage(on) as scene:
        await with_owner(scene, on)
        plugin(scene.daemon.home)
        first = await card(scene, on, "shop")
        plugin(scene.daemon.home, "Weigh it!")
        edited = await card(scene, on, "It was another meanwhile")
        assert edited.id == first.id
        assert await count(scene, on) == 1
        await scene.rigs[on].presses(edited.id, edited.choices[0])
        gone = await settled(scene, on, "this trusts nothing")
        assert "It was another meanwhile" not in gone.text
        second = await card(scene, on, "shop")
        assert await trusted(scene, "shop") == []
        await scene.rigs[on].presses(second.id, second.choices[0])
        await settled(scene, on, "Trusted by")
        (digest,) = await trusted(scene, "shop")
        assert digest[:12] in second.text


@pytest.mark.parametrize("on", BUTTONS)
async def test_nobody_but_owner_and_admin_answers_a_card(stage: Stage, on: str) -> None:
    async with stage(on) as scene:
        await with_owner(scene, on, "group")
        plugin(scene.daemon.home)
        asked = await card(scene, on, "shop", "group")
        for choice in asked.choices:
            await scene.rigs[on].presses(asked.id, choice, chat="group", person="bob")
        await says(scene, on, "/trust allow", person="bob", chat="group")
        await shown(
            scene, on, "group", lambda one: "/trust is not for a user" in one.text.replace("`", ""),
            "the reply to bob",
        )  # fmt: skip
        await until("everything bob did was handled", scene.daemon.idle)
        assert await rows(scene) == []
        assert (await card(scene, on, "shop", "group")).choices == asked.choices
        await scene.rigs[on].presses(asked.id, asked.choices[1], chat="group")
        await settled(scene, on, "Left off by", "group")
        (row,) = await rows(scene)
        assert row["revoked_at"] == row["at"]


@pytest.mark.parametrize("on", ["matrix", "telegram"])
@pytest.mark.person("words")
async def test_cards_are_answered_in_words(stage: Stage, on: str) -> None:
    async with stage(on) as scene:
        await with_owner(scene, on)
        plugin(scene.daemon.home)
        await card(scene, on, "shop")
        await says(scene, on, "/trust allow")
        await settled(scene, on, "Trusted by")
        assert await state(scene, "shop") == "trusted"
        plugin(scene.daemon.home, name="mill")
        plugin(scene.daemon.home, name="inn")
        await card(scene, on, "mill")
        inn = await card(scene, on, "plugin inn")
        await says(scene, on, "/trust leave")
        await shown(scene, on, "dm:ada", lambda one: "Several things wait" in one.text, "which")
        await until("the daemon knows what the platform calls the card", scene.daemon.sent)
        await replies(scene, on, inn.id, "/trust leave")
        await settled(scene, on, "Left off by")
        assert await state(scene, "inn") == "untrusted"
        await says(scene, on, "/trust")
        told = await shown(
            scene, on, "dm:ada", lambda one: "mill waits" in one.text.replace("`", ""), "the list"
        )
        assert "shop is trusted" in told.text.replace("`", "")
        await says(scene, on, "/trust allow mill")
        await until("mill is trusted", lambda: _is(scene, "mill"))
        await says(scene, on, "/trust revoke plugin shop")
        await shown(scene, on, "dm:ada", lambda one: "Revoked" in one.text, "that it is revoked")
        assert await state(scene, "shop") == "untrusted"
        await says(scene, on, "/trust allow shop")  # nobody was shown it: it is shown first
        told = await shown(scene, on, "dm:ada", lambda one: "Look at" in one.text, "what it is")
        assert await trusted(scene, "shop") == []
        digest = next(one["digest"] for one in await rows(scene) if one["name"] == "shop")[:12]
        assert f"/trust allow plugin shop {digest}" in told.text
        await says(scene, on, f"/trust allow plugin shop {digest}")
        await until("shop is trusted", lambda: _is(scene, "shop"))


async def test_what_was_shown_in_one_chat_is_shown_again_in_another(stage: Stage) -> None:
    async with stage("telegram") as scene:
        await with_owner(scene, "telegram")
        plugin(scene.daemon.home)
        await card(scene, "telegram", "shop")
        await until("the daemon knows what the platform calls the card", scene.daemon.sent)
        await says(scene, "telegram", "/trust allow shop", chat="group")
        await shown(scene, "telegram", "group", lambda one: "Look at" in one.text, "what it is")
        assert await trusted(scene, "shop") == []
        await says(scene, "telegram", "/trust revoke mcp mill", chat="group")
        await shown(
            scene, "telegram", "group", lambda one: "take the server out of" in one.text, "how"
        )


async def test_a_command_of_a_plugin_nobody_trusts_is_refused_wherever_it_stands(
    stage: Stage,
) -> None:
    line = "No trusted plugin has /plugin:shop:order"
    async with stage("telegram") as scene:
        await with_job(scene, "telegram", "/plugin:shop:order ten bags")
        for before in ("", "/plan ", "/steer "):
            seen = len(await scene.rigs["telegram"].visible())
            await says(scene, "telegram", f"{before}/plugin:shop:order ten bags")

            async def refused(seen: int = seen) -> bool:
                later = (await scene.rigs["telegram"].visible())[seen:]
                return any(one.by_bot and line in one.text for one in later)

            await until(f"{before}is refused", refused)
        await runs(scene)

        async def failed() -> bool:
            found = (await scene.daemon.call("GET", "/api/v1/cron/sweep/history"))[1]
            return line in json.dumps(found)

        await until("the job fails with the same line", failed)
        assert scene.model.count == 0


async def _is(scene: Scene, name: str) -> bool:
    return await trusted(scene, name) != []


async def test_a_project_is_asked_for_in_the_chat_that_works_in_it(
    stage: Stage, work: Path
) -> None:
    async with stage("telegram") as scene:
        await with_owner(scene, "telegram", "group")
        (work / ".ohmo").mkdir()
        (work / ".ohmo" / "settings.yaml").write_text("sandbox: {network: off}\n")
        (work / ".claude" / "skills" / "tea").mkdir(parents=True)
        (work / ".claude" / "skills" / "tea" / "SKILL.md").write_text(
            "---\nname: tea\ndescription: How tea is sold.\n---\nWeigh it.\n"
        )
        (work / "run.sh").write_text("echo hello\n")
        server = {"command": "sh", "args": ["run.sh"]}
        (work / ".mcp.json").write_text(json.dumps({"mcpServers": {"mill": server}}))
        await scene.answered(await scene.says(on="telegram"))
        settings = await card(scene, "telegram", "commands have no network")
        skills = await card(scene, "telegram", "tea")
        servers = await card(scene, "telegram", "sh run.sh")
        assert "run.sh" in servers.text
        await scene.answered(await scene.says(on="telegram"))
        assert await count(scene, "telegram") == 3, "each is asked once"
        for one in (settings, skills):
            await scene.rigs["telegram"].presses(one.id, one.choices[0])
        await until("both are trusted", lambda: _both(scene))
        (work / "run.sh").write_text("echo goodbye\n")  # what its server runs is part of it
        await scene.rigs["telegram"].presses(servers.id, servers.choices[0])
        await settled(scene, "telegram", "this trusts nothing")
        again = await card(scene, "telegram", "sh run.sh")
        assert again.id != servers.id
        assert {one["kind"] for one in await rows(scene)} == {"project"}


async def _both(scene: Scene) -> bool:
    return len([one for one in await rows(scene) if one["revoked_at"] is None]) == 2
