"""Once, for this session, always: on the page's own routes, at the keyboard and on Telegram, for
Write and Bash, on both wires, with and without a kill between question and answer. What is looked
at is the file, what the model heard, and whether the next like call asks."""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests import programs
from tests.conformance.rig import Visible
from tests.faults.conftest import Stage
from tests.faults.daemon import until
from tests.faults.scene import Scene

SCOPES = ("once", "session", "always")  # in the order of the card's buttons
SURFACES = ("telegram", "web", "terminal")
LETTERS = {"once": "y", "session": "s", "always": "a"}


@dataclass(slots=True)
class Cell:
    """One combination. ``chat``: on its surface; of the terminal the thread, once it has one."""

    scope: str
    surface: str
    tool: str
    restart: bool
    file: Path
    chat: str
    markers: list[str] = field(default_factory=list)

    def order(self, turn: int) -> str:
        return (
            f"#write{{{self.file} {turn}}}"
            if self.tool == "Write"
            else f"#run{{touch {self.file}}}"
        )

    def done(self, turn: int) -> bool:
        return self.file.exists() and (self.tool == "Bash" or self.file.read_text() == str(turn))

    @property
    def name(self) -> str:
        return (
            f"{self.scope} on {self.surface} for {self.tool}{', restarted' if self.restart else ''}"
        )


def cells(work: Path, surfaces: Iterable[str]) -> list[Cell]:
    combined = itertools.product(SCOPES, surfaces, ("Write", "Bash"), (False, True))
    return [
        Cell(scope, surface, tool, restart, work / f"{number}.txt", f"dm:{5_000 + number}")
        for number, (scope, surface, tool, restart) in enumerate(combined)
    ]


async def says(scene: Scene, cell: Cell, turn: int) -> None:
    if cell.surface != "terminal":
        cell.markers.append(await scene.says(cell.order(turn), on=cell.surface, chat=cell.chat))
        return
    cell.markers.append(
        marker := f"m-{len(cell.markers)}-{abs(hash((cell.name, turn))) % 16**8:08x}"
    )
    body = {"text": f"{marker} {cell.order(turn)}", "thread": cell.chat if turn > 1 else None}
    status, accepted = await scene.daemon.call("POST", "/api/v1/messages", body)
    assert status == 202, accepted
    cell.chat = accepted["thread"]


async def card(scene: Scene, cell: Cell) -> Visible | None:
    shown = await scene.rigs[cell.surface].visible(cell.chat)
    return next((one for one in shown if one.choices), None)


async def open_ids(scene: Scene) -> dict[str, str]:
    """The open question of each thread."""
    _, found = await scene.daemon.call("GET", "/api/v1/approvals?limit=1000")
    return {approval["thread"]: approval["ask"]["id"] for approval in found["approvals"]}


async def asks(scene: Scene, cell: Cell) -> bool:
    if cell.surface == "terminal":
        return cell.chat in await open_ids(scene)
    return await card(scene, cell) is not None


async def answers(scene: Scene, cell: Cell) -> None:
    """By the button, or by the command of the keyboard."""
    if cell.surface != "terminal":
        asked = await card(scene, cell)
        assert asked is not None
        await scene.rigs[cell.surface].presses(
            asked.id, asked.choices[SCOPES.index(cell.scope)], chat=cell.chat
        )
        return
    words = ("approvals", "approve", (await open_ids(scene))[cell.chat], "--scope", cell.scope)
    code, said = await ohmo(scene, "", *words)
    assert code == 0, said


async def ohmo(scene: Scene, lines: str, *words: str) -> tuple[int, str]:
    """The command itself, fed ``lines``."""
    home = scene.daemon.home
    done = await asyncio.to_thread(programs.ohmo, home, *words, stdin=lines)
    return done.returncode, done.stdout + done.stderr


async def each(scene: Scene, what: str, some: Iterable[Cell], holds: Any) -> None:
    """Waits until ``holds`` of every cell; names those of which it does not."""
    missing = list(some)

    async def all_hold() -> bool:
        missing[:] = [cell for cell in missing if not await holds(cell)]
        return not missing

    try:
        await until(what, all_hold, 60, every=0.3)
    except AssertionError:
        told = {cell.name: scene.told(cell.markers[-1]) for cell in missing}
        raise AssertionError(f"{what}: not {told}; {scene.daemon.said[-800:]}") from None


@pytest.mark.parametrize("wire", ["anthropic", "openai"])
async def test_every_answer_runs_the_call_wherever_it_was_given(
    stage: Stage, work: Path, wire: str
) -> None:
    async with stage("telegram", "web", wire=wire) as scene:
        table = cells(work, SURFACES)
        late = [cell for cell in table if cell.restart]

        async def asked(cell: Cell) -> bool:
            return await asks(scene, cell)

        async def ran(cell: Cell) -> bool:
            return cell.done(1) and bool(scene.told(cell.markers[0]))

        await scene.daemon.start()
        for cell in table:
            await says(scene, cell, 1)
        await each(scene, "every call is asked about", table, asked)
        for cell in table:
            if not cell.restart:
                await answers(scene, cell)
        await each(
            scene, "what was allowed is done", [cell for cell in table if not cell.restart], ran
        )
        await scene.daemon.kill()
        await scene.daemon.start()
        for cell in late:
            await answers(scene, cell)
        await each(scene, "what was allowed after a restart is done", late, ran)
        # A turn that the kill cut off before its last words asks the model again, with the same.
        heard = {cell.name: [*dict.fromkeys(scene.told(cell.markers[0]))] for cell in table}
        assert {
            name: texts
            for name, texts in heard.items()
            if len(texts) != 1 or "restart" in texts[0] or "Not allowed" in texts[0]
        } == {}

        for cell in table:
            # a file that this life has not seen is read before it is written over
            if cell.tool == "Bash" or not cell.restart:
                cell.file.unlink()
            await says(scene, cell, 2)

        async def as_wanted(cell: Cell) -> bool:
            return await asked(cell) if cell.scope == "once" else cell.done(2)

        await each(scene, "the next like call runs, or asks again", table, as_wanted)
        for cell in table:
            assert cell.done(2) == (cell.scope != "once"), cell.name
            assert await asked(cell) == (cell.scope == "once"), cell.name


@pytest.mark.parametrize("wire", ["anthropic", "openai"])
@pytest.mark.person("always", on="terminal")
async def test_an_answer_typed_into_a_conversation_at_the_keyboard_runs_the_call(
    stage: Stage, work: Path, wire: str
) -> None:
    async with stage(wire=wire) as scene:
        await scene.daemon.start()
        table = [cell for cell in cells(work, ["terminal"]) if not cell.restart]
        lines: list[str] = []
        for number, cell in enumerate(table):
            marker = f"m-{number}-{number:08x}"
            lines += [f"{marker} {cell.order(1)}", LETTERS[cell.scope], f"{marker} {cell.order(2)}"]
            lines += ["n"] if cell.scope == "once" else []
            cell.markers.append(marker)
        code, said = await ohmo(scene, "\n".join([*lines, ""]), "chat")
        assert code == 0, said
        # no prompt goes into a pipe
        assert [said.count("Allow it?"), said.count("nobody is there")] == [0, 0]
        for cell in table:
            assert cell.done(1 if cell.scope == "once" else 2), (cell.name, said)
            heard = scene.told(cell.markers[0])
            refused = ["Not allowed" in text for text in heard]
            assert refused == ([False, True] if cell.scope == "once" else [False, False]), (
                cell.name,
                heard,
            )
            assert not any("restart" in text for text in heard), (cell.name, heard)


async def test_a_prompt_that_may_do_it_runs_the_call(stage: Stage, work: Path) -> None:
    async with stage() as scene:
        await scene.daemon.start()
        file = work / "prompted.txt"
        text = f"m-1-00000001 #write{{{file} 1}}"
        code, said = await ohmo(scene, "", "-p", text, "--allow", f"Write({file})")
        assert (code, file.read_text()) == (0, "1"), said
        assert "restart" not in "".join(scene.told("m-1-00000001"))


async def test_a_no_holds_although_a_grant_given_meanwhile_covers_the_call(
    stage: Stage, work: Path
) -> None:
    async with stage("telegram") as scene:
        await scene.daemon.start()
        file = work / "both.txt"
        first = await scene.says(f"#write{{{file} 1}}", chat="dm:5001")
        second = await scene.says(f"#write{{{file} 2}}", chat="dm:5002")
        for chat in ("dm:5001", "dm:5002"):
            await scene.asked("telegram", chat)
        one = await scene.asked("telegram", "dm:5001")
        await scene.rigs["telegram"].presses(one.id, one.choices[2], chat="dm:5001")
        await scene.answered(first)
        two = await scene.asked("telegram", "dm:5002")
        await scene.rigs["telegram"].presses(two.id, two.choices[-1], chat="dm:5002")
        await scene.answered(second)
        assert file.read_text() == "1"
        assert ["the person said no" in text for text in scene.told(second)] == [True]


async def test_what_a_link_led_elsewhere_meanwhile_is_told_as_that(
    stage: Stage, work: Path
) -> None:
    async with stage("telegram") as scene:
        await scene.daemon.start()
        for name in ("one", "two"):
            (work / name).write_text(name)
        link = work / "link"
        link.symlink_to("one")
        for scope in range(3):
            marker = await scene.says(f"#write{{{link} new}}")
            asked = await scene.asked("telegram")
            here = link.readlink()
            link.unlink()
            link.symlink_to("two" if str(here) == "one" else "one")
            await scene.rigs["telegram"].presses(asked.id, asked.choices[scope])
            await scene.answered(marker)
            [heard] = scene.told(marker)
            assert "changed while the person was asked" in heard
            assert "restart" not in heard
            assert [(work / name).read_text() for name in ("one", "two")] == ["one", "two"]


async def writes(scene: Scene, path: Path, text: str = "new") -> tuple[str, Visible | None]:
    """What is asked about it on Telegram, None: it was answered without."""
    marker = await scene.says(f"#write{{{path} {text}}}")

    async def either() -> bool:
        asked = any(message.choices for message in await scene.rigs["telegram"].visible())
        return asked or any(" end" in one.text for one in await scene.answers(marker))

    await until(f"a question about {path}, or an answer", either)
    shown = await scene.rigs["telegram"].visible()
    return marker, next((one for one in shown if one.choices), None)


async def test_all_edits_of_the_workspace_are_one_choice_and_protected_places_still_ask(
    stage: Stage, work: Path
) -> None:
    async with stage("telegram") as scene:
        await scene.daemon.start()
        first, asked = await writes(scene, work / "one.txt")
        assert asked is not None
        assert f"For this session and always allow: changes to {work}/one.txt" in asked.text
        assert f"Edit({work}/**)" in asked.text
        await scene.rigs["telegram"].presses(asked.id, asked.choices[3])
        await scene.answered(first)
        second, none = await writes(scene, work / "below" / "two.txt")
        assert (none, (work / "below" / "two.txt").read_text()) == (None, "new"), scene.told(second)
        third, again = await writes(scene, work / "AGENTS.md")
        assert again is not None
        assert len(again.choices) == 2  # once and deny
        assert not (work / "AGENTS.md").exists()
        await scene.rigs["telegram"].presses(again.id, again.choices[1])
        await scene.answered(third)
        _, outside = await writes(scene, work.parent / "elsewhere.txt")
        assert outside is not None
        assert len(outside.choices) == 4
        assert "in this workspace" not in outside.text


async def test_what_was_allowed_is_listed_and_revoked_at_the_keyboard_and_in_the_chat(
    stage: Stage, work: Path
) -> None:
    async with stage("telegram") as scene:
        await scene.daemon.start()
        rig = scene.rigs["telegram"]
        for revoked_by in ("keyboard", "chat"):
            file = work / f"{revoked_by}.txt"
            marker, asked = await writes(scene, file)
            assert asked is not None
            await rig.presses(asked.id, asked.choices[2])
            await scene.answered(marker)
            code, listed = await ohmo(scene, "", "permissions", "list", "--json")
            assert code == 0, listed
            [one] = json.loads(listed)
            assert (one["rule"], one["means"], one["until"]) == (
                f"Edit({file})",
                f"changes to {file}",
                "always",
            )
            await rig.says("/permissions")

            async def told(text: str) -> bool:
                return any(text in message.text for message in await rig.visible())

            await until("the chat lists it", lambda: told(f"/permissions revoke {one['id']}"))  # noqa: B023 - waited for at once
            if revoked_by == "keyboard":
                assert await ohmo(scene, "", "permissions", "revoke", one["id"]) == (
                    0,
                    f"{one['id']}: revoked\n",
                )
                code, said = await ohmo(scene, "", "permissions", "revoke", one["id"])
                assert code != 0
                assert "no such permission" in said
            else:
                await rig.says(f"/permissions revoke {one['id']}")
                await until("it is revoked", lambda: told("Revoked: it asks again."))
            marker, again = await writes(scene, file, "newer")
            assert again is not None
            assert file.read_text() == "new"
            await rig.presses(again.id, again.choices[-1])
            await scene.answered(marker)


async def test_why_a_command_is_refused_is_told_in_the_words_people_write(
    stage: Stage, work: Path
) -> None:
    async with stage("telegram", permissions={"mode": "full_auto"}) as scene:
        await scene.daemon.start()
        for command, words in (
            (f"touch {work}/x; cat $PLACE/.ssh/id_rsa", "…/.ssh/id_rsa"),
            ("touch x; cat ~/.ss*/id_*", ".ss*/id_*"),
        ):
            marker = await scene.says(f"#run{{{command}}}")
            told: list[str] = []

            async def said(marker: str = marker, told: list[str] = told) -> bool:
                cards = [
                    message.text
                    for message in await scene.rigs["telegram"].visible()
                    if message.choices
                ]
                told[:] = [*cards, *scene.told(marker)]
                return bool(told)

            await until(f"{command} is refused or asked about", said)
            assert words in told[0].replace("\\", ""), told
            assert not any(
                sign in told[0] for sign in ("\ue000", "\ue001", r"\ue000", r"\ue001")
            ), told
            if (
                asked := next(
                    (one for one in await scene.rigs["telegram"].visible() if one.choices), None
                )
            ) is not None:
                await scene.rigs["telegram"].presses(asked.id, asked.choices[-1])
            await scene.answered(marker)
