"""The configuration the daemon last ran with: what a service boots when ``config.yaml`` is
broken."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from channels.contract import Manifest
from channels.durable import write_whole
from ohmo.config.home import Home, find_home
from ohmo.config.load import Config, load
from ohmo.contracts.errors import ConfigError


def copy_of(home: Home) -> Path:
    """Where the copy lies: in a folder no tool may read, because a file of one's own may hold
    secrets."""
    return home.root / "backups" / "config.last-good.yaml"


def remember(config: Config, environ: Mapping[str, str], manifests: Mapping[str, Manifest]) -> bool:
    """Keeps the file as it is now if it still loads. False: there is no file, it does not load any
    more, or the copy cannot be written."""
    if config.file is None:
        return False
    copy = copy_of(config.home)
    try:
        text = config.file.read_text(encoding="utf-8-sig")
        if copy.exists() and copy.read_text(encoding="utf-8") == text:
            return True
        load(config.file, environ=environ, manifests=manifests)
        copy.parent.mkdir(mode=0o700, exist_ok=True)
        write_whole(copy, text)
    except (OSError, UnicodeDecodeError, ConfigError):
        return False
    return True


def boot(
    path: Path | None,
    *,
    environ: Mapping[str, str],
    profile: str | None,
    manifests: Mapping[str, Manifest],
) -> tuple[Config, str]:
    """The configuration, and a line for the owner when it is the copy because the file is broken.
    Raises ConfigError: the copy does not help."""
    try:
        return load(path, environ=environ, profile=profile, manifests=manifests), ""
    except ConfigError as error:
        copy = copy_of(find_home(environ))
        if not copy.exists():
            raise
        try:
            found = load(copy, environ=environ, profile=profile, manifests=manifests)
        except ConfigError:
            raise error from None
        first, *more = str(error).splitlines() or [""]
        rest = f" (and {len(more)} more)" if more else ""
        line = (
            f"The configuration is broken, so ohmo runs with the last good copy: {first}{rest}."
            " Mend it; `ohmo config check` says when it is right."
        )
        return replace(found, file=path or found.home.config), line
