"""From the channels of the configuration to links the switchboard can build: manifests by scan,
adapters by string."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
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
        return About(
            tuple(
                PersonId(one.partition(":")[2])
                for one in self.owners
                if one.startswith(f"{channel}:")
            ),
            self.model,
        )


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
    found = discover()
    return found.manifests, found.broken


def wire(config: Config, clock: Callable[[], Any], began: datetime | None = None) -> Wired:
    """``began``: the daemon, which may live longer than this configuration. Raises ConfigError with
    every problem of every channel."""
    known, broken = manifests()
    opened = open_channels(config.channels, known)
    accounts = Accounts(opened)
    browser: Browser | None = None
    links = [
        LinkSettings(
            "house",
            "house",
            InternalChannel,
            config.home.state("house"),
            _fence(ChannelPolicy()),
            heavy=False,
        )
    ]
    door = Door()
    for one in opened:
        label = _label(one, opened)
        state = config.home.state(label.replace("/", "-"))
        about = partial(door.about, one.manifest.name)
        options = Options(one.policy.streaming, clock, state, door.invited, about, began, ELSEWHERE)
        build = _builder(one, options)
        if (
            one.manifest.name in INDOORS
        ):  # one for the life of the process: they hold what people said there
            adapter = build()
            browser = cast("Any", adapter).browser if one.manifest.name == "web" else browser
            build = _always(adapter)
        links.append(
            LinkSettings(
                one.manifest.name,
                label,
                build,
                state,
                _fence(one.policy),
                one.policy.streaming,
                one.manifest.name not in INDOORS,
                activity_of(one),
                accounts.meet(one),
            )
        )
    return Wired(tuple(links), accounts.policy, browser, broken, accounts.activity, door)


def _builder(one: Opened, options: Options) -> Callable[[], Channel]:
    def build() -> Channel:
        adapter = cast("Callable[[Any, Options], Channel]", load(one.manifest.adapter))
        return adapter(one.settings, options)

    return build


def _always(adapter: Channel) -> Callable[[], Channel]:
    return lambda: adapter


def _fence(policy: ChannelPolicy) -> tuple[Any, int]:
    return policy.catch_up.max_age, policy.catch_up.max_messages


def _label(one: Opened, opened: Sequence[Opened]) -> str:
    twins = [other for other in opened if other.manifest.name == one.manifest.name]
    return (
        one.manifest.name
        if len(twins) == 1
        else f"{one.manifest.name}/{one.policy.account or opened.index(one)}"
    )


def roles(config: Config) -> Roles:
    """The owner's list counts as ``access.roles.owner``; a person named twice has the higher
    role."""
    named: dict[str, Standing] = {}
    for standing in ("guest", "user", "admin", "owner"):
        named.update(dict.fromkeys(getattr(config.access.roles, standing), standing))
    named.update(dict.fromkeys(config.owner, "owner"))
    return Roles(named, config.access.default_role)
