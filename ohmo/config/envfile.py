"""``$OHMO_HOME/.env``: secrets for a daemon that nobody's shell started. What the environment
itself says wins."""

from __future__ import annotations

import stat
from collections.abc import Mapping
from pathlib import Path

from ohmo.config.home import Home, find_home
from ohmo.contracts.errors import ConfigError


def env_file(home: Home) -> Path:
    return home.root / ".env"


def environment(environ: Mapping[str, str]) -> dict[str, str]:
    """``environ`` and what the file adds to it. Raises ConfigError: others can read the file, or a
    line is no ``NAME=value``."""
    return {**read(env_file(find_home(environ))), **environ}


def read(file: Path) -> dict[str, str]:
    """``NAME=value`` lines as systemd.exec(5) reads an EnvironmentFile: ``#`` and ``;`` begin a
    comment, a value may stand in quotes. Empty when there is no file. Raises ConfigError."""
    try:
        if stat.S_IMODE(file.stat().st_mode) & 0o077:
            raise ConfigError(f"{file}: others can read it; chmod 600 {file}")
        text = file.read_text(encoding="utf-8")
    except FileNotFoundError:
        return {}
    except UnicodeDecodeError as error:
        raise ConfigError(
            f"{file}: not UTF-8 text at byte {error.start}; save it as UTF-8"
        ) from error
    except OSError as error:
        raise ConfigError(f"{file}: cannot be read ({error.strerror})") from error
    found: dict[str, str] = {}
    for number, line in enumerate(text.splitlines(), 1):
        line = line.strip()  # noqa: PLW2901
        if not line or line[0] in "#;":
            continue
        name, equals, value = line.removeprefix("export ").partition("=")
        name, value = name.strip(), value.strip()
        if not equals or not name.isidentifier() or not name.isascii():
            raise ConfigError(f"{file.name}:{number}: expected NAME=value")
        if len(value) >= 2 and value[0] == value[-1] and value[0] in "\"'":
            value = value[1:-1]
        found[name] = value
    return found
