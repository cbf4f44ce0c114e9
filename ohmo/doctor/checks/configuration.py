"""What config.yaml says, and whether it can mean that."""

from __future__ import annotations

import re
import zoneinfo
from collections.abc import Iterator
from pathlib import Path

from ohmo.config.load import Config
from ohmo.contracts.errors import OhmoError
from ohmo.doctor.check import Check, Facts, Finding, config, needs, note, ok, problem, warning
from ohmo.permissions.rules import PATH_TOOLS, Rule, parse_rule

LOOPBACK = ("127.0.0.1", "localhost", "::1")


def file(facts: Facts) -> Finding:
    if facts.config is not None:
        return ok(str(facts.config.file or "no file: every default holds"))
    more = (
        f" (and {len(facts.mistakes) - 1} more: ohmo config check)"
        if len(facts.mistakes) > 1
        else ""
    )
    return problem(
        f"{facts.mistakes[0] if facts.mistakes else 'it cannot be read'}{more}", "ohmo config edit"
    )


def there(facts: Facts) -> Finding:
    if facts.config is None or facts.config.file is not None:
        return ok()
    return note(
        f"there is no {facts.home.config}: the browser chat is the only channel",
        "ohmo init writes one",
    )


def waiting(facts: Facts) -> Finding:
    path = facts.home.root / "config.edited.yaml"
    return (
        warning(
            f"{path}: an edit that was never taken over",
            "ohmo config edit goes on with it; or delete it",
        )
        if path.exists()
        else ok()
    )


def packages(facts: Facts) -> Finding:
    if not facts.broken:
        return ok()
    return problem(facts.broken[0], "repair this package, or uninstall it with pip")


@needs(config)
def workspace(facts: Facts, config: Config) -> Finding:
    folder = config.workspace
    if folder.exists() and not folder.is_dir():
        return problem(f"workspace: {folder} is not a folder", "set workspace to a folder you own")
    if not folder.exists():
        return note(
            f"workspace: {folder} does not exist yet",
            "the first start makes it; ohmo doctor --fix does so now",
        )
    if not facts.machine.may_write(folder):
        return problem(
            f"workspace: {folder} is not writable for you",
            f"chmod u+rwx {folder}, or set workspace to a folder you own",
        )
    return ok(str(folder))


def make_workspace(facts: Facts) -> str:
    if facts.config is None:
        return "nothing"
    facts.config.workspace.mkdir(parents=True, exist_ok=True)
    return f"created {facts.config.workspace}"


@needs(config)
def wide(facts: Facts, config: Config) -> Finding:
    folder = config.workspace.resolve()
    user = Path(facts.environ.get("HOME", "/")).resolve()
    if folder in (Path("/"), user):
        return warning(
            f"workspace: {folder} is all there is; tools may read and, when allowed, change"
            " everything in it",
            "set workspace to a folder of its own, such as ~/ohmo-workspace",
        )
    root = facts.home.root.resolve()
    if root == folder or root in folder.parents or folder in root.parents:
        return warning(
            f"workspace: {folder} and the home {root} lie in each other",
            "keep them apart: set workspace to another folder",
        )
    return ok()


@needs(config)
def owner(_: Facts, config: Config) -> Finding:
    if config.owner or config.access.roles.owner:
        return ok()
    return note(
        "nobody is owner: notices are seen in the browser only",
        'write owner: ["slack:U123"] into config.yaml (/whoami in a chat shows your id)',
    )


@needs(config)
def reachable(_: Facts, config: Config) -> Finding:
    on = {channel.name for channel in config.channels if channel.enabled}
    deaf = [owner for owner in config.owner if owner.partition(":")[0] not in on]
    if not deaf:
        return ok()
    return problem(
        f"owner: {deaf[0]} cannot be reached, that channel is off",
        f"set channels.{deaf[0].partition(':')[0]}.enabled: true, or name another owner",
    )


@needs(config)
def twice(_: Facts, config: Config) -> Finding:
    roles = config.access.roles
    seen: dict[str, str] = {}
    for role in type(roles).model_fields:
        for person in getattr(roles, role):
            if person in seen:
                return warning(
                    f"access.roles: {person} is {seen[person]} and {role}; the higher counts",
                    "remove one of them",
                )
            seen[person] = role
    return ok()


def rules(config: Config) -> Iterator[tuple[str, Rule]]:
    for kind in ("deny", "ask", "allow"):
        for text in getattr(config.permissions, kind):
            yield kind, parse_rule(text)


@needs(config)
def rules_agree(_: Facts, config: Config) -> Finding:
    """deny beats ask beats allow: what a higher list decides whole is left nothing below."""
    above: list[tuple[str, Rule]] = []
    for kind, rule in rules(config):
        for other, higher in above:
            if other != kind and shadows(higher, rule):
                return warning(
                    f"permissions.{kind}: {rule.text} has no effect, permissions.{other}:"
                    f" {higher.text} beats it",
                    "remove one of the two",
                )
        above.append((kind, rule))
    return ok()


@needs(config)
def rules_match(_: Facts, config: Config) -> Finding:
    """A rule that decides nothing is missed where it was meant to forbid."""
    patterned = PATH_TOOLS | {"Bash", "WebFetch"}
    for kind, rule in rules(config):
        if rule.pattern is not None and rule.tool not in patterned:
            why = f"rules about {rule.tool} take no pattern, so it matches nothing"
            return warning(f"permissions.{kind}: {rule.text}: {why}", f"write {rule.tool}")
        if rule.tool in PATH_TOOLS and re.search(r"\[(?!.+\])", rule.pattern or ""):
            why = "its [ is closed nowhere, so it means a file that has this sign in its name"
            return warning(f"permissions.{kind}: {rule.text}: {why}", "close it, as in [abc]")
        server = rule.tool.removeprefix("mcp__").partition("__")[0]
        if rule.tool.startswith("mcp__") and "*" not in server and server not in config.mcp:
            why = f"there is no server {server} in mcp"
            step = "ohmo mcp list shows those of .mcp.json and of plugins"
            return note(f"permissions.{kind}: {rule.text}: {why}", step)
    return ok()


@needs(config)
def zone(facts: Facts, config: Config) -> Finding:
    written = config.cron.timezone
    zone = facts.environ.get("TZ", "").lstrip(":") if written == "local" else written
    if not zone or zone.startswith("/"):
        return ok()
    try:
        zoneinfo.ZoneInfo(zone)
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError):
        where = "TZ" if written == "local" else "cron.timezone"
        return problem(
            f"{where}: there is no time zone {zone}",
            "write a name such as Europe/Berlin; on a bare system: apt install tzdata",
        )
    return ok(zone)


@needs(config)
def port(facts: Facts, config: Config) -> Finding:
    address = config.control.address
    if (
        address is None
        or facts.holder is not None
        or address[1] == 0
        or facts.machine.port_is_free(*address)
    ):
        return ok()
    return problem(
        f"control.listen: {address[0]}:{address[1]} is taken by another program",
        "stop it, or set control.listen:"
        f" 127.0.0.1:{address[1] + 1 if address[1] < 65_535 else 7718}",
    )


@needs(config)
def listen(facts: Facts, config: Config) -> Finding:
    address = config.control.address
    if address is None or address[0] in LOOPBACK:
        return ok()
    if facts.environ.get("OHMO_SERVICE") == "container":
        return ok(f"{address[0]}, inside a container: who publishes the port says who reaches it")
    return warning(
        f"control.listen: {address[0]} can be reached from other machines, without TLS",
        "set control.listen: 127.0.0.1:7717 and reach it by SSH or a reverse proxy with TLS",
    )


@needs(config)
def backups(_: Facts, config: Config) -> Finding:
    if config.backups.every is not None:
        return ok(f"every {config.backups.every}")
    return note(
        "backups.every: never; nothing brings a lost disk back",
        "write backups: {every: 24h, keep: 7} into config.yaml",
    )


@needs(config)
def secrets(_: Facts, config: Config) -> Finding:
    """Secrets of what is on are proved at reading; this looks at what the optional ones of a
    profile lead to."""
    key = config.profile.api_key
    if key is None or key.kind not in ("file", "keyring"):
        return ok()
    try:
        config.vault.reveal(key)
    except OhmoError as error:
        return problem(
            f"profiles.{config.profile_name}.api_key: {error}",
            "put the key there, or write env:NAME",
        )
    return ok()


def shadows(higher: Rule, lower: Rule) -> bool:
    """Whether everything that ``lower`` could decide is decided by ``higher`` before it. ``higher``
    stands in a list that beats the other's, or says the same."""
    if not higher.names(lower.tool):
        return False
    if higher.pattern is None or higher.pattern == lower.pattern:
        return True
    if lower.pattern is None or higher.tool != lower.tool:
        return False
    return (_shadows_command if lower.tool == "Bash" else _shadows_path)(
        higher.pattern, lower.pattern
    )


def _shadows_command(higher: str, lower: str) -> bool:
    """``git:*`` is before ``git status:*`` and ``git status``."""
    if not higher.endswith(":*"):
        return False
    begins, words = higher.removesuffix(":*").split(), lower.removesuffix(":*").split()
    return words[: len(begins)] == begins


def _shadows_path(higher: str, lower: str) -> bool:
    """``/srv/**`` is before ``/srv/a/*.txt``, not before ``/srv/../etc``."""
    if not higher.endswith("/**") or any(sign in higher[:-3] for sign in "*?["):
        return False
    return lower.startswith(higher[:-2]) and ".." not in lower.split("/")


@needs(config)
def tools(_: Facts, config: Config) -> Finding:
    """The model says the same when it looks for one of them."""
    keys = {"WebSearch (web_search.provider)": config.web_search.provider}
    keys["ImageGeneration (images.model)"] = config.written.images.model
    absent = [tool for tool, value in keys.items() if value is None]
    if not absent or config.file is None:
        return ok()
    return note(f"not set up: {', '.join(absent)}", "docs/tools.md says what each wants, if wanted")


CHECKS = (
    Check("configuration.file", "config.yaml is right", file),
    Check("configuration.there", "there is a config.yaml", there),
    Check("configuration.edited", "no edit was forgotten", waiting),
    Check(
        "configuration.packages",
        "every package with channels, tools or providers can be read",
        packages,
    ),
    Check("configuration.workspace", "the workspace can be used", workspace, make_workspace),
    Check("configuration.wide", "the workspace is a place of its own", wide),
    Check("configuration.owner", "somebody hears of trouble", owner),
    Check("configuration.reachable", "the owner's channel is on", reachable),
    Check("configuration.roles", "nobody has two roles", twice),
    Check("configuration.conflicts", "no rule beats another whole", rules_agree),
    Check("configuration.unmatched", "every rule can match something", rules_match),
    Check("configuration.zone", "the time zone is known", zone),
    Check("configuration.tools", "tools that speak to a service have one", tools),
    Check("configuration.port", "the port is free", port),
    Check("configuration.listen", "nobody else can reach the API", listen),
    Check("configuration.backups", "backups are made", backups),
    Check("configuration.secret", "the model's key leads somewhere", secrets),
)
