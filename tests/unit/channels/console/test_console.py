"""The terminal: what is typed, what is printed, and what a terminal must not be told."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from channels.console import Settings, adapter
from channels.console.adapter import PLACE, Console, Terminal, heard
from channels.contract import Answer, Choice, Inbound, MessageId, Options, Outbound, Receipt
from channels.errors import NotReady, Rejected
from ohmo_testing.channels import FakeContext

NOW = datetime(2026, 5, 1, 12, 0, tzinfo=UTC)
ASKED = (MessageId("m1"), ("0:abc", "1:abc"))


@dataclass(slots=True)
class Pipes:
    """A keyboard and a screen."""

    source: int = -1
    keyboard: int = -1
    screen: int = -1
    printer: int = -1
    now: datetime = field(default=NOW)

    def console(self) -> Console:
        return Console(
            Settings(), Options(clock=lambda: self.now), Terminal(self.source, self.printer)
        )

    def types(self, text: str) -> None:
        os.write(self.keyboard, text.encode())

    def printed(self) -> str:
        os.set_blocking(self.screen, False)
        try:
            return os.read(self.screen, 1 << 16).decode()
        except BlockingIOError:
            return ""


@pytest.fixture
def pipes() -> Iterator[Pipes]:
    made = Pipes()
    made.source, made.keyboard = os.pipe()
    made.screen, made.printer = os.pipe()
    yield made
    for file in (made.source, made.keyboard, made.screen, made.printer):
        try:
            os.close(file)
        except OSError:
            continue  # the test closed it


def test_a_line_is_a_private_message_of_the_owner() -> None:
    said = heard("hello ", NOW, "7", None)
    assert isinstance(said, Inbound)
    assert (said.text, said.private, said.addressed, said.address, said.key) == (
        "hello",
        True,
        True,
        PLACE,
        "7",
    )


def test_an_empty_line_says_nothing() -> None:
    assert heard("  \t", NOW, "7", None) is None


@pytest.mark.parametrize(("line", "choice"), [("1", "0:abc"), (" 2 ", "1:abc")])
def test_a_number_answers_the_newest_question(line: str, choice: str) -> None:
    said = heard(line, NOW, "7", ASKED)
    assert isinstance(said, Answer)
    assert (said.choice, said.message) == (choice, "m1")


@pytest.mark.parametrize("line", ["0", "3", "1.", "1 please", "²", "99999999999999999999"])
def test_whatever_is_no_number_of_a_choice_is_a_message(line: str) -> None:
    assert isinstance(heard(line, NOW, "7", ASKED), Inbound)


def test_a_number_without_a_question_is_a_message() -> None:
    assert isinstance(heard("1", NOW, "7", None), Inbound)


def test_choices_are_numbered_lines_under_the_text() -> None:
    (part,) = adapter.render(
        Outbound(PLACE, "Shall I?\nReally?", choices=(Choice("0:a", "Yes"), Choice("1:a", "No")))
    )
    assert adapter.lines(part) == "ohmo: Shall I?\n      Really?\n   1) Yes\n   2) No\n\n"


def test_what_a_terminal_would_obey_is_not_printed() -> None:
    (part,) = adapter.render(
        Outbound(
            PLACE, "a\x1b]0;title\x07b\x9b2Jc\rd\u202ee", choices=(Choice("x", "\x1b[31mYes"),)
        )
    )
    assert adapter.lines(part) == "ohmo: a]0;titleb2Jcde\n   1) [31mYes\n\n"


def test_an_edit_says_that_it_is_one_and_a_surplus_is_taken_back() -> None:
    two = (Receipt(MessageId("m1")), Receipt(MessageId("m2")))
    edit, delete = adapter.render(Outbound(PLACE, "done", replaces=two))
    assert (edit.target, adapter.lines(edit)) == ("m1", "ohmo (edited): done\n\n")
    assert (delete.target, adapter.lines(delete)) == ("m2", "ohmo (took a message back)\n\n")


async def test_a_repeat_under_one_key_is_printed_once(pipes: Pipes) -> None:
    console = pipes.console()
    (part,) = console.render(Outbound(PLACE, "once"))
    first = await console.send(part, "id.0")
    assert await console.send(part, "id.0") == first
    assert pipes.printed() == "ohmo: once\n\n"


async def test_only_what_this_process_said_is_folded(pipes: Pipes) -> None:
    console = pipes.console()
    pipes.now += timedelta(minutes=5)
    assert console.capabilities.repeat_window == timedelta(minutes=5)


async def test_a_question_that_was_closed_takes_no_number(pipes: Pipes, tmp_path: Path) -> None:
    console, context = pipes.console(), FakeContext(tmp_path)
    (card,) = console.render(Outbound(PLACE, "Shall I?", choices=(Choice("0:a", "Yes"),)))
    receipt = await console.send(card, "card.0")
    receiving = asyncio.create_task(console.receive(context))
    pipes.types("1\n")
    await context.until(lambda context: len(context.arrivals) == 1)
    (closed,) = console.render(Outbound(PLACE, "Allowed.", replaces=(receipt,)))
    await console.send(closed, "closed.0")
    pipes.types("1\n")
    await context.until(lambda context: len(context.arrivals) == 2)
    receiving.cancel()
    answer, words = context.arrivals
    assert isinstance(answer, Answer)
    assert isinstance(words, Inbound)


async def test_no_byte_behind_a_line_is_taken_before_the_line_is_stored(
    pipes: Pipes, tmp_path: Path
) -> None:
    console, context = pipes.console(), FakeContext(tmp_path)
    pipes.types("first\nsecond\n")
    context.refuse(1)
    receiving = asyncio.create_task(console.receive(context))
    await asyncio.wait({receiving}, timeout=20)
    assert receiving.exception() is not None
    assert os.read(pipes.source, 100) == b"second\n"


async def test_a_half_typed_line_survives_a_reconnect(pipes: Pipes, tmp_path: Path) -> None:
    console, context = pipes.console(), FakeContext(tmp_path)
    pipes.types("hel")
    first = asyncio.create_task(console.receive(context))
    await context.until(lambda context: context.signs_of_life == 1)
    first.cancel()
    await asyncio.wait({first}, timeout=20)
    pipes.types("lo\n")
    second = asyncio.create_task(console.receive(context))
    assert await context.texts(1) == ["hello"]
    second.cancel()


async def test_the_end_of_the_input_leaves_the_channel_speaking(
    pipes: Pipes, tmp_path: Path
) -> None:
    console, context = pipes.console(), FakeContext(tmp_path)
    pipes.types("last words")
    os.close(pipes.keyboard)
    receiving = asyncio.create_task(console.receive(context))
    assert await context.texts(1) == ["last words"]
    await console.send(console.render(Outbound(PLACE, "still here"))[0], "id.0")
    assert pipes.printed() == "ohmo: still here\n\n"
    assert not receiving.done()
    receiving.cancel()


async def test_without_a_keyboard_nothing_is_heard_and_nothing_breaks(tmp_path: Path) -> None:
    nothing = os.open("/dev/null", os.O_RDWR)
    try:
        terminal = Terminal(nothing, nothing)
        assert await asyncio.wait_for(terminal.line(), 20) is None
        await terminal.show("to nobody")
    finally:
        os.close(nothing)


async def test_a_terminal_that_is_gone_is_not_ready(pipes: Pipes) -> None:
    os.close(pipes.screen)
    with pytest.raises(NotReady, match="the terminal is gone"):
        await Terminal(pipes.source, pipes.printer).show("hello?")


async def test_a_screen_that_takes_nothing_does_not_stop_the_loop(pipes: Pipes) -> None:
    showing = asyncio.create_task(Terminal(pipes.source, pipes.printer).show("x" * (1 << 20)))
    done, _ = await asyncio.wait({showing}, timeout=0.2)
    assert done == set()
    showing.cancel()


async def test_a_file_that_is_not_there_is_refused(pipes: Pipes, tmp_path: Path) -> None:
    console = pipes.console()
    (part,) = console.render(Outbound(PLACE, "", files=(tmp_path / "none.txt",)))
    with pytest.raises(Rejected):
        await console.upload(part)


def test_there_is_one_place(pipes: Pipes) -> None:
    console = pipes.console()
    assert console.parse_address("terminal") == PLACE
    with pytest.raises(ValueError, match="console:terminal"):
        console.parse_address("elsewhere")
