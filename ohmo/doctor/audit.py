"""What a stranger or a careless model could do here, by severity: the ways in, what may run, and
what lies open."""

from __future__ import annotations

import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

from channels.record import record
from ohmo.config.load import Config
from ohmo.config.source import Plain
from ohmo.config.values import Secret
from ohmo.contracts.hooks import OWN_FILE
from ohmo.doctor.checks.sandbox import step
from ohmo.hooks.hook import HookFile, Program
from ohmo.hooks.project import read_file
from ohmo.sandbox.walls import Standing

Severity = Literal["critical", "high", "medium", "low"]
ORDER: tuple[Severity, ...] = ("critical", "high", "medium", "low")
LOOPBACK = ("127.0.0.1", "localhost", "::1")
PACKAGES = Path(__file__).resolve().parents[2]
_PRIVATE = ("token", "secret", "password", "api_key", "access_key", "secret_key")
_WIDE = ("Bash", "Bash(*)", "Write", "Edit", "MultiEdit")


@record
class Risk:
    """``next``: how to close it."""

    name: str
    severity: Severity
    text: str
    next: str


def audit(
    config: Config, user: int, packages: Path = PACKAGES, walls: Standing | None = None
) -> list[Risk]:
    """Gravest first. ``user``: whose process this is. ``packages``: the folder ohmo is installed
    in. ``walls``: whether the sandbox holds, None: nobody tried."""
    risks = [
        *_people(config),
        *_acting(config, user),
        *_walls(config, walls),
        *_bare(config),
        *_unattended(config),
        *_network(config),
        *_files(config),
        *_places(config, user, packages),
        *_secrets(config),
    ]
    return sorted(risks, key=lambda risk: ORDER.index(risk.severity))


def _people(config: Config) -> Iterator[Risk]:
    free = config.permissions.mode == "full_auto"
    for channel in config.channels:
        if not channel.enabled or channel.name in ("web", "console"):
            continue
        name, policy = channel.name, channel.policy
        if policy.dm == "open":
            close = f"set channels.{name}.dm: pairing"
            if free:
                yield Risk(
                    "open_door_full_auto",
                    "critical",
                    f"{name}: everybody may write (dm: open) and nothing is asked (full_auto)",
                    close,
                )
            else:
                yield Risk(
                    "open_door",
                    "high",
                    f"{name}: everybody may write to it and use its tools (dm: open)",
                    close,
                )
        if policy.groups == "open":
            grave: Severity = "high" if free or policy.mention == "optional" else "medium"
            text = f"{name}: it answers in every group it is added to" + (
                "" if policy.mention == "required" else ", also when it is not mentioned"
            )
            yield Risk("open_groups", grave, text, f"set channels.{name}.groups: allowlist")
    if config.access.default_role == "admin":
        yield Risk(
            "default_admin",
            "high",
            "whoever is let in becomes admin and may answer everybody's questions",
            "set access.default_role: user",
        )
    if not config.owner and not config.access.roles.owner:
        yield Risk(
            "no_owner",
            "low",
            "nobody is owner: alarms are seen in the browser only",
            'write owner: ["CHANNEL:ID"]',
        )


def _acting(config: Config, user: int) -> Iterator[Risk]:
    rules = config.permissions
    if rules.caged:
        text = "where a sandbox holds, nothing is asked (permissions.preset: full)"
        yield Risk("full_auto", "medium", text, "set permissions.preset: balanced")
    elif rules.mode == "full_auto":
        yield Risk(
            "full_auto",
            "high",
            "nothing is asked (permissions.mode: full_auto)",
            "set permissions.mode: default",
        )
    for rule in rules.allow:
        if _is_wide(rule):
            yield Risk(
                "wide_rule",
                "high",
                f"permissions.allow: {rule} lets it run or write anything unasked",
                "name single commands, such as Bash(git status:*)",
            )
    if rules.read_outside == "allow":
        text = "files outside the workspace are read unasked (permissions.read_outside: allow)"
        yield Risk("reads_outside", "low", text, "set permissions.read_outside: ask")
    if user == 0:
        yield Risk(
            "root",
            "high",
            "ohmo runs as root: what it runs may change the whole machine",
            "run it as a user of its own",
        )
    folder = config.workspace.resolve()
    if folder in (Path("/"), Path.home().resolve()) or config.home.root.resolve().is_relative_to(
        folder
    ):
        yield Risk(
            "wide_workspace",
            "medium",
            f"the workspace {folder} holds more than work",
            "set workspace to a folder of its own",
        )


def _is_wide(rule: str) -> bool:
    text = rule.replace(" ", "")
    return text in _WIDE or text.startswith(("Bash(sudo", "Bash(sh:", "Bash(bash:", "Bash(python"))


def _unattended(config: Config) -> Iterator[Risk]:
    """What runs when nobody is there, on words that may come from anywhere."""
    given = [(f"cron.jobs: {job.name}", job.rules) for job in config.cron.jobs]
    given += [(f"webhooks.{name}", hook.rules) for name, hook in config.webhooks.items()]
    for what, rules in given:
        for rule in rules:
            if _is_wide(rule):
                yield Risk(
                    "wide_job",
                    "high",
                    f"{what} may {rule}: anything, when nobody is there",
                    "name single commands, such as Bash(gh run list:*)",
                )
    for name, hook in config.webhooks.items():
        if hook.role in ("owner", "admin") and config.permissions.mode == "full_auto":
            text = (
                f"webhooks.{name}: whatever is sent to it acts as {hook.role}, and nothing is asked"
                " (full_auto)"
            )
            yield Risk("strong_webhook", "critical", text, f"set webhooks.{name}.role: user")


def _network(config: Config) -> Iterator[Risk]:
    address = config.control.address
    if address is not None and address[0] not in LOOPBACK:
        everywhere = address[0] in ("0.0.0.0", "::", "*")  # noqa: S104 - compared, not bound
        grave: Severity = "high" if everywhere else "medium"
        yield Risk(
            "listens",
            grave,
            f"the API can be reached from other machines at {address[0]}, without TLS",
            "set control.listen: 127.0.0.1:7717",
        )
    base = config.profile.base_url or ""
    if (
        base.startswith("http://")
        and base.removeprefix("http://").split("/")[0].rsplit(":", 1)[0].strip("[]") not in LOOPBACK
    ):
        yield Risk(
            "plain_model",
            "high",
            f"what is said and the key go to {base} unencrypted",
            "write https:// there",
        )


def close(config: Config) -> list[str]:
    """Takes from others what of the home lies open to them; what was done, a line each."""
    done: list[str] = []
    for _, path in _open(config):
        try:
            path.chmod(stat.S_IMODE(path.stat().st_mode) & 0o700)
        except OSError as error:
            done.append(f"{path}: cannot be closed ({error.strerror}); its owner can")
        else:
            done.append(f"{path}: closed to others")
    return done


def _open(config: Config) -> Iterator[tuple[str, Path]]:
    for name in ("", "config.yaml", ".env", "run/token", "ohmo.db", "state", "backups"):
        path = config.home.root / name
        if path.exists() and stat.S_IMODE(path.stat().st_mode) & 0o077:
            yield name, path


def _files(config: Config) -> Iterator[Risk]:
    for name, path in _open(config):
        grave: Severity = "critical" if name in (".env", "run/token") else "high"
        text = f"{path}: others on this machine can open it"
        yield Risk("open_file", grave, text, f"chmod go= {path}")


def _places(config: Config, user: int, packages: Path) -> Iterator[Risk]:
    """Folders in which somebody else could put another ohmo, or another home: whoever may write
    packages may also write what every start runs."""
    root = config.home.root.absolute()
    ours = {0, user, *([root.stat().st_uid] if root.exists() else [])}
    for folder, what in (
        (packages, "what ohmo runs"),
        (packages / "ohmo", "what ohmo runs"),
        (root.parent, "your home"),
    ):
        if not folder.exists():
            continue
        status = folder.stat()
        is_shared = status.st_mode & stat.S_IWOTH and not status.st_mode & stat.S_ISVTX
        is_ours = status.st_uid in ours
        if is_shared or not is_ours:
            close = f"put it where only you write; {folder} is somebody else's"
            if is_ours:
                close = f"chmod o-w {folder}"
            text = f"{folder}: others on this machine can put other files in the place of {what}"
            yield Risk("exchangeable", "critical", text, close)


def _walls(config: Config, walls: Standing | None) -> Iterator[Risk]:
    if config.sandbox.backend == "none":
        text = "commands, hooks and MCP servers run without a sandbox (sandbox.backend: none)"
        yield Risk("no_sandbox", "high", text, "set sandbox.backend: auto")
    lacking = walls.lacking(wanted=config.permissions.caged) if walls is not None else ""
    if config.sandbox.backend != "none" and walls is not None and walls.backend == "none":
        lacking = lacking or walls.words
    if lacking and config.sandbox.backend != "none":
        yield Risk("no_sandbox", "high", lacking, step(config))
    elif lacking:
        yield Risk("full_not_in_force", "low", lacking, "set permissions.preset: balanced")
    if config.sandbox.backend == "none":
        return
    if config.sandbox.network == "on":
        text = "commands reach the network unasked (sandbox.network: on)"
        yield Risk("open_network", "medium", text, "set sandbox.network: ask")


def _bare(config: Config) -> Iterator[Risk]:
    """What of the owner's own is kept out of a sandbox that may hold."""
    if config.sandbox.backend == "none":
        return
    own = read_file(config.home.root / OWN_FILE, OWN_FILE) or HookFile()
    names = [f"the MCP server {name}" for name, each in config.mcp.items() if each.sandbox.off]
    programs = [(hook.name, hook.action) for hook in own.hooks if isinstance(hook.action, Program)]
    names += [f"the hook {name}" for name, action in programs if action.terms.off]
    close = "open what it needs instead: sandbox: {read: [PLACE], write: [PLACE]}"
    for name in names:
        yield Risk("unwalled", "medium", f"{name} runs without walls (sandbox: off)", close)


def _secrets(config: Config) -> Iterator[Risk]:
    for path in _literals(config.source.data, ()):
        yield Risk(
            "literal_secret",
            "low",
            f"config.yaml: {path} holds a secret as it is",
            "put it into .env and write env:NAME",
        )


def _literals(value: Plain, path: tuple[str, ...]) -> Iterator[str]:
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from _literals(inner, (*path, key))
    elif isinstance(value, list):
        for inner in value:
            yield from _literals(inner, path)
    elif (
        isinstance(value, str)
        and path
        and path[-1].endswith(_PRIVATE)
        and Secret(value).kind == "literal"
    ):
        yield ".".join(path)
