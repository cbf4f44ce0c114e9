"""The home folder, where everything of one ohmo lies, and its ``.env``. Standard library only,
because every client command starts here."""

from __future__ import annotations

import os
import pwd
import stat
from collections.abc import Mapping
from pathlib import Path

from channels.record import record
from ohmo.contracts.errors import ConfigError

FOLDERS = ("run", "logs", "state", "media", "spill", "cache", "memory", "skills")


@record
class Home:
    """Nothing is created before ``prepare``."""

    root: Path  # absolute

    @property
    def config(self) -> Path:
        return self.root / "config.yaml"

    @property
    def database(self) -> Path:
        return self.root / "ohmo.db"

    @property
    def lock(self) -> Path:
        return self.root / "lock"

    @property
    def token(self) -> Path:
        return self.root / "run" / "token"

    @property
    def log(self) -> Path:
        return self.root / "logs" / "ohmo.jsonl"

    @property
    def media(self) -> Path:
        return self.root / "media"

    @property
    def backups(self) -> Path:
        return self.root / "backups"

    @property
    def quarantine(self) -> Path:
        return self.root / "quarantine"

    @property
    def spill(self) -> Path:
        return self.root / "spill"

    def state(self, channel: str) -> Path:
        """A channel's private folder."""
        return self.root / "state" / channel

    def socket(self) -> Path:
        """Where the running daemon listens: ``run/ohmo.sock``, or the path in
        ``run/ohmo.sock.path`` when ours would be too long."""
        try:
            return Path((self.root / "run" / "ohmo.sock.path").read_text(encoding="utf-8").strip())
        except (OSError, UnicodeDecodeError):
            return self.root / "run" / "ohmo.sock"

    def foreign(self) -> bool:
        """Another program's folder of the same name (OpenHarness keeps ``gateway.json`` there)."""
        return (
            (self.root / "gateway.json").exists()
            and not self.database.exists()
            and not self.config.exists()
        )

    def prepare(self, *, beside: bool = False) -> None:
        """Create the home (0700) and its folders. ``beside``: another program's files may lie there
        too, its owner said so. Raises ConfigError: foreign, not a folder, not writable."""
        try:
            if self.foreign() and not beside:
                raise ConfigError(
                    f"{self.root} belongs to another program (it holds gateway.json); set OHMO_HOME"
                    " to a folder of its own"
                )
            self.refuse_root()
            self.root.mkdir(mode=0o700, parents=True, exist_ok=True)
            if (
                self.root.stat().st_uid == os.geteuid()
                and stat.S_IMODE(self.root.stat().st_mode) & 0o077
            ):
                self.root.chmod(0o700)
            for name in FOLDERS:
                (self.root / name).mkdir(mode=0o700, exist_ok=True)
        except OSError as error:
            raise ConfigError(
                f"{self.root}: cannot use this folder as home ({error.strerror}); set OHMO_HOME to"
                " one you own"
            ) from error
        for folder in (self.root, *(self.root / name for name in FOLDERS)):
            if not os.access(folder, os.R_OK | os.W_OK | os.X_OK):
                raise ConfigError(
                    f"{folder}: not readable and writable for you; chown and chmod it, or set"
                    " OHMO_HOME to a folder you own"
                )

    def refuse_root(self) -> None:
        """For whatever writes here: root in somebody else's home leaves files they cannot read, and
        follows their links. Raises ConfigError."""
        if os.geteuid() != 0:
            return
        # The folder, or the one it would be made in.
        folder = next(folder for folder in (self.root, *self.root.parents) if folder.exists())
        uid = folder.stat().st_uid
        if uid == 0:
            return
        try:
            user = pwd.getpwuid(uid).pw_name
        except KeyError:
            user = str(uid)
        raise ConfigError(
            f"{self.root} belongs to {user}, and what root writes there they could not"
            f" read; run it as them: sudo -u {user}"
        )


def find_home(environ: Mapping[str, str]) -> Home:
    """``$OHMO_HOME``, else ``~/.ohmo``. Raises ConfigError when neither is known."""
    written = environ.get("OHMO_HOME", "").strip()
    user = environ.get("HOME", "").strip()
    if not written:
        if not user:
            raise ConfigError(
                "neither OHMO_HOME nor HOME is set; set OHMO_HOME to the folder ohmo may use"
            )
        return Home(Path(user) / ".ohmo")
    if (written == "~" or written.startswith("~/")) and user:
        written = user + written[1:]
    return Home(Path(written).absolute())


def env_file(home: Home) -> Path:
    return home.root / ".env"


def environment(environ: Mapping[str, str]) -> dict[str, str]:
    """``environ`` and what the file adds to it. Raises ConfigError: others can read the file,
    or a line is no ``NAME=value``."""
    return {**read_env(env_file(find_home(environ))), **environ}


def read_env(file: Path) -> dict[str, str]:
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
    values: dict[str, str] = {}
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
        values[name] = value
    return values
