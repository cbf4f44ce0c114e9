"""The terminal as a channel: what is typed is heard once, what is said under one key is printed
once; lines from one file descriptor, text to another, without ever blocking the event loop."""

from __future__ import annotations

import asyncio
import json
import os
import re
import select
from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import datetime, timedelta
from itertools import count
from pathlib import Path
from typing import Any

from channels.console import Settings
from channels.contract import (
    Address,
    Answer,
    Attachment,
    Capabilities,
    ChannelContext,
    ChatId,
    Choice,
    Inbound,
    MessageId,
    Options,
    Outbound,
    Part,
    Person,
    PersonId,
    Receipt,
    Repeat,
)
from channels.errors import NotReady, Rejected
from channels.payloads import clean
from channels.record import Recent, record
from channels.split import split_markdown

_REMEMBERED = 10_000  # keys
_AT_ONCE = 4096  # bytes read between two looks at other work
# bytes: pipe(7), PIPE_BUF: a write of so few does not block when poll(2) says there is room
_PIECE = 512
_BACKGROUND = 1.0  # seconds between looks whether the terminal is ours again
MAX_TEXT = 16_000  # characters printed at once
MARK = "\n\n(may be a duplicate)"
SAYS, CHANGES, TAKES_BACK = "ohmo: ", "ohmo (edited): ", "ohmo (took a message back)"
# ECMA-48: C0 and C1 controls move the cursor, rewrite what stands there or speak to the terminal
# itself; bidi overrides lie about the order.
_CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
ACCOUNT = "local"
PLACE = Address("console", ACCOUNT, ChatId("terminal"))
TYPIST = Person(PersonId("owner"), "owner")


class Console:
    """One for the life of a process: it remembers what it has printed, and a line that could not be
    stored yet. Only a test brings a terminal and ``names``, which name the lines and sort like
    them."""

    def __init__(
        self,
        settings: Settings,
        options: Options,
        terminal: Terminal | None = None,
        names: Iterator[str] | None = None,
    ) -> None:
        del settings
        self._clock = options.clock
        self._terminal = terminal or Terminal()
        self._born = self._clock()
        self._names = names or _names(self._born)
        self._printed = Recent[str, Receipt](_REMEMBERED)
        self._asked: dict[MessageId, tuple[str, ...]] = {}
        self._unstored: Inbound | Answer | None = None

    @property
    def capabilities(self) -> Capabilities:
        """Equal keys are folded as far back as this process remembers; what an earlier one may have
        printed, nobody can tell."""
        return Capabilities(
            repeat=Repeat.SAFE,
            repeat_window=max(self._clock() - self._born, timedelta(microseconds=1)),
            max_text=MAX_TEXT,
            revise=None,
            choices=True,
            max_file=1 << 40,  # only the path is shown
        )

    @property
    def account(self) -> str:
        return ACCOUNT

    @asynccontextmanager
    async def connect(self) -> AsyncGenerator[None]:
        yield

    async def receive(self, context: ChannelContext) -> None:
        """The pipe keeps what was not read; a line that was read and not stored is published again
        under the same name."""
        context.heard()
        while True:
            while self._unstored is None:
                line = await self._terminal.line()
                if line is None:
                    # Nobody will type any more; there may still be something to say.
                    await asyncio.Event().wait()
                    continue
                newest = next(reversed(self._asked.items()), None)
                self._unstored = heard(line, self._clock(), next(self._names), newest)
            await context.publish([self._unstored])
            self._unstored = None

    def render(self, outbound: Outbound) -> tuple[Part, ...]:
        return render(outbound)

    async def upload(self, part: Part) -> str:
        file = read(part).file
        if file is None or not Path(file).is_file():  # noqa: ASYNC240 - one stat of a local file
            raise Rejected(f"{file} is not a file")
        return ""

    async def send(self, part: Part, key: str, handle: str | None = None) -> Receipt:
        del handle
        printed = self._printed.get(key)
        if printed is not None:
            return printed
        await self._terminal.show(lines(part))
        receipt = Receipt(part.target or MessageId(key), self._clock())
        self._printed[key] = receipt
        self._asked.pop(receipt.message, None)
        choices = read(part).choices
        if choices:
            self._asked[receipt.message] = tuple(choice.value for choice in choices)
        return receipt

    def mark(self, part: Part) -> Part:
        return mark(part)

    async def find(
        self, address: Address, part: Part, key: str, handle: str | None, since: datetime
    ) -> Receipt | None:
        del address, part, key, handle, since
        return None  # never asked: Repeat.SAFE

    async def revise(self, address: Address, receipt: Receipt | None, text: str) -> None:
        del address, receipt, text  # what is printed stays

    async def fetch(self, attachment: Attachment, into: Path, limit: int) -> Path:
        del into, limit
        raise Rejected(f"{attachment.name}: a terminal holds no files; name its path in a message")

    async def typing(self, address: Address, on: bool) -> None:
        del address, on

    async def acknowledge(self, answer: Answer, text: str) -> None:
        del answer
        await self._terminal.show(f"({printable(text)})\n")

    async def menu(self, commands: Sequence[tuple[str, str]]) -> None:
        del commands  # /help prints them

    def parse_address(self, text: str) -> Address:
        """``console:terminal``. Raises ValueError."""
        if text != PLACE.chat:
            raise ValueError(f"console:{text}: the only place is console:{PLACE.chat}")
        return PLACE


def _names(born: datetime) -> Iterator[str]:
    """A terminal names nothing: a line is the n-th of the process that was born then."""
    return (f"{int(born.timestamp() * 1000):014d}.{number:09d}" for number in count())


class Terminal:
    """Reads no byte behind the line it returns: what is not yet said to the house still stands in
    the pipe, whatever happens to us."""

    def __init__(self, source: int = 0, screen: int = 1) -> None:
        self._source = source
        self._screen = screen
        self._line = bytearray()
        self._writing = asyncio.Lock()

    async def line(self) -> str | None:
        """The next line without its end; None when there will be no more. Cancelled, it keeps what
        it has read of it."""
        loop = asyncio.get_running_loop()
        while True:
            await _ready(loop.add_reader, loop.remove_reader, self._source)
            # Reading in the background would stop the whole process: termios(3), SIGTTIN.
            if os.isatty(self._source) and os.tcgetpgrp(self._source) != os.getpgrp():
                await asyncio.sleep(_BACKGROUND)
                continue
            try:
                whole = self._read()
            except OSError:
                whole = None  # the terminal is gone: nobody can type any more
            if whole is False:
                continue
            text = self._line.decode(errors="replace")
            self._line = bytearray()
            return text.rstrip("\r\n") if whole or text else None

    async def show(self, text: str) -> None:
        """Returns when the terminal has taken it all. Raises NotReady when it is gone."""
        loop = asyncio.get_running_loop()
        rest = memoryview(text.encode(errors="replace"))
        async with self._writing:
            while rest:
                await _ready(loop.add_writer, loop.remove_writer, self._screen)
                try:
                    rest = rest[os.write(self._screen, rest[:_PIECE]) :]
                except OSError as error:
                    raise NotReady(f"the terminal is gone: {error.strerror}") from error

    def _read(self) -> bool | None:
        """What is there of one line. True: all of it. None: the end of the input."""
        waiting = select.poll()
        waiting.register(self._source, select.POLLIN)
        for _ in range(_AT_ONCE):
            byte = os.read(self._source, 1)
            if not byte:
                return None
            self._line += byte
            if byte == b"\n":
                return True
            if not waiting.poll(0):
                return False
        return False


async def _ready(
    add: Callable[[int, Callable[[], None]], object], remove: Callable[[int], object], file: int
) -> None:
    ready = asyncio.get_running_loop().create_future()
    try:
        add(file, lambda: None if ready.done() else ready.set_result(None))
    except OSError:
        return  # epoll_ctl(2), EPERM: regular files and /dev/null are always ready
    try:
        await ready
    finally:
        remove(file)


# What is printed, and what a typed line says


@record
class Block:
    """What one part shows. ``file``: a path instead of text."""

    text: str
    choices: tuple[Choice, ...] = ()
    file: str | None = None


def render(outbound: Outbound) -> tuple[Part, ...]:
    """Text first (what it replaces is printed anew as edited, surplus is taken back), then the
    paths of files; choices under the last text."""
    pieces = split_markdown(outbound.text, lambda text: len(text) <= MAX_TEXT)
    if not pieces and not outbound.files:
        pieces = [""]
    targets = [receipt.message for receipt in outbound.replaces]
    parts: list[Part] = []
    for number, piece in enumerate(pieces):
        target = targets[number] if number < len(targets) else None
        block = Block(piece, outbound.choices if number == len(pieces) - 1 else ())
        parts.append(Part("post" if target is None else "edit", write(block), target))
    parts += [Part("delete", write(Block("")), target) for target in targets[len(pieces) :]]
    return (*parts, *(Part("file", write(Block("", file=str(path)))) for path in outbound.files))


def lines(part: Part) -> str:
    """What the terminal is given for a part, with an empty line behind it."""
    block = read(part)
    if part.kind == "delete":
        return f"{TAKES_BACK}\n\n"
    says = CHANGES if part.kind == "edit" else SAYS
    text = f"[file] {block.file}" if block.file is not None else block.text
    first, *rest = printable(text).split("\n")
    shown = [says + first]
    shown += [" " * len(SAYS) + line for line in rest]
    for number, choice in enumerate(block.choices, 1):
        shown.append(f"   {number}) {printable(choice.label)}")
    return "\n".join(shown) + "\n\n"


def printable(text: str) -> str:
    """Without what a terminal would obey instead of show."""
    return _CONTROLS.sub("", text.replace("\r\n", "\n"))


def mark(part: Part) -> Part:
    block = read(part)
    if block.file is not None:
        return part
    return replace(part, payload=write(replace(block, text=block.text + MARK)))


def heard(
    line: str, at: datetime, order: str, asked: tuple[MessageId, Sequence[str]] | None
) -> Inbound | Answer | None:
    """None: nothing was said. ``order`` names the line, too. ``asked``: the newest message with
    choices and their values; a line that is the number of one of them chooses it."""
    text = clean(line).strip()
    if not text:
        return None
    if asked is not None and text.isascii() and text.isdigit():
        message, values = asked
        if 1 <= int(text[:6]) <= len(values):
            return Answer(
                key=order,
                address=PLACE,
                person=TYPIST,
                at=at,
                order=order,
                message=message,
                choice=values[int(text) - 1],
                token=order,
            )
    return Inbound(
        key=order,
        address=PLACE,
        person=TYPIST,
        at=at,
        order=order,
        message=MessageId(order),
        text=text,
        private=True,
        addressed=True,
    )


def write(block: Block) -> str:
    """The payload of a part."""
    body: dict[str, Any] = {"text": block.text}
    if block.choices:
        body["choices"] = [[choice.value, choice.label, choice.style] for choice in block.choices]
    if block.file is not None:
        body["file"] = block.file
    return json.dumps(body, ensure_ascii=False)


def read(part: Part) -> Block:
    """What a part of ours shows."""
    body: dict[str, Any] = json.loads(part.payload)
    choices = tuple(Choice(value, label, style) for value, label, style in body.get("choices", ()))
    return Block(body["text"], choices, body.get("file"))
