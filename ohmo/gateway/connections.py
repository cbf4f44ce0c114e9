"""Which channels are connected now, and what the other rooms ask of them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from channels.contract import Address, Answer, Attachment, Channel, Outbound, PersonId, Whispering
from channels.errors import NotReady
from ohmo.contracts.errors import NotConnected, NotEnabled
from ohmo.contracts.inwriter import in_writer
from ohmo.gateway.drafts import Drafts
from ohmo.lifecycle import failure_of, within

# bytes of one file of a person; platforms have smaller bounds (``max_file`` is for what we send)
LARGEST_FETCHED = 100 << 20
SAY_LIMIT = 10.0  # seconds a word that nobody keeps may take


class Connections:
    """The switchboard writes it, everybody else reads it. ``enabled``: names of the channels of the
    configuration, connected or not."""

    def __init__(self, enabled: Sequence[str]) -> None:
        self.enabled = sorted(set(enabled))
        self._channels: dict[tuple[str, str], Channel] = {}
        self._drafts: dict[tuple[str, str], Drafts] = {}

    def opened(self, name: str, channel: Channel, drafts: Drafts) -> bool:
        """False: another connection speaks for this account."""
        key = (name, channel.account)
        if key in self._channels:
            return False
        self._channels[key] = channel
        self._drafts[key] = drafts
        return True

    def closed(self, name: str, account: str) -> None:
        """The connection has ended."""
        del self._channels[name, account]
        del self._drafts[name, account]

    def address(self, channel: str, rest: str) -> Address | None:
        """``rest`` read by a connected channel of this name. Raises ValueError with one line; None:
        not connected."""
        for (name, _), found in self._channels.items():
            if name == channel:
                return found.parse_address(rest)
        return None

    def parse(self, text: str) -> Address:
        """Reads ``CHANNEL:REST`` with the channel's own grammar. Raises ValueError with one line;
        NotConnected and NotEnabled when nobody here knows that grammar now."""
        channel, colon, rest = text.partition(":")
        if not colon or not rest:
            raise ValueError(f"{text}: an address is CHANNEL:REST, for example slack:C123/1700.1")
        found = self.address(channel, rest)
        if found is not None:
            return found
        if channel in self.enabled:
            raise NotConnected(f"{text}: the channel {channel} is not connected")
        raise NotEnabled(
            f"{text}: the channel {channel} is not enabled, only {', '.join(self.enabled)};"
            " config.yaml enables it"
        )

    def largest(self, place: Address) -> int | None:
        """Bytes of one file its channel takes; None: not connected, so nobody knows."""
        channel = self._at(place)
        return channel.capabilities.max_file if channel is not None else None

    async def fetch(self, place: Address, attachment: Attachment, into: Path) -> Path:
        """The file, inside ``into``. Raises ChannelError; NotReady when the channel is not
        connected."""
        channel = self._at(place)
        if channel is None:
            raise NotReady(f"{place.channel} is not connected")
        return await channel.fetch(attachment, into, LARGEST_FETCHED)

    @in_writer
    def drafted(self, row: str) -> str | None:
        """The newest text of a draft that still grows; None: nothing of it is known here."""
        for drafts in list(self._drafts.values()):
            if (text := drafts.newest(row)) is not None:
                return text
        return None

    async def acknowledge(self, answer: Answer, text: str) -> None:
        """The platform's own reply to a pressed button; may fail without harm."""
        channel = self._at(answer.address)
        if channel is not None:
            await channel.acknowledge(answer, text)

    async def whisper(self, place: Address, person: PersonId, text: str) -> None:
        """Said to one person in a shared place, where the platform has that; may fail without
        harm."""
        channel = self._at(place)
        if isinstance(channel, Whispering):
            await channel.whisper(place, person, text)

    async def say_now(self, outbound: Outbound, key: str) -> bool:
        """Said at once and kept nowhere, while the store is away. False: its channel is not
        connected, or would not."""
        channel = self._at(outbound.address)
        if channel is None:
            return False

        async def say() -> None:
            for number, part in enumerate(channel.render(outbound)):
                await channel.send(part, f"{key}.{number}", None)

        return await failure_of(within(SAY_LIMIT, say())) is None

    def _at(self, place: Address) -> Channel | None:
        return self._channels.get((place.channel, place.account))
