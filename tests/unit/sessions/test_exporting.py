"""A conversation as a file: who said what, for whom, and how large it may be."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest

from channels.contract import Address, ChatId, MessageId, Person, PersonId
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
from ohmo.contracts.reports import ThreadInfo
from ohmo.contracts.turns import End, Seat
from ohmo.sessions.exporting import Exporting
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


async def talked(store: MemoryStore) -> ThreadInfo:
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
    await store.finish(claim, work.turn, STEPS, [], End("done"))
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
        (True, ['- Bash {"command": "cat secret"}', f"  → [redacted] {'x' * 289}"]),
        (False, []),  # a guest
    ],
)
async def test_the_file_says_who_said_what_and_to_members_what_was_done(
    tmp_path: Path, tools: bool, between: list[str]
) -> None:
    store = MemoryStore(clock=lambda: NOW)
    text, (file,) = await exporting(store, tmp_path)(await talked(store), "md", tools=tools)
    assert text == f"This conversation, {file.stat().st_size:,} bytes."
    assert file.stat().st_mode & 0o077 == 0
    ohmo = "**ohmo** (09:30):"
    assert file.read_text().split("\n\n") == [
        "# slack:C1",
        "**Ada** (09:30):",
        "what is it?",
        ohmo,
        "let me look",
        *between,
        ohmo,
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
        (10, " bytes, and slack takes 10: the owner can write it with `ohmo sessions export "),
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
    assert said in text
    assert "\n" not in text
