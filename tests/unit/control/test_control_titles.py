"""What a conversation is called."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import get_args

import pytest

from channels.contract import Address, ChatId
from ohmo.contracts.arrivals import Wake
from ohmo.contracts.cron import JobSpec, When
from ohmo.contracts.reports import ArrivalInfo, ThreadInfo
from ohmo.contracts.store import ThreadSettings
from ohmo.control.titles import Titles
from ohmo.cron.wakes import prompt_of

NOW = datetime(2026, 1, 5, 9, 0, tzinfo=UTC)


class History:
    def __init__(self, prompt: str) -> None:
        self._wake = Wake("nightly@1", "cron", Address("house", "local", ChatId("nightly")), None, "owner", prompt, NOW)
        self.read = 0

    async def history(self, thread: str, *, since: int = 0, limit: int = 500, before: int | None = None) -> list[ArrivalInfo]:
        self.read += 1
        return [ArrivalInfo(thread, 1, "wake", "owner", NOW, "waiting", None, None, None, self._wake)]


@pytest.mark.parametrize("when", get_args(When))
async def test_the_thread_of_a_job_is_called_by_the_jobs_own_words(when: When) -> None:
    spec = JobSpec("nightly", "Look at the night.\n\n(All of it.)", "UTC", schedule="@daily", when=when)
    house = Titles(History(prompt_of(spec, NOW, "a report\n\n(with brackets)")))  # type: ignore[arg-type]
    info = ThreadInfo("t1", Address("house", "local", ChatId("nightly")), "", None, 0, NOW, "idle", ThreadSettings())
    assert await house.of(info) == "Look at the night. (All of it.)"


async def test_a_thread_in_which_nothing_was_said_is_read_once_for_title_and_person() -> None:
    history = History("")
    info = ThreadInfo("t1", Address("house", "local", ChatId("nightly")), "", "as it was named", 0, NOW, "idle", ThreadSettings())
    assert await Titles(history).named(info) == ("as it was named", "")  # type: ignore[arg-type]
    assert history.read == 1
