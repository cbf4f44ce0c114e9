"""What the set-up of a house is and may become: read, tried and written without a terminal. No
secret's value is ever in an answer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Literal, Protocol

from channels.record import record
from ohmo.contracts.errors import OhmoError

Preset = Literal["safe", "balanced", "full"]
Role = Literal["admin", "user", "guest"]


class Stale(OhmoError):
    """The configuration was changed since it was read here; it is shown as it is now, say again
    what you want."""


@record
class KeyAsked:
    """One key of a channel. ``value``: as written, "" for a secret; ``reference``: where a secret
    is kept (``env:NAME``), ``there``: it is set."""

    key: str
    question: str
    page: str
    secret: bool
    default: str
    value: str
    reference: str
    there: bool


@record
class ChannelSetup:
    """``steps``: what is done on the platform's own pages, first to last; ``texts``: name → what a
    step says to paste; ``after``: what is left to do there. ``several``: it has more than one
    account, which only the file can hold."""

    name: str
    title: str
    enabled: bool
    several: bool
    steps: tuple[str, ...]
    texts: Mapping[str, str]
    keys: tuple[KeyAsked, ...]
    after: tuple[str, ...]


@record
class ModelSetup:
    """``reference``: where the key is kept; ``there``: it is set."""

    profile: str
    provider: str
    base_url: str
    models: tuple[str, ...]
    reference: str
    there: bool


@record
class PeopleSetup:
    """Addresses (``slack:U123``) that the file names."""

    owner: tuple[str, ...]
    admin: tuple[str, ...]
    user: tuple[str, ...]
    guest: tuple[str, ...]
    default_role: str


@record
class RulesSetup:
    preset: str
    mode: str
    allow: tuple[str, ...]
    ask: tuple[str, ...]
    deny: tuple[str, ...]


@record
class HouseSetup:
    """``version`` names what was read: a change says it again. ``taken``: the house runs with what
    the files say. ``problem``: why they cannot be taken over, "" when they can."""

    version: str
    file: str
    taken: bool
    problem: str
    model: ModelSetup
    channels: tuple[ChannelSetup, ...]
    people: PeopleSetup
    rules: RulesSetup


@record
class ModelWish:
    """``key`` "": the one there is; else its value, or a reference. ``model`` "": the provider's
    own."""

    provider: str
    base_url: str = ""
    model: str = ""
    key: str = field(default="", repr=False)


@record
class Tried:
    """``who``: what answered, as whom it was connected. ``text`` and ``next``: what is wrong and
    the step. ``models``: those the endpoint has."""

    fine: bool
    who: str
    text: str = ""
    next: str = ""
    models: tuple[str, ...] = ()


class SetUp(Protocol):
    """Each change raises Stale, or ConfigError with one line when it would be refused; then nothing
    was written. Else it gives the new version, and the house takes it over by itself."""

    async def state(self) -> HouseSetup: ...
    async def try_model(self, wish: ModelWish) -> Tried: ...
    async def choose_model(self, version: str, wish: ModelWish) -> str: ...
    async def try_channel(self, name: str, keys: Mapping[str, str]) -> Tried: ...
    async def set_channel(
        self, version: str, name: str, *, enabled: bool, keys: Mapping[str, str]
    ) -> str: ...
    async def set_people(self, version: str, people: PeopleSetup) -> str: ...
    async def set_rules(self, version: str, rules: RulesSetup) -> str: ...
