"""Which daemon a command speaks to: the one that runs, or one in this process for the time of the
command."""

from __future__ import annotations

import importlib
import os
import sys
import time
import urllib.parse
from collections.abc import Callable, Generator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path

import click

from ohmo.cli.client import Client
from ohmo.cli.show import warn
from ohmo.config.home import find_home
from ohmo.contracts.errors import HomeTaken, OhmoError

_RESTART = 10.0  # seconds a daemon may take to begin again with a changed configuration
_SILENCE = 120.0  # seconds without even a heartbeat (one comes every 10 s)


def connect(
    remote: str | None,
    environ: Mapping[str, str] = os.environ,
    *,
    patience: float = 0.0,
    timeout: float = 30.0,
) -> Client:
    """The daemon of this home, or the one at ``remote`` (http or https) with the token in
    ``OHMO_TOKEN``. Raises OhmoError."""
    if remote is None:
        return Client(path=find_home(environ).socket(), patience=patience, timeout=timeout)
    parts = urllib.parse.urlsplit(remote)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise OhmoError(f"--remote {remote}: expected an address such as http://127.0.0.1:7717")
    token = environ.get("OHMO_TOKEN", "").strip()
    if not token:
        raise OhmoError(
            "--remote needs the daemon's token: put the content of its run/token into OHMO_TOKEN"
        )
    return Client(remote=remote, token=token, patience=patience, timeout=timeout)


def connect_or_open(remote: str | None, *, timeout: float = 30.0) -> Client:
    """As ``connect``; where no daemon runs, the home is opened in this process until the command
    ends, under its lock, and nothing in it goes on meanwhile. A home that was never used stays as
    it is: then each call raises NotRunning. Raises OhmoError: HomeTaken, ConfigError."""
    client = connect(remote, timeout=timeout)
    home = find_home(os.environ)
    never_used = not (home.database.exists() or home.config.exists())
    if remote is not None or client.probe("/healthz") or never_used:
        return client
    from ohmo.cli.home_config import load_config, process_environment

    import_structlog_alone()
    from ohmo.daemon.startup import one_shot

    held = click.get_current_context().with_resource(ExitStack())
    config, environ = load_config(), process_environment()
    opened = _unless_there(client, lambda: one_shot(config, environ, still=True, tell=warn), held)
    return client if opened is None else Client(path=opened, timeout=timeout)


@contextmanager
def connect_or_run(remote: str | None, file: Path | None) -> Generator[Client]:
    """As ``connect``; where no daemon runs, ohmo runs in this process until the block ends, under
    the home's lock. ``file``: another config.yaml for it. Raises OhmoError: HomeTaken,
    ConfigError."""
    client = connect(remote, patience=_RESTART)
    if remote is not None or client.probe("/healthz"):
        yield client
        return
    from ohmo.cli.home_config import load_config, process_environment

    config = load_config(file)
    import_structlog_alone()
    from ohmo.daemon.startup import one_shot

    with ExitStack() as held:
        environ = process_environment()
        opened = _unless_there(client, lambda: one_shot(config, environ, tell=warn), held)
        yield client if opened is None else Client(path=opened, timeout=_SILENCE)


def _unless_there(
    client: Client, opened: Callable[[], AbstractContextManager[Path]], held: ExitStack
) -> Path | None:
    """The door of the home, opened in this process; None: the daemon has its own open again, which
    was between two of its lives. Raises HomeTaken."""
    end = time.monotonic() + _RESTART
    while True:
        try:
            return held.enter_context(opened())
        except HomeTaken:
            if client.probe("/healthz"):
                return None
            if time.monotonic() > end:
                raise
        time.sleep(0.1)


def import_structlog_alone() -> None:
    """Before the daemon is imported: structlog brings rich along wherever that is installed, for
    tracebacks on a screen that no daemon has (5 MB, a tenth of a second), and twisted and greenlet,
    on which no daemon of ours runs (2 MB). They can still be imported afterwards."""
    if "structlog" in sys.modules:
        return
    unwanted = {"rich", "twisted", "greenlet"} - sys.modules.keys()
    # None is the import system's own sign for "there is none"
    sys.modules.update(dict.fromkeys(unwanted))  # pyright: ignore[reportArgumentType, reportCallIssue]
    try:
        importlib.import_module("structlog")
    finally:
        for name in unwanted:
            del sys.modules[name]
