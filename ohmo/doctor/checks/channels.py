"""Each chat platform: its package, who may speak, and whether it truly is connected."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from channels.errors import AuthFailed, ChannelError
from ohmo.config.channels import RawChannel, open_channels
from ohmo.doctor.check import (
    Check,
    Facts,
    Finding,
    Json,
    config,
    needs,
    note,
    ok,
    problem,
    skipped,
    status,
    warning,
)
from ohmo.setup.platforms import connected_as

SDKS = {
    "slack": "slack_sdk",
    "discord": "discord",
    "telegram": "telegram",
    "feishu": "lark_oapi",
    "matrix": "mautrix",
}
INDOORS = ("web", "console")
NO_REASON = "no reason is known"
# the platforms' own pages where a token is made: the exact place for each
_PAGES = {
    "slack": (
        "api.slack.com/apps, your app: OAuth & Permissions (xoxb-) and Basic Information, App-Level"
        " Tokens (xapp-, connections:write)"
    ),
    "discord": (
        "discord.com/developers/applications, your application, Bot: Reset Token; Message Content"
        " Intent on"
    ),
    "telegram": "@BotFather: /token shows it, /revoke makes a new one",
    "feishu": (
        "open.feishu.cn/app (open.larksuite.com/app), your app, Credentials & Basic Info: App ID"
        " and App Secret"
    ),
    "matrix": (
        "log the bot in once more (Element: Settings, Help & About, Access Token) and keep that"
        " device for ohmo alone"
    ),
}


def credentials(channel: str) -> str:
    """One line: where this platform's credentials come from."""
    return _PAGES.get(channel, f"put valid credentials under channels.{channel}")


def _enabled(facts: Facts) -> list[RawChannel] | Finding:
    found = config(facts)
    if isinstance(found, Finding):
        return found
    return [channel for channel in found.channels if channel.enabled]


@needs(_enabled)
def some(_: Facts, enabled: list[RawChannel]) -> Finding:
    if enabled:
        return ok()
    return problem(
        "no channel is enabled: nobody can talk to it",
        "set channels.web.enabled: true, or ohmo init --channel NAME",
    )


@needs(_enabled)
def sdk(facts: Facts, enabled: list[RawChannel]) -> Finding:
    for channel in enabled:
        if (module := SDKS.get(channel.name)) and not facts.machine.has_module(module):
            return problem(
                f"{channel.name}: its SDK is not installed", f"pip install 'ohmo[{channel.name}]'"
            )
    return ok()


@needs(_enabled)
def keys(facts: Facts, enabled: list[RawChannel]) -> Finding:
    for channel in enabled:
        if (
            channel.name == "matrix"
            and channel.settings.get("encryption") is True
            and not facts.machine.has_module("vodozemac")
        ):
            return problem(
                "matrix: encryption is on, but its library is not installed",
                "pip install 'ohmo[e2ee]'",
            )
    return ok()


@needs(_enabled)
def deaf(_: Facts, enabled: list[RawChannel]) -> Finding:
    """The bot ignores everybody, and which policy says so."""
    for channel in enabled:
        policy = channel.policy
        nobody = policy.dm == "allowlist" and not policy.allow.people
        nowhere = policy.groups == "allowlist" and not policy.allow.groups
        private = policy.dm == "off" or nobody
        groups = policy.groups == "off" or nowhere
        if channel.name not in INDOORS and private and groups:
            return problem(
                f"{channel.name}: dm: {policy.dm} and groups: {policy.groups} let nobody in; the"
                " bot ignores every message",
                f"set channels.{channel.name}.dm: pairing, or name people in"
                f" channels.{channel.name}.allow",
            )
    return ok()


@needs(_enabled)
def silent_groups(_: Facts, enabled: list[RawChannel]) -> Finding:
    deaf = [
        channel.name
        for channel in enabled
        if channel.name not in INDOORS
        and channel.policy.groups == "allowlist"
        and not channel.policy.allow.groups
    ]
    if not deaf:
        return ok()
    return note(
        f"{', '.join(deaf)}: answers in no group (groups: allowlist is empty)",
        f"name some in channels.{deaf[0]}.allow.groups, or set groups: open",
    )


@needs(_enabled)
def twins(facts: Facts, enabled: list[RawChannel]) -> Finding:
    seen: dict[tuple[str, str], str] = {}
    for channel in enabled:
        manifest = facts.manifests.get(channel.name)
        for secret in manifest.secrets if manifest is not None else ():
            written = channel.settings.get(secret)
            key = (channel.name, str(written))
            if (
                written is not None
                and seen.get(key, channel.policy.account) != channel.policy.account
            ):
                return problem(
                    f"channels.{channel.name}: two accounts share {secret}; the platform lets only"
                    " one listen",
                    "give each account its own token",
                )
            seen[key] = channel.policy.account or ""
    return ok()


def _state(name: str, title: str, states: tuple[str, ...], step: Callable[[str], str]) -> Check:
    """What the running daemon says of its channels."""

    @needs(status)
    def examine(_: Facts, status: Json) -> Finding:
        reasons: list[str] = []
        steps: list[str] = []
        for label, row in status["channels"].items():
            if row["state"] in states:
                reason = row["detail"] or NO_REASON
                reasons.append(f"{label}: {row['state']}: {reason}")
                steps.append(step(label.partition("/")[0]))
        if not reasons:
            return ok()
        return problem("; ".join(reasons), "; ".join(dict.fromkeys(steps)))

    return Check(name, title, examine)


@needs(status)
def quiet(_: Facts, status: Json) -> Finding:
    slow = [label for label, row in status["channels"].items() if row["state"] == "starting"]
    if not slow:
        return ok()
    return warning(
        f"{', '.join(slow)}: still starting",
        "ask again in a minute; then ohmo logs --level warning",
    )


def _live(name: str) -> Check:
    @needs(_enabled)
    def examine(facts: Facts, enabled: list[RawChannel]) -> Finding:
        accounts = [channel for channel in enabled if channel.name == name]
        if not accounts:
            return skipped("not enabled")
        for channel in open_channels(accounts, facts.manifests):
            try:
                asyncio.run(connected_as(channel, facts.patience))
            except AuthFailed as error:
                text = str(error) or type(error).__name__
                return problem(
                    f"{name}: the platform refuses our credentials: {text}", credentials(name)
                )
            except ChannelError as error:
                return problem(
                    f"{name}: {error}",
                    "see that this machine reaches the platform (network, proxy, api_url)",
                )
        return ok("connected with the credentials of config.yaml")

    return Check(f"channels.{name}", f"{name} accepts our credentials", examine, live=True)


CHECKS = (
    Check("channels.some", "there is a way to talk to it", some),
    Check("channels.sdk", "every enabled channel's SDK is installed", sdk),
    Check("channels.encryption", "Matrix can encrypt", keys),
    Check("channels.deaf", "no channel ignores everybody", deaf),
    Check("channels.groups", "groups are answered", silent_groups),
    Check("channels.twins", "no two accounts share a token", twins),
    Check("channels.starting", "no channel is stuck at its start", quiet),
    _state(
        "channels.refused", "no platform refuses our credentials", ("auth_failed",), credentials
    ),
    _state(
        "channels.conflict",
        "nobody else uses our tokens",
        ("conflict",),
        lambda name: (
            f"stop the other program that uses the token of channels.{name}, or make a new token"
        ),
    ),
    _state(
        "channels.connected",
        "every channel is connected",
        ("reconnecting", "failed"),
        lambda name: (
            f"ohmo doctor --live --only channels.{name}; ohmo logs --level warning tells more"
        ),
    ),
    *(_live(name) for name in ("slack", "discord", "telegram", "feishu", "matrix")),
)
