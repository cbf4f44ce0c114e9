"""Looks through what a conversation no longer sends: which steps hold the words somebody asks for.
Words count without case and marks, every Han sign is one, and what is rare counts more. One pass in
slices; what is kept meanwhile is bounded."""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import Awaitable, Callable, Sequence
from itertools import groupby
from math import log

from channels.record import record
from ohmo.context.layers import Row
from ohmo.contracts.messages import CallResult, ModelStep, Step, Text, ToolCall, UserStep
from ohmo.contracts.reports import ThreadInfo
from ohmo.memory.folding import fold

SLICE = 500  # steps in memory at once
MOST_WORDS = 24  # of a question
MOST_KINDS = 512  # combinations of its words that are told apart
READ = 20_000  # characters of one step that are looked at
SHOWN = 300  # characters around the first word that is found


@record
class Hit:
    seq: int
    who: str
    text: str
    taint: tuple[str, ...] = ()


class Search:
    """For one question. ``most``: hits that are wanted."""

    def __init__(self, question: str, most: int) -> None:
        self._words = list(dict.fromkeys(fold(question).split()))[:MOST_WORDS]
        self._most = most
        self._steps = 0
        self._with: Counter[str] = Counter()  # steps that hold a word
        self._hits: dict[frozenset[str], deque[Hit]] = {}  # the newest, by the words they hold

    def look(self, rows: Sequence[Row]) -> None:
        """Steps with their numbers, older ones first."""
        for seq, step in rows:
            who, text, taint = _said(step)
            self._steps += bool(text)
            if text.isascii():
                plain = text.casefold()
                if not any(word in plain for word in self._words):
                    continue
            there = set(fold(text).split())
            found = frozenset(word for word in self._words if word in there)
            if not found:
                continue
            self._with.update(found)
            if found in self._hits or len(self._hits) < MOST_KINDS:
                hits = self._hits.setdefault(found, deque(maxlen=self._most))
                hits.append(Hit(seq, who, _around(text, found), taint))

    @property
    def whole(self) -> bool:
        """Every word was found, in one step or another."""
        return bool(self._words) and len(self._with) == len(self._words)

    def best(self) -> list[Hit]:
        """Those that hold most of what was asked for; of equal ones the newest first."""
        worth = {word: log(1 + self._steps / count) for word, count in self._with.items()}
        ranked = [
            (sum(worth[word] for word in found), hit.seq, hit)
            for found, hits in self._hits.items()
            for hit in hits
        ]
        ranked.sort(key=lambda each: each[:2], reverse=True)
        return [hit for _, _, hit in ranked[: self._most]]


async def sessions_with(
    words: str, info: ThreadInfo, steps: Callable[..., Awaitable[list[Row]]]
) -> set[int]:
    """Sessions of a thread in which all these words were said. ``steps``: as ``Store`` has
    them."""
    found: dict[int | None, Search] = {}
    since = 0
    while rows := await steps(info.thread, since, limit=SLICE):
        since = rows[-1][0] + 1
        for session, said in groupby(rows, lambda row: info.settings.session_of(row[0])):
            search = found.setdefault(session, Search(words, 1))
            await asyncio.to_thread(search.look, list(said))
    return {session for session, search in found.items() if session is not None and search.whole}


def _said(step: Step) -> tuple[str, str, tuple[str, ...]]:
    """Who, what, and where its words came from; nothing for what nobody said."""
    match step:
        case UserStep(blocks, person, "message" | "steer" | "wake"):
            words = [block.text for block in blocks if isinstance(block, Text)]
            return person, "\n".join(words)[:READ], ()
        case ModelStep(blocks):
            words = [
                block.text if isinstance(block, Text) else f"{block.name} {dict(block.arguments)}"
                for block in blocks
                if isinstance(block, Text | ToolCall)
            ]
            return "you", "\n".join(words)[:READ], ()
        case CallResult(result):
            return "a tool", result.text[:READ], result.taint
        case _:
            return "", "", ()


def _around(text: str, found: frozenset[str]) -> str:
    plain = text.casefold()
    places = [plain.find(word) for word in found]
    start = max(0, min((place for place in places if place >= 0), default=0) - SHOWN // 3)
    words = " ".join(text[start : start + SHOWN].split())
    return f"{'…' if start else ''}{words}{'…' if start + SHOWN < len(text) else ''}"
