"""The present conversation of a thread as a file: what was said in it, and with ``tools`` what was
done for it, without secrets."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from pathlib import Path
from typing import Literal

from channels.contract import Address, Inbound
from channels.durable import write_whole
from channels.record import record
from channels.text import code_span
from ohmo.ambient import derived
from ohmo.contracts.messages import CallResult, ModelStep, Text, ToolCall, UserStep
from ohmo.contracts.reports import ArrivalInfo, HistoryItem, Reports, StepInfo, ThreadInfo

PAGE = 500
SHOWN = 300  # characters of a result in Markdown; JSON has all of it
Form = Literal["md", "json"]
Entry = dict[str, str]  # at, who, and text, or tool and arguments, or tool and result


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
        """What is said with the file, or instead of it. Raises OSError."""
        file = await self._file(info, form, tools=tools)
        size, place, most = file.stat().st_size, info.address.channel, self.largest(info.address)
        if most == 0:  # a terminal of this machine, which shows no files
            return f"This conversation, {size:,} bytes: {code_span(str(file))}", ()
        if most is None or size <= most:
            return f"This conversation, {size:,} bytes.", (file,)
        return (
            f"This conversation is a file of {size:,} bytes, and {place} takes {most:,}: the owner"
            f" can write it with `ohmo sessions export {info.thread}`."
        ), ()

    async def _file(self, info: ThreadInfo, form: Form, *, tools: bool) -> Path:
        entries: list[Entry] = []
        names: dict[str, str] = {}
        calls: dict[str, str] = {}
        since = max(0, info.session_seq - 1)
        while page := await self.reports.history(info.thread, since=since, limit=PAGE):
            since = page[-1].seq
            found = _entries(page, info, names, calls)
            entries += [entry for entry in found if tools or "tool" not in entry]
        return await asyncio.to_thread(self._written, info, form, entries)

    def _written(self, info: ThreadInfo, form: Form, entries: Sequence[Entry]) -> Path:
        clean = [{name: self.redact(text) for name, text in entry.items()} for entry in entries]
        if form == "json":
            whole = {"thread": info.thread, "channel": info.address.channel, "items": clean}
            text = json.dumps(whole, ensure_ascii=False, indent=1)
        else:
            place = f"{info.address.channel}:{info.address.chat}"
            text = "\n\n".join([f"# {info.title or place}", *map(self._paragraph, clean)])
        name = derived("export", info.thread, str(len(entries)), text)
        file = self.spill / "shown" / name / f"conversation.{form}"
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_whole(file, f"{text}\n")
        return file

    def _paragraph(self, entry: Entry) -> str:
        if "arguments" in entry:
            return f"- {entry['tool']} {entry['arguments'][:SHOWN]}"
        if "result" in entry:
            return f"  → {' '.join(entry['result'][:SHOWN].split())}"
        at = self.when(datetime.fromisoformat(entry["at"]))
        return f"**{entry['who']}** ({at}):\n\n{entry['text']}"


def _entries(
    page: Sequence[HistoryItem], info: ThreadInfo, names: dict[str, str], calls: dict[str, str]
) -> Iterator[Entry]:
    """``names`` of people and of the tools of calls grow from page to page."""
    for item in page:
        if isinstance(item, ArrivalInfo) and isinstance(item.arrival, Inbound):
            names[item.person] = item.arrival.person.name
        if not isinstance(item, StepInfo) or not info.settings.holds(info.session_seq, item.seq):
            continue
        at = item.at.isoformat()
        match item.step:
            case UserStep(blocks, person, "message" | "steer" | "wake"):
                words = [block.text for block in blocks if isinstance(block, Text)]
                who = names.get(person) or person
                text = "\n".join(words).removeprefix(f"{who}:").lstrip()  # as a group's is told
                yield {"at": at, "who": who, "text": text}
            case ModelStep(blocks):
                words = [block.text for block in blocks if isinstance(block, Text)]
                if text := "".join(words).strip():
                    yield {"at": at, "who": "ohmo", "text": text}
                for block in blocks:
                    if isinstance(block, ToolCall):
                        calls[block.id] = block.name
                        arguments = json.dumps(dict(block.arguments), ensure_ascii=False)
                        yield {"at": at, "who": "ohmo", "tool": block.name, "arguments": arguments}
            case CallResult(result):
                name = calls.pop(result.call, "")
                yield {"at": at, "who": "ohmo", "tool": name, "result": result.text}
            case _:
                continue
