"""Names: each person asked for once, a message waits for them a moment only."""

from __future__ import annotations

import asyncio

import pytest

from channels.errors import AuthFailed, NotReady, Rejected
from channels.platform_calls import Names


class Platform:
    def __init__(self, answer: str | Exception) -> None:
        self.answer = answer
        self.asked: list[str] = []
        self.slow = asyncio.Event()
        self.slow.set()

    async def name_of(self, person: str) -> str:
        self.asked.append(person)
        await self.slow.wait()
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


@pytest.mark.parametrize(
    ("answer", "name"),
    [("Ada", "Ada"), ("", "U1"), (Rejected("no scope"), "U1")],
    ids=["told", "none", "refused"],
)
async def test_each_person_is_asked_for_once(answer: str | Exception, name: str) -> None:
    platform = Platform(answer)
    names = Names(platform.name_of, 1.0)
    async with asyncio.TaskGroup() as group:
        await names.learn(["U1", "U1", ""], group)
        await names.learn(["U1"], group)
    assert names.known == {"U1": name}
    assert platform.asked == ["U1"]


async def test_a_platform_that_did_not_answer_is_asked_again() -> None:
    platform = Platform(NotReady("busy"))
    names = Names(platform.name_of, 1.0)
    async with asyncio.TaskGroup() as group:
        await names.learn(["U1"], group)
        assert names.known == {}
        platform.answer = "Ada"
        await names.learn(["U1"], group)
    assert names.known == {"U1": "Ada"}


async def test_a_name_that_is_late_is_known_to_the_next_message() -> None:
    platform = Platform("Ada")
    platform.slow.clear()
    names = Names(platform.name_of, 0.01)
    async with asyncio.TaskGroup() as group:
        await names.learn(["U1"], group)
        assert names.known == {}
        platform.slow.set()
        await names.learn(["U1"], group)
        assert names.known == {"U1": "Ada"}
    assert platform.asked == ["U1"]


async def test_refused_credentials_end_the_connection() -> None:
    names = Names(Platform(AuthFailed("revoked")).name_of, 1.0)

    async def connection() -> None:
        async with asyncio.TaskGroup() as group:
            await names.learn(["U1"], group)

    with pytest.raises(ExceptionGroup) as failed:
        await connection()
    assert [type(error) for error in failed.value.exceptions] == [AuthFailed]
