"""``ohmo`` at a real pseudo-terminal, with the real daemon: lines are edited and remembered,
answers are painted, a stop keeps what was said."""

from __future__ import annotations

import asyncio
import re
import stat
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.faults.daemon import Daemon
from tests.journeys.at_keyboard import Keyboard, keyboard
from tests.platforms.model.script import Call, Turn
from tests.platforms.model.server import ModelServer
from tests.terminal import Terminal, terminal

pytestmark = pytest.mark.timeout(240)
_ESCAPES = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b[=>78]|\r")
READY = "\x1b[?2004h"  # a line can be typed, or a paste


def words(at: Terminal) -> str:
    """What stood on the screen, one after the other."""
    return _ESCAPES.sub("", at.shown.decode())


async def sits_there(
    home: Keyboard, story: Callable[[Terminal], None], *arguments: str, **environ: str
) -> Terminal:
    """A person at a terminal of the usual kind until ``story`` is over; it leaves by itself
    there."""
    surroundings = home.environ | {"TERM": "xterm-256color", "PROMPT_TOOLKIT_NO_CPR": "1"} | environ

    def at_it() -> Terminal:
        with terminal([sys.executable, "-m", "ohmo", *arguments], surroundings, home.work) as at:
            at.until("Ctrl-C stops a turn")
            story(at)
            assert at.ended() == 0
            return at

    return await asyncio.to_thread(at_it)


@pytest.mark.person("say", "watch", on="terminal")
async def test_a_paste_of_several_lines_is_one_message_and_its_answer_is_painted(
    tmp_path: Path,
) -> None:
    answer = (
        "# Plan\n\nThis is **sure**, see [the page](https://example.org/x).\nAnd"
        " *this*.\n\n```python\nx = 1\n```\n\n- one\n- two\n"
    )
    server = ModelServer([Turn(text=answer, chunks=40, between=0.02)])
    async with keyboard(tmp_path, server) as home:

        def story(at: Terminal) -> None:
            at.types("\x1b[200~first line\n\nsecond /line\x1b[201~")
            at.after("second /line")
            at.types("\r")
            at.after("two\r\n")
            at.after(READY)
            at.types("/exit\r")

        at = await sits_there(home, story)
        assert [asked.said for asked in server.asked] == ["first line\n\nsecond /line"]
        shown = words(at)
        assert "ohmo 0.1.0, gpt-5, openai" in shown
        assert "**sure**" not in shown
        assert "```" not in shown
        assert "\x1b[1msure\x1b[0m" in at.shown.decode()
        assert "the page (https://example.org/x)" in shown.replace("\n", "")
        assert "• two" in shown[shown.rindex("• one") :]
        assert at.shown.endswith(b"\x1b[?2004l")  # the terminal is as it was


@pytest.mark.person("model", on="terminal")
async def test_commands_and_what_may_stand_behind_them_are_completed(tmp_path: Path) -> None:
    async with keyboard(tmp_path, ModelServer(models=["gpt-5"])) as home:

        def story(at: Terminal) -> None:
            at.types("/mod")
            at.after("[NAME|default] which model answers here")
            at.types("\t")
            at.types(" g")
            at.after("pt-5")
            at.types("\t\r")
            at.after("This conversation uses")
            at.types("/exit\r")

        at = await sits_there(home, story)
        assert "This conversation uses gpt-5 now." in words(at)


@pytest.mark.person("go on", on="terminal")
async def test_what_was_typed_is_remembered_for_its_owner_alone_and_without_secrets(
    tmp_path: Path,
) -> None:
    server = ModelServer(models=["gpt-5"])
    async with keyboard(tmp_path, server) as home:

        def first(at: Terminal) -> None:
            at.types(
                "use sk-test or ghp_0123456789abcdefghij0123456789abcdef, api_key=hunter22hunter\r"
            )
            at.after("echo: use")
            at.after(READY)
            at.types("a second one\r")
            at.after("echo: a second one")
            at.types("/exit\r")

        def later(at: Terminal) -> None:
            at.types("\x1b[A\x1b[A\r")
            at.after("echo: a second one")
            at.types("/exit\r")

        await sits_there(home, first, KEY="sk-test-0123")
        file = home.home / "state" / "history"
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        kept = file.read_text()
        assert "a second one" in kept
        assert "ghp_" not in kept
        assert "hunter22" not in kept
        await sits_there(home, later, "chat", "--continue")
        assert [asked.said for asked in server.asked].count("a second one") == 2


@pytest.mark.person("stop", "more", on="terminal")
async def test_ctrl_c_stops_the_turn_keeps_what_was_said_and_loses_no_line_that_waits(
    tmp_path: Path,
) -> None:
    server = ModelServer(
        [
            Turn(
                text="It begins with the first half, and then " + "the rest " * 20,
                chunks=20,
                hold=6,
            )
        ]
    )
    async with keyboard(tmp_path, server) as home:

        def story(at: Terminal) -> None:
            at.types("tell me\r")
            at.after("It begins with the first half")
            at.types("and one more\r")
            at.types("\x03")
            at.after("Stopped")
            at.after("unasked.)")
            at.after("and one more")
            at.after(READY)
            at.types("\x03")

        at = await sits_there(home, story)
        server.go.set()
        asked = server.asked[-1]
        assert asked.said.endswith("and one more")
        told = str(asked.body["messages"])
        assert "It begins with the first half" in told
        assert "It begins with the first half" in words(at)


@pytest.mark.person("allow", "deny", "choose", "words", on="terminal")
async def test_questions_are_answered_and_what_was_typed_before_them_answers_nothing(
    tmp_path: Path,
) -> None:
    write = Call("Write", {"file_path": "a.txt", "content": "x\n"})
    ask = Call("AskUser", {"question": "Tea or coffee?", "choices": ["Tea", "Coffee"]})
    server = ModelServer(
        [
            Turn(calls=(write,), delay=1.0),
            Turn(text="written"),
            Turn(text="next"),
            Turn(calls=(write,)),
            Turn(text="left"),
            Turn(calls=(ask,)),
            Turn(text="well"),
            Turn(calls=(ask,)),
            Turn(text="fine"),
        ]
    )
    async with keyboard(tmp_path, server) as home:
        file = home.work / "a.txt"

        def story(at: Terminal) -> None:
            at.types("write it\ry\r")
            at.after("[N]o:")
            assert not file.exists()
            at.types("yes\r")
            at.after("written")
            at.after("next")  # to the line that was typed too early
            assert file.read_text() == "x\n"
            file.unlink()
            for line, question, answer, reply in (
                ("again", "[N]o:", "n", "left"),
                ("choose", "Your answer:", "2", "well"),
                ("speak", "Your answer:", "cocoa", "fine"),
            ):
                at.after(READY)
                at.types(line + "\r")
                at.after(question)
                at.types(answer + "\r")
                at.after(reply)
            at.types("/exit\r")

        await sits_there(home, story)
        assert not file.exists()
        said = [str(asked.body["messages"][-1]) for asked in server.asked]
        assert server.asked[2].said == "y"
        assert "Coffee" in said[-3]
        assert "cocoa" in said[-1]


@pytest.mark.parametrize("environ", [{"TERM": "dumb"}, {"NO_COLOR": "1"}])
async def test_a_terminal_without_colours_stays_plain(
    tmp_path: Path, environ: dict[str, str]
) -> None:
    server = ModelServer([Turn(text="It is **so**.", chunks=5)])
    async with keyboard(tmp_path, server) as home:

        def story(at: Terminal) -> None:
            at.types("hello\n")
            at.after("It is **so**.")
            at.types("/exit\n")

        at = await sits_there(home, story, "chat", **environ)
        assert b"\x1b" not in at.shown
        assert not (home.home / "state" / "history").exists()


async def test_what_a_model_thinks_aloud_is_a_quote_also_in_pieces(tmp_path: Path) -> None:
    aloud = "<think>\nthe kettle\n\nfirst\n</think>\nTea it is."
    quote = "> the kettle\n>\n> first\n\nTea it is."
    server = ModelServer(default=lambda _: Turn(text=aloud, chunks=len(aloud), between=0.005))
    async with keyboard(tmp_path, server) as home:

        def story(at: Terminal) -> None:
            at.types("hello\r")
            at.after("Tea it is.")
            at.types("/exit\r")

        painted, plain = await sits_there(home, story), await sits_there(home, story, TERM="dumb")
        assert "▌ the kettle" in words(painted)
        assert quote in words(plain)
        assert "think>" not in words(painted) + words(plain)
        assert (await home.ohmo("-p", "hello")).out == quote + "\n"


async def test_neither_the_daemon_nor_a_single_command_brings_the_editor_or_the_painter(
    tmp_path: Path,
) -> None:
    async with keyboard(tmp_path, ModelServer(), running=False) as home:
        alone = await home.ohmo("-p", "hello", PYTHONPROFILEIMPORTTIME="1")
        home.daemon = Daemon(
            home.home,
            command=(sys.executable, "-X", "importtime", "-m", "ohmo", "run"),
            environ={"KEY": "sk-test"},
        )
        await home.daemon.start()
        said = await home.ohmo("-p", "hello", PYTHONPROFILEIMPORTTIME="1")
        assert said.out == "echo: hello\n"
        version = await home.ohmo("--version", PYTHONPROFILEIMPORTTIME="1")
        for told in (home.daemon.said, alone.err, said.err, version.err):
            assert "import time:" in told
            assert not [
                name for name in ("prompt_toolkit", "rich.console", "pygments") if name in told
            ]
        assert "structlog" in home.daemon.said
