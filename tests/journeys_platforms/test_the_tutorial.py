"""docs/tutorial.md to the letter: each command that it shows is typed at a terminal, beside the
real daemon, and prints what the page says."""

from __future__ import annotations

import asyncio
import os
import re
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from channels.record import record
from tests.children import die_with_parent
from tests.conformance.rig import Visible
from tests.platforms.door import held_port
from tests.platforms.model.script import Asked, Call, Turn
from tests.platforms.model.server import ModelServer, serving
from tests.platforms.telegram.rig import TelegramRig, rig
from tests.programs import OHMO
from tests.terminal import terminal

PAGE = Path(__file__).parents[2] / "docs" / "tutorial.md"
LIST = "milk\nbread\napples\n"
# The file is looked at below; tests/journeys/test_journey_service.py follows a service.
OTHERS = ("cat ", "ohmo service ")
HELLO = (
    "Hello! I am ohmo. I can read, search and change files in your workspace, "
    "run commands and work by the clock; before I change anything I ask."
)
SECONDS = 60.0
READY = b"ohmo is ready. Open this link once: http://127.0.0.1:"


@record
class Shown:
    command: str
    printed: tuple[str, ...]


def shown() -> Iterator[Shown]:
    """Every command behind a prompt, with the lines below it."""
    text = PAGE.read_text(encoding="utf-8")
    for block in re.findall(r"^```console\n(.*?)^```", text, re.MULTILINE | re.DOTALL):
        for command in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            first, *printed = command.splitlines()
            yield Shown(first, tuple(line.rstrip() for line in printed if line not in ("", "…")))


def plain(line: str, home: Path) -> str:
    """Without what differs from day to day and from machine to machine."""
    line = line.replace(str(home), "/home/ada")
    line = re.sub(r"next run .*", "next run", line)
    return re.sub(r"\d+", "#", line).rstrip()


def missing(expected: Sequence[str], printed: str, home: Path) -> list[str]:
    """Lines of the page that were not printed, in this order."""
    lines = iter([plain(line, home) for line in printed.replace("\r\n", "\n").split("\n")])
    return [line for line in expected if plain(line, home) not in lines]


def model(asked: Asked) -> Turn:
    last = asked.body["messages"][-1]
    if last["role"] == "tool":
        return Turn(text="Done.")
    if "shopping list:" in asked.said:
        return Turn(calls=(Call("Write", {"file_path": "shopping.txt", "content": LIST}),))
    return Turn(text=HELLO)


def typed(command: str, answers: Mapping[str, str], environ: Mapping[str, str]) -> str:
    """What it shows at a terminal; ``answers``: what a person types at each question, in order."""
    words = ["/bin/sh", "-c", f'ohmo() {{ "{sys.executable}" -m ohmo "$@"; }}; {command}']
    with terminal(words, environ, PAGE.parents[1]) as screen:
        for question, answer in answers.items():
            screen.until(question)
            screen.types(f"{answer}\n")
        screen.ended()
        return screen.shown.decode()


async def heard(telegram: TelegramRig, words: str) -> Visible:
    end = time.monotonic() + SECONDS
    while True:
        found = await telegram.visible()
        for one in found:
            if one.by_bot and words in one.text:
                return one
        assert time.monotonic() < end, f"nobody said {words!r}: {found}"
        await asyncio.sleep(0.05)


async def test_the_tutorial_is_followed_to_the_letter(tmp_path: Path) -> None:
    held = held_port()
    ours = ("OHMO", "ANTHROPIC_", "OPENAI_")
    environ = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
    environ |= {"HOME": str(tmp_path), "NO_COLOR": "1", "COLUMNS": "400"}
    environ["OHMO__CONTROL__LISTEN"] = f"127.0.0.1:{held.getsockname()[1]}"
    offered = ModelServer(default=model, models=["qwen3:8b", "llama3.2:3b"])
    async with serving(offered) as server, rig() as telegram:
        at_start = {
            "offline) [auto]: ": "openai",
            "own): ": server.url,
            "empty: later): ": "",
            "[llama3.2:3b]: ": "2",
            "only the browser): ": "",
            "always on? [y/N]: ": "n",
        }
        questions = {"ohmo init": at_start, "--recipe": {"Allow this? [y/N]: ": "y"}}
        daemon = await asyncio.create_subprocess_exec(
            *OHMO,
            "run",
            env=environ,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            preexec_fn=die_with_parent,
        )
        try:
            assert daemon.stdout is not None
            async with asyncio.timeout(SECONDS):
                while not (await daemon.stdout.readline()).startswith(READY):
                    assert daemon.returncode is None
            await followed(tmp_path, environ, questions, telegram)
        finally:
            daemon.terminate()
            await daemon.communicate()
            held.close()


async def followed(
    home: Path,
    environ: Mapping[str, str],
    questions: Mapping[str, Mapping[str, str]],
    telegram: TelegramRig,
) -> None:
    for step in shown():
        if step.command.startswith(OTHERS):
            continue
        command = step.command.replace(
            "7000001:AA…", f"{telegram.server.token} --set telegram.api_url={telegram.server.url}"
        )
        if command.startswith("ohmo pairing"):
            await telegram.says("/start")
            asked = await heard(telegram, "I do not know you yet")
            code = re.findall(r"\b[A-Z0-9]{8}\b", asked.text)[0]
            command = f"ohmo pairing approve {code}"
        if command.startswith("ohmo cron add --recipe"):
            await allowed_in_telegram(home, telegram)
        answers = questions.get(command, {}) if "--recipe" not in command else questions["--recipe"]

        end = time.monotonic() + SECONDS
        printed = await asyncio.to_thread(typed, command, answers, environ)
        while (
            command == "ohmo status"
            and missing(step.printed, printed, home)
            and time.monotonic() < end
        ):
            # a changed file is noticed within seconds
            printed = await asyncio.to_thread(typed, command, answers, environ)
        assert missing(step.printed, printed, home) == [], f"{command}:\n{printed}"


async def allowed_in_telegram(home: Path, telegram: TelegramRig) -> None:
    """The person is welcomed, is asked by a card, and the file is there with what the page
    shows."""
    await heard(telegram, "Welcome!")
    await telegram.says("Write a shopping list: milk, bread, apples")
    card = await heard(telegram, "shopping.txt")
    await telegram.presses(card.id, card.choices[0])
    await heard(telegram, "Done.")
    file = home / "ohmo-workspace" / "shopping.txt"
    printed = next(step.printed for step in shown() if step.command.startswith("cat "))
    assert file.read_text() == LIST == "".join(f"{line}\n" for line in printed)
