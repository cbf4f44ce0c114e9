"""A conversation as a file: who said what, for whom, and how large it may be."""

from __future__ import annotations

import json
import tracemalloc
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from channels.contract import Address, ChatId, MessageId, Outbound, Person, PersonId
from ohmo.contracts.arrivals import Wake
from ohmo.contracts.messages import (
    CallResult,
    CallStarted,
    ModelStep,
    Step,
    Text,
    ToolCall,
    ToolResult,
    UserStep,
)
from ohmo.contracts.outbox import PostRow
from ohmo.contracts.reports import HistoryItem, StepInfo, ThreadInfo
from ohmo.contracts.turns import End, Seat
from ohmo.logs.redaction import Redactor
from ohmo.sessions.exporting import LARGEST, Exporting
from tests.makers import inbound
from tests.store_model.store import MemoryStore

NOW = datetime(2026, 1, 1, 9, 30, tzinfo=UTC)
HERE = Address("slack", "T1", ChatId("C1"))
CALL = ToolCall("c1", "Bash", {"command": "cat secret"}, "c1")
STEPS: tuple[Step, ...] = (
    ModelStep((Text("let me look"), CALL), "m", "tools"),
    CallStarted("c1", "d"),
    CallResult(ToolResult("c1", "swordfish\n" + "x" * 900)),
    ModelStep((Text("it is swordfish"),), "m", "end"),
)


ANSWER = PostRow("a" * 22, "message", Outbound(HERE, "it is swordfish\n\n_1 tool_"))


async def talked(store: MemoryStore, steps: Sequence[Step] = STEPS) -> ThreadInfo:
    said = inbound(
        HERE,
        "what is it?",
        "k",
        at=NOW,
        message=MessageId("1"),
        person=Person(PersonId("U1"), "Ada"),
        private=False,
    )
    (accepted,) = await store.accept([(said, Seat("", "message"))])
    (claim,) = await store.claim("me", limit=1, ttl=30)
    words = (Text("Ada:"), Text("what is it?"))
    work = await store.work(
        claim, "t" * 22, collect=False, step=lambda _: UserStep(words, "U1", "message")
    )
    assert work is not None
    await store.finish(claim, work.turn, steps, [ANSWER], End("done"))
    info = await store.thread(accepted.thread)
    assert info is not None
    return info


def exporting(store: MemoryStore, folder: Path, largest: int | None = None) -> Exporting:
    return Exporting(
        store,
        folder,
        lambda text: text.replace("swordfish", "[redacted]"),
        lambda at: f"{at:%H:%M}",
        lambda _: largest,
    )


@pytest.mark.parametrize(
    ("tools", "between"),
    [
        (
            True,
            [
                "**ohmo** (09:30):",
                "let me look",
                '- Bash {"command": "cat secret"}',
                f"  → [redacted] {'x' * 289}",
            ],
        ),
        (False, []),  # a guest: what was not posted is not told either
    ],
)
async def test_the_file_says_who_said_what_and_to_members_what_was_done(
    tmp_path: Path, tools: bool, between: list[str]
) -> None:
    store = MemoryStore(clock=lambda: NOW)
    text, (file,) = await exporting(store, tmp_path)(await talked(store), "md", tools=tools)
    assert text == f"This conversation, {file.stat().st_size:,} bytes."
    assert file.stat().st_mode & 0o077 == 0
    assert file.read_text().split("\n\n") == [
        "# slack:C1",
        "**Ada** (09:30):",
        "what is it?",
        *between,
        "**ohmo** (09:30):",
        "it is [redacted]\n",
    ]


async def test_json_has_all_of_a_result(tmp_path: Path) -> None:
    store = MemoryStore(clock=lambda: NOW)
    _, (file,) = await exporting(store, tmp_path)(await talked(store), "json", tools=True)
    whole = json.loads(file.read_text())
    assert [sorted(each.keys() - {"at"}) for each in whole["items"]] == [
        ["text", "who"],
        ["text", "who"],
        ["arguments", "tool", "who"],
        ["result", "tool", "who"],
        ["text", "who"],
    ]
    assert whole["items"][3]["result"].count("x") == 900


@pytest.mark.parametrize(
    ("largest", "said"),
    [
        (10, "too large: slack takes 10 bytes. The owner can write it with `ohmo sessions export "),
        (0, "conversation.md"),
    ],
)
async def test_what_is_too_large_or_cannot_be_shown_is_told_instead(
    tmp_path: Path, largest: int, said: str
) -> None:
    store = MemoryStore(clock=lambda: NOW)
    info = await talked(store)
    text, files = await exporting(store, tmp_path, largest)(info, "md", tools=True)
    assert files == ()
    assert [path.name for path in tmp_path.rglob("*") if path.is_file()] == (
        [] if largest else ["conversation.md"]
    )
    assert said in text
    assert "\n" not in text


async def test_a_guest_is_not_told_what_a_job_was_told_nor_what_it_said_to_nobody(
    tmp_path: Path,
) -> None:
    store = MemoryStore(clock=lambda: NOW)
    info = await talked(store)
    wake = Wake("w", "owner", HERE, None, "U1", "check the payroll", NOW)
    await store.accept([(wake, Seat("", "wake"))])
    (claim,) = await store.claim("me", limit=1, ttl=30)
    work = await store.work(
        claim, "w" * 22, collect=False, step=lambda _: UserStep((Text(wake.prompt),), "U1", "wake")
    )
    assert work is not None
    said = ModelStep((Text("it is swordfish"),), "m", "end")  # as an answer that was posted
    await store.finish(claim, work.turn, [said], [], End("done"))
    for tools, count in ((False, 1), (True, 2)):
        _, (file,) = await exporting(store, tmp_path)(info, "md", tools=tools)
        assert ("check the payroll" in file.read_text()) == tools
        assert file.read_text().count("it is [redacted]") == count


async def test_a_secret_is_taken_out_of_arguments_before_they_are_json(tmp_path: Path) -> None:
    secret = 'pa"ss\\w0rd\nline-two-of-it'
    arguments = {
        "command": f"mysql -X {secret} db",
        "env": [{secret: 1}],
        "password": "Tr0ub4dor-3xyz9",
    }
    call = replace(CALL, arguments=arguments)
    store = MemoryStore(clock=lambda: NOW)
    info = await talked(store, [ModelStep((call,), "m", "tools"), *STEPS[1:]])
    export = replace(exporting(store, tmp_path), redact=Redactor(lambda: {secret}).words)
    for form in ("md", "json"):
        _, (file,) = await export(info, form, tools=True)
        text = file.read_text()
        assert "mysql -X [redacted] db" in text
        for piece in ("ss\\", "w0rd", "line-two", "Tr0ub4dor"):
            assert piece not in text


class Long:
    """A history of that many results of 10 000 characters; how many were read."""

    def __init__(self, store: MemoryStore, count: int) -> None:
        self._store = store
        self._count = count
        self.read = 0

    def __getattr__(self, name: str) -> object:
        return getattr(self._store, name)

    async def history(
        self, thread: str, *, since: int = 0, limit: int = 500, before: int | None = None
    ) -> list[HistoryItem]:
        if before is not None:
            return []
        numbers = range(since + 1, min(since + limit, self._count) + 1)
        self.read += len(numbers)
        return [
            StepInfo(n, "t", NOW, CallResult(ToolResult(f"c{n}", f"{n:05} " + "word " * 2_000)))
            for n in numbers
        ]


@pytest.mark.parametrize(
    ("count", "largest", "taker"),
    [(1_000, 50 << 20, None), (3_000, 0, "one file"), (3_000, 1 << 20, "slack")],
)
async def test_a_long_conversation_takes_little_memory_and_ends_at_the_limit(
    tmp_path: Path, count: int, largest: int, taker: str | None
) -> None:
    store = MemoryStore(clock=lambda: NOW)
    info = await talked(store)
    long = Long(store, count)
    export = replace(exporting(store, tmp_path, largest), reports=long)
    tracemalloc.start()
    text, files = await export(info, "json", tools=True)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most < 8 << 20
    if taker is None:
        (file,) = files
        assert file.stat().st_size > count * 10_000
        items = json.loads(file.read_text())["items"]
        assert [each["result"][:5] for each in items] == [f"{n:05}" for n in range(1, count + 1)]
        return
    assert f"too large: {taker} takes {largest or LARGEST:,} bytes." in text
    assert files == ()
    assert long.read <= (largest or LARGEST) // 10_000 + 100  # no more than fits, and one page
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]
