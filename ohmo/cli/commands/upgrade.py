"""Install another version in place; the old one returns by itself when the new one does not run."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import NoReturn

import click


@click.command("upgrade", help=f"{__doc__}\n\nWHAT: a wheel, or a requirement such as ohmo==0.2.0.")
@click.argument("what")
@click.option("--system", is_flag=True, help="The installation of the system unit (needs root).")
def COMMAND(what: str, system: bool) -> None:
    from ohmo.cli.client import Client
    from ohmo.cli.show import clean
    from ohmo.config.home import Home, find_home
    from ohmo.service.choice import Machine, choose, run_command
    from ohmo.service.health_gate import Connection
    from ohmo.service.systemd import SYSTEM_HOME
    from ohmo.service.upgrading import Parts, Upgrade, UpgradeFailed
    from ohmo.service.versions import installed
    from ohmo.storefile.lock import is_held

    installer = _installer()
    versions = installed()
    wheel = Path(what)
    wanted = (
        str(wheel.absolute()) if wheel.is_file() or (os.sep in what and wheel.exists()) else what
    )
    home = Home(SYSTEM_HOME / ".ohmo") if system else find_home(os.environ)
    machine = Machine(sys.platform, Path("/"), os.environ, os.geteuid())
    service = choose(machine, versions.python, home, system=system)
    runs = service.installed() and service.standing().state in ("running", "starting", "restarting")
    if not runs and is_held(home.lock, unclear=False):
        raise click.ClickException("ohmo runs here, started by hand; stop it first, then upgrade")

    def python_of(environment: Path) -> str:
        return str(environment / "bin" / Path(sys.executable).name)

    def install(environment: Path, owned: int) -> None:
        # not from the folder somebody stands in: whoever writes there could hand the installer
        # modules and settings of theirs
        command = [*installer(python_of(environment)), "--upgrade", "--", wanted]
        ran = run_command(command, 1_800, inherits=(owned,), cwd=environment)
        if ran.code != 0:
            raise UpgradeFailed(f"it cannot be installed: {ran.last}")

    def healthy(environment: Path) -> str:
        new = [python_of(environment), "-P", "-m", "ohmo"]
        ran = run_command([*new, "--version"], 60)
        if ran.code == 0 and not system:
            ran = run_command([*new, "config", "check"], 60)
        return "" if ran.code == 0 else f"the new version does not run: {ran.last}"

    def channels() -> dict[str, Connection]:
        found = Client(path=home.socket()).get("/api/v1/status")["channels"]
        return {
            clean(name): Connection(
                clean(one["state"]), clean(one["detail"]) if one["detail"] else ""
            )
            for name, one in found.items()
        }

    def say(line: str) -> None:
        with suppress(OSError):  # a closed terminal must not keep the old version from coming back
            click.echo(line)

    _interrupted_by_any()
    running = service if runs else None
    prefix = Path(sys.prefix)
    Upgrade(Parts(versions, prefix, home, install, healthy, running, say, channels)).run()
    version = run_command([str(versions.python), "-P", "-m", "ohmo", "--version"], 60).last
    click.echo(f"{version} is in place" + (" and running" if runs else ""))


def _interrupted_by_any() -> None:
    """The first of these signals begins the way back, and no further one stops it. Who asked that a
    closed terminal ends nothing (nohup) is obeyed."""
    numbers = [
        number
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
        if signal.getsignal(number) is not signal.SIG_IGN
    ]

    def interrupt(*_: object) -> NoReturn:
        for number in numbers:
            signal.signal(number, signal.SIG_IGN)
        raise KeyboardInterrupt

    for number in numbers:
        signal.signal(number, interrupt)


def _installer() -> Callable[[str], list[str]]:
    """The command that installs into the environment of an interpreter. Raises ClickException where
    ohmo has none that could be built once more."""
    import importlib.util
    import json
    import shutil
    from importlib.metadata import distribution

    where = json.loads(distribution("ohmo").read_text("direct_url.json") or "{}")
    if where.get("dir_info", {}).get("editable"):
        raise click.ClickException(
            "ohmo runs from a checkout; there it is: git pull && make install && .venv/bin/ohmo"
            " service restart"
        )
    if sys.prefix == sys.base_prefix:
        raise click.ClickException(
            f"ohmo has no environment of its own ({sys.prefix}); upgrade it with what installed it"
        )
    if importlib.util.find_spec("pip") is not None:
        quietly = ("--quiet", "--disable-pip-version-check", "--no-input")
        return lambda python: [python, "-P", "-m", "pip", "install", *quietly]
    uv = shutil.which("uv")
    if uv is not None:
        return lambda python: [uv, "pip", "install", "--quiet", "--python", python]
    raise click.ClickException(
        "neither pip nor uv is there to install with; upgrade it with what installed it (pipx"
        " upgrade, uv tool upgrade)"
    )
