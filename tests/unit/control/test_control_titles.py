"""What a conversation is called."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from channels.contract import Address, ChatId
from ohmo.contracts.arrivals import Wake
from ohmo.contracts.reports import ArrivalInfo, ThreadInfo
from ohmo.contracts.turns import ThreadSettings
from ohmo.control.titles import Titles

NOW = datetime(2026, 1, 5, 9, 0, tzinfo=UTC)


class History:
    def __init__(self, prompt: str) -> None:
        self._wake = Wake(
            "nightly@1",
            "cron",
            Address("house", "local", ChatId("nightly")),
            None,
            "owner",
            prompt,
            NOW,
        )
        self.read = 0

    async def history(
        self, thread: str, *, since: int = 0, limit: int = 500, before: int | None = None
    ) -> list[ArrivalInfo]:
        self.read += 1
        return [
            ArrivalInfo(thread, 1, "wake", "owner", NOW, "waiting", None, None, None, self._wake)
        ]


@pytest.mark.parametrize(
    ("channel", "chat", "title"),
    [
        ("house", "cron:nightly", "nightly"),
        ("house", "cron:nightly:telegram:7@bot", "nightly"),
        ("house", "hook:deploy:abc:def", "deploy"),
        ("house", "notices", "Notices"),
        ("web", "notices", "Notices"),
        ("web", "reports", "reports"),
        ("telegram", "notices", ""),
    ],
)
async def test_where_nobody_sits_it_is_called_by_what_speaks_there(
    channel: str, chat: str, title: str
) -> None:
    house = Titles(History("" if channel != "house" else "Look at the night."))  # type: ignore[arg-type]
    info = ThreadInfo(
        "t1", Address(channel, "local", ChatId(chat)), "", None, 0, NOW, "idle", ThreadSettings()
    )
    assert await house.of(info) == title
    assert (await house.named(info))[0] == title


async def test_a_thread_in_which_nothing_was_said_is_read_once_for_title_and_person() -> None:
    history = History("")
    info = ThreadInfo(
        "t1",
        Address("house", "local", ChatId("nightly")),
        "",
        "as it was named",
        0,
        NOW,
        "idle",
        ThreadSettings(),
    )
    assert await Titles(history).named(info) == ("as it was named", "")  # type: ignore[arg-type]
    assert history.read == 1
