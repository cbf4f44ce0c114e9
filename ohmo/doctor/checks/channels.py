"""Each chat platform: its package, who may speak, and whether it truly is connected."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import Any

from channels.errors import AuthFailed, ChannelError
from ohmo.config.channels import Opened, RawChannel, open_channels
from ohmo.doctor.contract import Check, Finding, Ground, note, ok, problem, skipped, warning
from ohmo.doctor.steps import credentials
from ohmo.setup.connecting import connected_as

UNREAD = "config.yaml cannot be read; see configuration.file"
SDKS = {
    "slack": "slack_sdk",
    "discord": "discord",
    "telegram": "telegram",
    "feishu": "lark_oapi",
    "matrix": "mautrix",
}
INDOORS = ("web", "console")


def _on(ground: Ground) -> Iterable[RawChannel]:
    return (
        [channel for channel in ground.config.channels if channel.enabled]
        if ground.config is not None
        else []
    )


def _some(ground: Ground) -> Finding:
    if ground.config is None:
        return skipped(UNREAD)
    return (
        ok()
        if any(_on(ground))
        else problem(
            "no channel is enabled: nobody can talk to it",
            "set channels.web.enabled: true, or ohmo init --channel NAME",
        )
    )


def _sdk(ground: Ground) -> Finding:
    if ground.config is None:
        return skipped(UNREAD)
    for channel in _on(ground):
        if (module := SDKS.get(channel.name)) and not ground.machine.has_module(module):
            return problem(
                f"{channel.name}: its SDK is not installed", f"pip install 'ohmo[{channel.name}]'"
            )
    return ok()


def _keys(ground: Ground) -> Finding:
    if ground.config is None:
        return skipped(UNREAD)
    for channel in _on(ground):
        if (
            channel.name == "matrix"
            and channel.settings.get("encryption") is True
            and not ground.machine.has_module("vodozemac")
        ):
            return problem(
                "matrix: encryption is on, but its library is not installed",
                "pip install 'ohmo[e2ee]'",
            )
    return ok()


def _deaf(ground: Ground) -> Finding:
    """The bot ignores everybody, and which policy says so."""
    if ground.config is None:
        return skipped(UNREAD)
    for channel in _on(ground):
        policy = channel.policy
        private = policy.dm == "off" or (policy.dm == "allowlist" and not policy.allow.people)
        groups = policy.groups == "off" or (
            policy.groups == "allowlist" and not policy.allow.groups
        )
        if channel.name not in INDOORS and private and groups:
            return problem(
                f"{channel.name}: dm: {policy.dm} and groups: {policy.groups} let nobody in; the"
                " bot ignores every message",
                f"set channels.{channel.name}.dm: pairing, or name people in"
                f" channels.{channel.name}.allow",
            )
    return ok()


def _silent_groups(ground: Ground) -> Finding:
    if ground.config is None:
        return skipped(UNREAD)
    deaf = [
        channel.name
        for channel in _on(ground)
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


def _twins(ground: Ground) -> Finding:
    if ground.config is None:
        return skipped(UNREAD)
    seen: dict[tuple[str, str], str] = {}
    for channel in _on(ground):
        manifest = ground.manifests.get(channel.name)
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


def _rows(ground: Ground) -> dict[str, Any] | Finding:
    if ground.holder is None:
        return skipped("no daemon is running")
    status = ground.ask("/api/v1/status")
    return (
        dict(status["channels"])
        if status is not None
        else skipped("the daemon does not answer; see daemon.answers")
    )


def _state(name: str, title: str, states: tuple[str, ...], step: Callable[[str], str]) -> Check:
    """What the running daemon says of its channels."""

    def examine(ground: Ground) -> Finding:
        rows = _rows(ground)
        if isinstance(rows, Finding):
            return rows
        found = [(label, row) for label, row in rows.items() if row["state"] in states]
        if not found:
            return ok()
        said = "; ".join(
            f"{label}: {row['state']}: {row['detail'] or 'no reason is known'}"
            for label, row in found
        )
        return problem(
            said, "; ".join(dict.fromkeys(step(label.partition("/")[0]) for label, _ in found))
        )

    return Check(name, title, examine)


def _quiet(ground: Ground) -> Finding:
    rows = _rows(ground)
    if isinstance(rows, Finding):
        return rows
    slow = [label for label, row in rows.items() if row["state"] == "starting"]
    return (
        warning(
            f"{', '.join(slow)}: still starting",
            "ask again in a minute; then ohmo logs --level warning",
        )
        if slow
        else ok()
    )


def _live(name: str) -> Check:
    def examine(ground: Ground) -> Finding:
        if ground.config is None:
            return skipped(UNREAD)
        wanted = [channel for channel in _on(ground) if channel.name == name]
        if not wanted:
            return skipped("not enabled")
        for one in open_channels(wanted, ground.manifests):
            failure = asyncio.run(_try(one, ground.patience))
            if failure is not None:
                refused = isinstance(failure, AuthFailed)
                text = (
                    f"{name}:"
                    f" {'the platform refuses our credentials: ' if refused else ''}{failure or type(failure).__name__}"
                )
                return problem(
                    text,
                    (
                        credentials(name)
                        if refused
                        else "see that this machine reaches the platform (network, proxy, api_url)"
                    ),
                )
        return ok("connected with the credentials of config.yaml")

    return Check(f"channels.{name}", f"{name} accepts our credentials", examine, live=True)


async def _try(channel: Opened, limit: float) -> ChannelError | None:
    try:
        await connected_as(channel, limit)
    except ChannelError as error:
        return error
    return None


CHECKS = (
    Check("channels.some", "there is a way to talk to it", _some),
    Check("channels.sdk", "every enabled channel's SDK is installed", _sdk),
    Check("channels.encryption", "Matrix can encrypt", _keys),
    Check("channels.deaf", "no channel ignores everybody", _deaf),
    Check("channels.groups", "groups are answered", _silent_groups),
    Check("channels.twins", "no two accounts share a token", _twins),
    Check("channels.starting", "no channel is stuck at its start", _quiet),
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
