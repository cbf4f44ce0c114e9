"""Open questions follow the store's hints."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any, Literal, cast

import pytest

from channels.contract import Address, ChatId
from ohmo.approvals.questions import OpenQuestions
from ohmo.contracts.outbox import Ask, Asked
from ohmo.contracts.store import Hint, Store
from ohmo.contracts.tool import Question

HERE = Address("telegram", "main", ChatId("7"))
NOW = datetime(2026, 1, 5, tzinfo=UTC)


class Shelf:
    """A store of questions that tells when something changed."""

    def __init__(self) -> None:
        self.rows: list[Asked] = []
        self.hearers: list[Callable[[Sequence[Hint]], None]] = []
        self.reads = 0

    async def open_questions(self) -> list[Asked]:
        self.reads += 1
        return list(self.rows)

    def listen(self, hear: Callable[[Sequence[Hint]], None]) -> Callable[[], None]:
        self.hearers.append(hear)
        return lambda: self.hearers.remove(hear)

    def tell(self, kind: Any) -> None:
        for hear in self.hearers:
            hear([Hint(kind, "t")])


def asked(kind: Literal["question", "permission"] = "question") -> Asked:
    question = Question(kind, "Which colour?", "", (), digest="d")
    return Asked(Ask("q", "c", question, "/"), "t", "t.1", HERE, "ada", "asked", None, NOW)


async def until(true: Callable[[], bool]) -> None:
    async with asyncio.timeout(5):
        while not true():
            await asyncio.sleep(0)


@pytest.mark.parametrize("kind", ["approval", "any"])
async def test_a_question_is_known_soon_after_it_was_stored_and_unknown_when_it_is_closed(
    kind: str,
) -> None:
    shelf = Shelf()
    questions = OpenQuestions(cast("Store", shelf))
    living = asyncio.create_task(questions.run())
    await until(lambda: shelf.reads == 1)
    shelf.rows = [asked()]
    shelf.tell(kind)
    await until(lambda: questions.at(HERE) != ())
    shelf.rows = []
    shelf.tell(kind)
    await until(lambda: questions.at(HERE) == ())
    living.cancel()
    await asyncio.gather(living, return_exceptions=True)
    assert shelf.hearers == []


async def test_while_a_commit_is_not_read_yet_any_thumb_may_be_an_answer() -> None:
    shelf = Shelf()
    questions = OpenQuestions(cast("Store", shelf))
    living = asyncio.create_task(questions.run())
    await until(lambda: not questions.may_ask(HERE))
    shelf.rows = [asked("permission")]
    shelf.tell("approval")  # from now on its card may be seen, and be answered
    assert questions.may_ask(HERE)
    await until(lambda: questions.at(HERE) != ())
    assert questions.may_ask(HERE)
    await until(lambda: not questions.may_ask(Address("telegram", "main", ChatId("8"))))
    living.cancel()
    await asyncio.gather(living, return_exceptions=True)
