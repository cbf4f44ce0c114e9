"""Files of a message are fetched when its turn needs them, also when the channel is not there
yet."""

from __future__ import annotations

from pathlib import Path

import pytest

from channels.contract import Address, Attachment, ChatId
from channels.errors import ChannelError, NotReady, RateLimited, Rejected
from ohmo.gateway.connections import AttachmentFetcher
from ohmo.media import Media
from tests.makers import inbound

NOTES = Attachment("f1", "notes.txt", "text/plain", 5)
SAID = inbound(Address("fake", "bot", ChatId("C1")), "look", "1", attachments=(NOTES,))


class Platform:
    """Fails as told, then hands out the file under a name of its own."""

    def __init__(self, *failures: ChannelError) -> None:
        self.failures = list(failures)
        self.slept = 0.0

    async def fetch(self, address: Address, attachment: Attachment, into: Path) -> Path:
        if self.failures:
            raise self.failures.pop(0)
        (into / "x").write_text("notes")
        return into / "x"

    async def sleep(self, seconds: float) -> None:
        self.slept += seconds


async def test_a_file_is_waited_for_until_the_channel_is_connected(tmp_path: Path) -> None:
    platform, media = Platform(NotReady("not connected"), RateLimited(3.0)), Media(tmp_path)
    assert await AttachmentFetcher(media, platform.fetch, platform.sleep)(SAID) == []
    assert media.path(SAID.address, NOTES).read_text() == "notes"
    assert platform.slept == 3.5
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []


async def test_a_file_that_will_never_come_is_said(tmp_path: Path) -> None:
    platform = Platform(Rejected("gone"))
    assert await AttachmentFetcher(Media(tmp_path), platform.fetch, platform.sleep)(SAID) == [
        "(The file notes.txt could not be fetched: gone)"
    ]


async def test_a_channel_that_stays_away_gives_the_turn_back(tmp_path: Path) -> None:
    platform = Platform(*[NotReady("not connected")] * 1000)
    with pytest.raises(NotReady, match=r"notes\.txt"):
        await AttachmentFetcher(Media(tmp_path), platform.fetch, platform.sleep)(SAID)
    assert 30 <= platform.slept <= 60


async def test_a_file_is_fetched_once(tmp_path: Path) -> None:
    platform = Platform()
    fetching = AttachmentFetcher(Media(tmp_path), platform.fetch, platform.sleep)
    await fetching(SAID)
    platform.failures.append(Rejected("asked twice"))
    assert await fetching(SAID) == []
