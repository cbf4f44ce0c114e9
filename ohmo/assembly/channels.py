"""From the channels of the configuration to links the switchboard can build: manifests by scan,
adapters by string."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from typing import Any, cast

from channels.contract import About, Address, Channel, Manifest, Options, Person, PersonId
from channels.record import record
from channels.registry import discover, load
from channels.web.client import Browser
from ohmo.commands.aliases import INSTEAD, SAME
from ohmo.config.channels import Opened, open_channels
from ohmo.config.load import Config
from ohmo.config.models import ChannelPolicy
from ohmo.gateway.access import Access, Accounts, Policy, Roles, Standing, activity_of
from ohmo.gateway.connections import LinkSettings
from ohmo.gateway.draft_updates import Mode
from ohmo.gateway.internal_channel import InternalChannel

ELSEWHERE = frozenset((*SAME, *INSTEAD))
INDOORS = ("web", "console")  # platforms that live in this very process, without an SDK


@dataclass(slots=True)
class Door:
    """Asked by channels whether somebody may bring the bot into a place (nobody may before the
    house knows its people), and what they may tell about the house. ``owners``: as
    ``channel:person``."""

    access: Access | None = None
    owners: tuple[str, ...] = ()
    model: str = ""

    def invited(self, place: Address, person: Person, private: bool) -> bool:
        return self.access is not None and self.access.may_invite(place, person.id, private=private)

    def about(self, channel: str) -> About:
        owners: list[PersonId] = []
        for owner in self.owners:
            platform, _, person = owner.partition(":")
            if platform == channel:
                owners.append(PersonId(person))
        return About(tuple(owners), self.model)


@record
class Wired:
    """``policy`` and ``activity`` of a channel and account; ``browser``: how control speaks into
    the web channel; ``broken``: packages that were skipped; ``door``: waits for the house's
    ``Access``."""

    links: tuple[LinkSettings, ...]
    policy: Callable[[str, str], Policy]
    browser: Browser | None
    broken: tuple[str, ...]
    activity: Callable[[str, str], Mode] = lambda _, __: "off"
    door: Door = field(default_factory=Door)


def manifests() -> tuple[Mapping[str, Manifest], tuple[str, ...]]:
    """Every channel that is installed, and what was wrong with those that were skipped."""
    discovered = discover()
    return discovered.manifests, discovered.broken


def wire(config: Config, clock: Callable[[], Any], began: datetime | None = None) -> Wired:
    """``began``: the daemon, which may live longer than this configuration. Raises ConfigError with
    every problem of every channel."""
    installed, broken = manifests()
    opened = open_channels(config.channels, installed)
    accounts = Accounts(opened)
    browser: Browser | None = None
    state = config.home.state("house")
    catch_up = _catch_up(ChannelPolicy())
    links = [LinkSettings("house", "house", InternalChannel, state, catch_up, heavy=False)]
    door = Door()
    for entry in opened:
        name = entry.manifest.name
        twins = [other for other in opened if other.manifest.name == name]
        label = name
        if len(twins) > 1:
            label = f"{name}/{entry.policy.account or opened.index(entry)}"
        state = config.home.state(label.replace("/", "-"))
        about = partial(door.about, name)
        streaming = entry.policy.streaming
        options = Options(streaming, clock, state, door.invited, about, began, ELSEWHERE)
        build = partial(_adapter, entry, options)
        if name in INDOORS:  # one for the life of the process: it holds what people said there
            adapter = _adapter(entry, options)
            browser = cast("Any", adapter).browser if name == "web" else browser
            build = partial(_itself, adapter)
        links.append(
            LinkSettings(
                name,
                label,
                build,
                state,
                _catch_up(entry.policy),
                streaming,
                name not in INDOORS,
                activity_of(entry),
                accounts.meet(entry),
            )
        )
    return Wired(tuple(links), accounts.policy, browser, broken, accounts.activity, door)


def _adapter(entry: Opened, options: Options) -> Channel:
    make = cast("Callable[[Any, Options], Channel]", load(entry.manifest.adapter))
    return make(entry.settings, options)


def _itself(adapter: Channel) -> Channel:
    return adapter


def _catch_up(policy: ChannelPolicy) -> tuple[Any, int]:
    return policy.catch_up.max_age, policy.catch_up.max_messages


def roles(config: Config) -> Roles:
    """The owner's list counts as ``access.roles.owner``; a person named twice has the higher
    role."""
    named: dict[str, Standing] = {}
    for standing in ("guest", "user", "admin", "owner"):
        named.update(dict.fromkeys(getattr(config.access.roles, standing), standing))
    named.update(dict.fromkeys(config.owner, "owner"))
    return Roles(named, config.access.default_role)
