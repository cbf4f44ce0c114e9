"""Make ohmo part of the machine: install, start, stop, restart, status, logs."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

import click

from ohmo.cli.show import Group

if TYPE_CHECKING:
    from ohmo.cli.client import Client
    from ohmo.service.choice import Kind
    from ohmo.service.protocol import Manager, Standing

ENGINE = "container engine"  # in our image it starts what ended
P = ParamSpec("P")
R = TypeVar("R")


@click.group("service", cls=Group, help=__doc__)
def COMMAND() -> None:
    pass


def _system(function: Callable[P, R]) -> Callable[P, R]:
    return click.option(
        "--system", is_flag=True, help="The system unit, with a user of its own (needs root)."
    )(function)


@COMMAND.command()
@_system
@click.option(
    "--manager",
    type=click.Choice(["systemd", "launchd", "background"]),
    help="Instead of what this machine has; remembered until uninstall.",
)
def install(system: bool, manager: Kind | None) -> None:
    """Write the unit and enable it; starts nothing. Can be repeated."""
    from channels.durable import write_whole
    from ohmo.config.home import env_file, find_home

    found = _manager(system, manager)
    home = find_home(os.environ)
    if not system:
        home.prepare()
        if not env_file(home).exists():
            write_whole(
                env_file(home),
                "# Tokens and keys for ohmo, one NAME=value a line. Only you can read this file;"
                " keep it so (chmod 600).\n",
            )
    for line in found.install():
        click.echo(line)
    for line in _advice(system):
        click.echo(line)
    click.echo(f"installed ({found.name}); next: ohmo service start{' --system' if system else ''}")


@COMMAND.command()
@_system
def uninstall(system: bool) -> None:
    """Stop it and remove the unit; the home with everything in it stays."""
    for line in _manager(system).uninstall():
        click.echo(line)


@COMMAND.command()
@_system
def start(system: bool) -> None:
    """Start it and wait until it is ready."""
    found = _manager(system)
    found.start()
    _say_ready(found, system)


@COMMAND.command()
@_system
def stop(system: bool) -> None:
    """Stop it; running turns get ten seconds, what is left goes on at the next start."""
    _manager(system).stop()
    click.echo("stopped")


@COMMAND.command()
@_system
def restart(system: bool) -> None:
    """Stop it and start it again."""
    found = _manager(system)
    found.restart()
    _say_ready(found, system)


@COMMAND.command()
@_system
def reload(system: bool) -> None:
    """Read config.yaml and .env again without ending; a broken one is refused and the old one goes
    on."""
    _manager(system).reload()
    click.echo("asked; ohmo service status says whether it was taken over")


@COMMAND.command()
@_system
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.pass_context
def status(ctx: click.Context, system: bool, as_json: bool) -> None:
    """One true answer: the service, the daemon, each channel. Exit code 0 only when it runs and is
    ready."""
    from ohmo.cli.client import NotRunning
    from ohmo.cli.commands.status import show_status
    from ohmo.cli.show import as_json_text
    from ohmo.contracts.errors import OhmoError

    found = _manager(system)
    standing, answer, silence = found.standing(), dict[str, Any](), ""
    try:
        answer = _client(system).get("/api/v1/status")
    except NotRunning:
        silence = "the daemon does not answer"
    except OhmoError as error:
        silence = str(error)
    engine = standing.state == "not installed" and os.environ.get("OHMO_SERVICE") == "container"
    well = (engine or standing.state == "running") and bool(answer.get("ready"))
    if as_json:
        body = {
            "manager": ENGINE if engine else found.name,
            "state": standing.state,
            "pid": standing.pid,
            "restarts": standing.restarts,
            "detail": standing.detail,
        }
        click.echo(
            as_json_text(
                {
                    **body,
                    "ready": bool(answer.get("ready")),
                    "channels": answer.get("channels", {}),
                    "warnings": answer.get("warnings", []),
                }
            )
        )
        ctx.exit(0 if well else 1)
    click.echo(f"service: {f'kept by the {ENGINE}' if engine else _line(found, standing)}")
    if answer and standing.state != "running" and not engine:
        click.echo("a daemon that was started by hand runs on this home:")
    if answer:
        show_status(answer)
    elif engine or standing.state in ("running", "starting"):
        click.echo(silence)
    ctx.exit(0 if well else 1)


@COMMAND.command()
@_system
@click.option(
    "-n",
    "--lines",
    type=click.IntRange(0, 100_000),
    default=50,
    show_default=True,
    help="The last so many lines.",
)
@click.option("-f", "--follow", is_flag=True, help="Go on as the log grows.")
@click.pass_context
def logs(ctx: click.Context, system: bool, lines: int, follow: bool) -> None:
    """Show the service's log: the journal, or logs/service.log."""
    from ohmo.cli.commands.logs import growing, last_lines
    from ohmo.cli.show import clean

    log = _manager(system).log(lines, follow)
    if log.file is None:
        ctx.exit(subprocess.run(log.command, check=False).returncode)  # noqa: S603 - journalctl
    if not log.file.exists() and not follow:
        raise click.ClickException(
            f"{log.file}: there is no log yet; it begins with: ohmo service start"
        )
    last, position = last_lines(log.file, lines)
    for line in last:
        click.echo(clean(line))
    for line in growing(log.file, position) if follow else ():
        click.echo(clean(line.rstrip("\n")))


def _manager(system: bool, kind: Kind | None = None) -> Manager:
    from ohmo.config.home import find_home
    from ohmo.service.choice import Machine, choose
    from ohmo.service.versions import installed

    machine = Machine(sys.platform, Path("/"), os.environ, os.geteuid())
    return choose(machine, installed().python, find_home(os.environ), system=system, kind=kind)


def _client(system: bool) -> Client:
    from ohmo.cli.client import Client
    from ohmo.config.home import Home, find_home
    from ohmo.service.systemd import SYSTEM_HOME

    home = Home(SYSTEM_HOME / ".ohmo") if system else find_home(os.environ)
    return Client(path=home.socket(), timeout=10.0)


def _say_ready(found: Manager, system: bool) -> None:
    from ohmo.contracts.errors import OhmoError

    click.echo(_line(found, found.standing()))
    try:
        for warning in _client(system).get("/api/v1/status").get("warnings", []):
            click.echo(f"warning: {warning}")
    except OhmoError as error:
        click.echo(f"warning: {error}")


def _line(found: Manager, standing: Standing) -> str:
    parts = [standing.state, found.name]
    parts += [f"pid {standing.pid}"] if standing.pid else []
    parts += [f"{standing.restarts} restarts"] if standing.restarts else []
    parts += [standing.detail] if standing.detail else []
    parts += ["next: ohmo service install"] if standing.state == "not installed" else []
    return ", ".join(parts)


def _advice(system: bool) -> list[str]:
    """What a person who installs a service has to know on this machine."""
    from ohmo.config.home import find_home
    from ohmo.contracts.errors import ConfigError
    from ohmo.service.choice import Machine

    if system:
        return [
            (
                "tokens: NAME=value lines in /etc/ohmo/env (root, mode 600), configuration in"
                " /var/lib/ohmo/.ohmo/config.yaml"
            )
        ]
    lines: list[str] = []
    home = find_home(os.environ)
    try:
        from ohmo.cli.home_config import installed_manifests, service_environment
        from ohmo.config.load import load

        service = service_environment(os.environ)
        load(environ=service, manifests=installed_manifests())
        hidden = [
            name
            for name in ("ANTHROPIC_API_KEY", "OPENAI_API_KEY")
            if os.environ.get(name) and name not in service
        ]
        lines += [
            f"note: {name} is set in this shell, but the service does not see it; write it into"
            f" {home.root}/.env"
            for name in hidden
        ]
    except ConfigError as error:
        lines += [f"note: as the service will see it: {line}" for line in str(error).splitlines()]
        lines.append(
            f"tokens and keys for the service belong into {home.root}/.env (NAME=value lines, mode"
            " 600), never into a unit"
        )
    machine = Machine(sys.platform, Path("/"), os.environ, os.geteuid())
    if machine.wsl and not machine.booted_by_systemd:
        lines.append(
            "WSL 2: for a real service write `[boot]` and `systemd=true` into /etc/wsl.conf, run"
            " `wsl --shutdown` in Windows, install again"
        )
    elif machine.wsl:
        lines.append(
            "WSL 2: Windows ends an idle WSL; a scheduled task that runs `wsl -- sleep infinity` at"
            " log-on keeps it"
        )
    return lines
