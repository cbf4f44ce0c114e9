"""The present conversation of a thread as a file: what was said in it, and with ``tools`` what was
done for it, without secrets."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, BinaryIO, Literal, cast

from channels.contract import Address, Inbound
from channels.durable import replacing
from channels.record import record
from channels.text import code_span, quote_thinking, without_thinking
from ohmo.ambient import derived
from ohmo.contracts.messages import CallResult, ModelStep, Text, ToolCall, UserStep
from ohmo.contracts.outbox import OutRow
from ohmo.contracts.reports import ArrivalInfo, HistoryItem, Reports, StepInfo, ThreadInfo
from ohmo.lifecycle import unbroken

PAGE = 100  # rows of each kind in memory at once
SHOWN = 300  # characters of a result in Markdown; JSON has all of it
LARGEST = 16 << 20  # bytes of a file, also where more would be taken
Form = Literal["md", "json"]
Entry = dict[str, Any]  # at, who, and text, or tool and arguments, or tool and result


class _TooLarge(Exception):
    """Nothing more is written."""


@record
class Exporting:
    """``spill``: folder of files that are shown. ``redact``: takes secrets out of words.
    ``when``: a time in words. ``largest``: bytes of a file that a place takes, None: not known."""

    reports: Reports
    spill: Path
    redact: Callable[[str], str]
    when: Callable[[datetime], str]
    largest: Callable[[Address], int | None]

    async def __call__(
        self, info: ThreadInfo, form: Form, *, tools: bool
    ) -> tuple[str, tuple[Path, ...]]:
        """What is said with the file, or instead of it. Without ``tools`` it has what people said
        and what was posted. Raises OSError."""
        most = self.largest(info.address)
        limit = min(most or LARGEST, LARGEST)
        try:
            file = await self._file(info, form, limit, tools=tools)
        except _TooLarge:
            takes = info.address.channel if limit == most else "one file"
            return (
                f"This conversation is too large: {takes} takes {limit:,} bytes. The owner can"
                f" write it with `ohmo sessions export {info.thread}`."
            ), ()
        text = f"This conversation, {file.stat().st_size:,} bytes"
        if most == 0:  # a terminal of this machine, which shows no files
            return f"{text}: {code_span(str(file))}", ()
        return f"{text}.", (file,)

    async def _file(self, info: ThreadInfo, form: Form, limit: int, *, tools: bool) -> Path:
        """Read in pages, each written before the next is read. Raises _TooLarge."""
        since = max(0, info.session_seq - 1)
        newest = await self.reports.history(info.thread, since=since, limit=1, before=1 << 62)
        numbers = [str(item.seq) for item in newest]
        name = derived("export", info.thread, form, str(tools), *numbers)
        file = self.spill / "shown" / name / f"conversation.{form}"
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        writing = replacing(file, 0o600)
        written = _Written(await asyncio.to_thread(writing.__enter__), limit)
        said = _Said(info, tools=tools)
        try:
            await _aside(written.add, (self._head(info, form),))
            while page := await self.reports.history(info.thread, since=since, limit=PAGE):
                since = page[-1].seq
                await _aside(self._add, written, form, said, page)
            await _aside(written.add, ("\n]}\n" if form == "json" else "\n",))
        except BaseException as error:
            await _aside(writing.__exit__, type(error), error, error.__traceback__)
            raise
        await _aside(writing.__exit__, None, None, None)
        return file

    def _head(self, info: ThreadInfo, form: Form) -> str:
        place = info.address
        if form == "md":
            return self.redact(f"# {info.title or f'{place.channel}:{place.chat}'}")
        head = json.dumps({"thread": info.thread, "channel": place.channel}, ensure_ascii=False)
        return f'{head[:-1]}, "items": ['

    def _add(self, written: _Written, form: Form, said: _Said, page: Sequence[HistoryItem]) -> None:
        for entry in said.of(page):
            clean = self._clean(entry)
            if "arguments" in clean:
                dumped = json.dumps(clean["arguments"], ensure_ascii=False)
                clean["arguments"] = self.redact(dumped)  # what only its name gives away
            if form == "md":
                written.add(("\n\n", self._paragraph(clean)))
                continue
            comma = "," if said.count > 1 else ""
            written.add((f"{comma}\n", json.dumps(clean, ensure_ascii=False)))

    def _clean(self, value: Any) -> Any:
        """Strings alone: in JSON a secret is written otherwise, and would not be known."""
        if isinstance(value, str):
            return self.redact(value)
        if isinstance(value, Mapping):
            pairs = cast("Mapping[str, Any]", value).items()
            return {self.redact(name): self._clean(each) for name, each in pairs}
        if isinstance(value, list | tuple):
            return [self._clean(each) for each in cast("Sequence[Any]", value)]
        return value

    def _paragraph(self, entry: Entry) -> str:
        if "arguments" in entry:
            return f"- {entry['tool']} {entry['arguments'][:SHOWN]}"
        if "result" in entry:
            return f"  → {' '.join(entry['result'][:SHOWN].split())}"
        at = self.when(datetime.fromisoformat(entry["at"]))
        return f"**{entry['who']}** ({at}):\n\n{entry['text']}"


@record
class _Written:
    file: BinaryIO
    limit: int  # bytes

    def add(self, words: Iterable[str]) -> None:
        data = "".join(words).encode()
        if self.file.tell() + len(data) > self.limit:
            raise _TooLarge
        self.file.write(data)


async def _aside(work: Callable[..., object], *args: object) -> None:
    """In a thread, which ends before the file is closed."""
    await unbroken(asyncio.to_thread(work, *args))


class _Said:
    """Of one session, page by page. Without ``tools``: what a turn that somebody's words did not
    begin was told, and what was not posted, is not for whoever reads it."""

    def __init__(self, info: ThreadInfo, *, tools: bool) -> None:
        self.count = 0  # of entries
        self._info = info
        self._tools = tools
        self._names: dict[str, str] = {}  # of people
        self._calls: dict[str, str] = {}  # the tools of open ones
        self._turn = ""
        self._texts: list[tuple[str, str]] = []  # of the turn's model, not seen posted: when, what
        self._posts: list[str] = []  # of the turn

    def of(self, page: Sequence[HistoryItem]) -> Iterator[Entry]:
        for item in page:
            for entry in self._entries(item):
                self.count += 1
                yield entry

    def _entries(self, item: HistoryItem) -> Iterator[Entry]:
        info = self._info
        match item:
            case ArrivalInfo(arrival=Inbound() as said):
                self._names[item.person] = said.person.name
            case OutRow(row=row, state="ready" | "sending" | "sent") if (
                not self._tools and item.turn == self._turn and row.kind != "draft"
            ):
                self._posts.append(row.outbound.text)
                yield from self._posted()
            case StepInfo() if info.settings.holds(info.session_seq, item.seq):
                yield from self._step(item)
            case _:
                pass

    def _step(self, item: StepInfo) -> Iterator[Entry]:
        if item.turn != self._turn:
            self._turn = item.turn
            self._texts.clear()
            self._posts.clear()
        at = item.at.isoformat()
        match item.step:
            case UserStep(blocks, person, "message" | "steer" | "wake" as source):
                if source == "wake" and not self._tools:
                    return
                words = [block.text for block in blocks if isinstance(block, Text)]
                who = self._names.get(person) or person
                text = "\n".join(words).removeprefix(f"{who}:").lstrip()  # as a group's is told
                yield {"at": at, "who": who, "text": text}
            case ModelStep(blocks):
                words = [block.text for block in blocks if isinstance(block, Text)]
                text = "".join(words).strip()
                if text and not self._tools:
                    self._texts.append((at, text))
                    yield from self._posted()
                elif text:
                    yield {"at": at, "who": "ohmo", "text": text}
                for block in blocks:
                    if self._tools and isinstance(block, ToolCall):
                        self._calls[block.id] = block.name
                        arguments = dict(block.arguments)
                        yield {"at": at, "who": "ohmo", "tool": block.name, "arguments": arguments}
            case CallResult(result) if self._tools:
                name = self._calls.pop(result.call, "")
                yield {"at": at, "who": "ohmo", "tool": name, "result": result.text}
            case _:
                pass

    def _posted(self) -> Iterator[Entry]:
        """Of the turn's texts those that stand in a post of it, as they stand there."""
        for at, text in list(self._texts):
            for shown in (quote_thinking(text), without_thinking(text).strip()):
                if shown and any(shown in post for post in self._posts):
                    self._texts.remove((at, text))
                    yield {"at": at, "who": "ohmo", "text": shown}
                    break
