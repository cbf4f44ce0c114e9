"""The folder ohmo lives in."""

from __future__ import annotations

import stat
from collections.abc import Iterator
from pathlib import Path

from channels.durable import is_unfinished, write_whole
from ohmo.config.home import FOLDERS, env_file, read_env
from ohmo.context.prompt import OWNERS, owners_file
from ohmo.context.window import tokens_of
from ohmo.contracts.errors import ConfigError
from ohmo.doctor.check import Check, Facts, Finding, note, ok, problem, skipped, warning
from ohmo.setup.answers import PAGES
from ohmo.storefile.lock import network_file_system

LEAST_ROOM = 200 * 2**20  # bytes
LEAST_FILES = 1_000
STALE = 3_600.0  # seconds after which a half-written file belongs to nobody


def folder(facts: Facts) -> Finding:
    root = facts.home.root
    if root.is_dir():
        return ok(str(root))
    if root.exists():
        return problem(
            f"{root} is not a folder", "set OHMO_HOME to a folder, or move this file away"
        )
    return problem(f"{root} does not exist", "ohmo init creates it")


def make(facts: Facts) -> str:
    facts.home.prepare()
    return f"created {facts.home.root} and its folders"


def foreign(facts: Facts) -> Finding:
    if not facts.home.foreign():
        return ok()
    return problem(
        f"{facts.home.root} belongs to another program (it holds gateway.json)",
        "OHMO_HOME=~/ohmo-home ohmo init --from openharness takes over what it knows, and leaves it"
        " alone",
    )


def owner(facts: Facts) -> Finding:
    root = facts.home.root
    if not root.exists():
        return skipped("there is no home yet")
    owner = root.stat().st_uid
    if owner == facts.machine.user:
        return ok()
    return problem(
        f"{root} belongs to user {owner}, you are {facts.machine.user}",
        f"ask as that user: sudo -u '#{owner}' ohmo doctor; or, when it should be yours: sudo chown"
        f" -R {facts.machine.user} {root}",
    )


def _open_to_others(path: Path) -> bool:
    return path.exists() and bool(stat.S_IMODE(path.stat().st_mode) & 0o077)


def _mode(name: str, what: str, *parts: str) -> Check:
    def paths(facts: Facts) -> list[Path]:
        return [path for part in parts if _open_to_others(path := facts.home.root / part)]

    def examine(facts: Facts) -> Finding:
        wrong = paths(facts)
        if not wrong:
            return ok()
        text = f"{', '.join(map(str, wrong))}: others on this machine can open {what}"
        return problem(text, f"chmod go= {' '.join(map(str, wrong))}")

    def mend(facts: Facts) -> str:
        for path in paths(facts):
            path.chmod(stat.S_IMODE(path.stat().st_mode) & 0o700)
        return "taken from others"

    return Check(name, f"nobody else can open {what}", examine, mend)


def env(facts: Facts) -> Finding:
    file = env_file(facts.home)
    if not file.exists():
        return ok("there is none")
    if _open_to_others(file):
        return skipped("others can open it: home.env_mode")
    try:
        read_env(file)
    except ConfigError as error:
        return problem(str(error), f"write one NAME=value on each line of {file}")
    return ok()


def folders(facts: Facts) -> Finding:
    root = facts.home.root
    if not root.is_dir():
        return skipped("there is no home yet")
    missing = [name for name in FOLDERS if not (root / name).is_dir()]
    return (
        problem(f"{root}: without {', '.join(missing)}", "ohmo doctor --fix makes them")
        if missing
        else ok()
    )


def writable(facts: Facts) -> Finding:
    root = facts.home.root
    closed = [
        str(folder)
        for folder in (root, *(root / name for name in FOLDERS))
        if folder.is_dir() and not facts.machine.may_write(folder)
    ]
    return (
        problem(f"not writable for you: {', '.join(closed)}", f"chmod u+rwx {' '.join(closed)}")
        if closed
        else ok()
    )


def unlock(facts: Facts) -> str:
    root = facts.home.root
    for folder in (root, *(root / name for name in FOLDERS)):
        if folder.is_dir() and not facts.machine.may_write(folder):
            folder.chmod(0o700)
    return "opened for you"


def local(facts: Facts) -> Finding:
    kind = network_file_system(facts.home.root.absolute(), facts.machine.mounts())
    if kind is None:
        return ok()
    return problem(
        f"{facts.home.root} is on a network file system ({kind})",
        "set OHMO_HOME to a folder on a local disk",
    )


def _existing(path: Path) -> Path:
    return path if path.exists() else _existing(path.parent)


def room(facts: Facts) -> Finding:
    left, _ = facts.machine.room(_existing(facts.home.root))
    if left >= LEAST_ROOM:
        return ok(f"{left // 2**20} MiB free")
    return problem(
        f"{left // 2**20} MiB are free at {facts.home.root}; a full disk stops ohmo from taking"
        " messages",
        "make room, or shorten retention in config.yaml",
    )


def entries(facts: Facts) -> Finding:
    _, left = facts.machine.room(_existing(facts.home.root))
    if left < 0 or left >= LEAST_FILES:
        return ok()
    return problem(
        f"only {left} more files can be made at {facts.home.root}",
        "delete many small files on that disk (df -i shows it)",
    )


def _half_written(facts: Facts) -> Iterator[Path]:
    """What ``channels.durable`` and a store made aside leave behind when they are killed."""
    root, now = facts.home.root, facts.now.timestamp()
    hidden = (
        path
        for folder in ("", "memory/", "run/", "state/*/")
        for path in root.glob(f"{folder}.*.????????")
    )
    for path in (*root.glob("*.db*.new"), *(path for path in hidden if is_unfinished(path.name))):
        if path.is_file() and now - path.stat().st_mtime > STALE:
            yield path


def leftovers(facts: Facts) -> Finding:
    found = list(_half_written(facts))
    return (
        warning(
            f"half-written files of a killed process: {', '.join(p.name for p in found)}",
            "ohmo doctor --fix",
        )
        if found
        else ok()
    )


def sweep(facts: Facts) -> str:
    found = list(_half_written(facts))
    for path in found:
        path.unlink(missing_ok=True)
    return f"removed {len(found)}"


def pages(facts: Facts) -> Finding:
    root = facts.home.root
    if not root.is_dir():
        return skipped("there is no home yet")
    missing = [name for name in PAGES if not (root / name).exists()]
    return (
        note(f"the agent reads no {', '.join(missing)}", "ohmo init writes a first one")
        if missing
        else ok()
    )


def write_pages(facts: Facts) -> str:
    missing = [name for name in PAGES if not (facts.home.root / name).exists()]
    for name in missing:
        write_whole(facts.home.root / name, PAGES[name])
    return f"wrote {', '.join(missing)}"


def cut(facts: Facts) -> Finding:
    if facts.config is None:
        return skipped("the configuration cannot be read")
    for section, name in OWNERS.items():
        budget = getattr(facts.config.prompt.budgets, section)
        tokens = tokens_of(owners_file(facts.home.root / name))
        if tokens > budget:
            return note(
                f"the agent reads only the beginning of {name}: about {budget} of {tokens} tokens",
                f"shorten it, or raise prompt.budgets.{section} in config.yaml",
            )
    return ok()


def unreadable(facts: Facts) -> Finding:
    for name in PAGES:
        try:
            (facts.home.root / name).read_text(encoding="utf-8")
        except FileNotFoundError:
            continue
        except UnicodeDecodeError as error:
            return problem(
                f"{facts.home.root / name}: not UTF-8 text at byte {error.start}",
                "save it as UTF-8; the agent goes without it",
            )
    return ok()


def socket(facts: Facts) -> Finding:
    path = facts.home.socket()
    if facts.holder is not None or not path.exists():
        return ok()
    return note(
        f"{path} is left from a daemon that was killed",
        "the next start replaces it; ohmo doctor --fix removes it",
    )


def unsocket(facts: Facts) -> str:
    facts.home.socket().unlink(missing_ok=True)
    return "removed"


def quarantine(facts: Facts) -> Finding:
    cells = (
        sorted(path.name for path in facts.home.quarantine.glob("*"))
        if facts.home.quarantine.is_dir()
        else []
    )
    if not cells:
        return ok()
    return warning(
        f"{len(cells)} damaged stores lie in {facts.home.quarantine}, the newest {cells[-1]}",
        "compare with ohmo inbox audit; delete them when nothing is missing",
    )


CHECKS = (
    Check("home.folder", "the home exists", folder, make),
    Check("home.foreign", "the home is not another program's", foreign),
    Check("home.owner", "the home is yours", owner),
    _mode("home.mode", "the home", ""),
    _mode("home.folder_modes", "its folders", *FOLDERS),
    _mode("home.database_mode", "the store", "ohmo.db", "ohmo.db-wal"),
    _mode("home.token_mode", "the key of the local API", "run/token"),
    _mode("home.config_mode", "config.yaml", "config.yaml"),
    _mode("home.env_mode", ".env with its secrets", ".env"),
    Check("home.env", ".env can be read", env),
    Check("home.folders", "its folders are there", folders, make),
    Check("home.writable", "you may write there", writable, unlock),
    Check("home.local", "it is on a local disk", local),
    Check("home.room", "the disk has room", room),
    Check("home.entries", "the disk takes more files", entries),
    Check("home.leftovers", "nothing is half-written", leftovers, sweep),
    Check("home.pages", "SOUL.md, USER.md, AGENTS.md are there", pages, write_pages),
    Check("home.cut", "SOUL.md, USER.md, AGENTS.md are read whole", cut),
    Check("home.text", "these pages are text", unreadable),
    Check("home.socket", "no stale socket", socket, unsocket),
    Check("home.quarantine", "no damaged store waits to be looked at", quarantine),
)
