"""Writes what was decided into a home. What somebody edited stays as it is; what init wrote itself
may be written anew."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal

from channels.durable import write_whole
from channels.record import record
from ohmo.config.home import Home, env_file, read_env
from ohmo.contracts.errors import ConfigError
from ohmo.setup.answers import PAGES, Answers, config_text, from_json, to_json

What = Literal["created", "kept", "changed", "added"]


@record
class Done:
    """What became of a file."""

    what: What
    path: Path
    wanted: str = ""  # what a kept file would have held, when that is something else


def furnish(
    home: Home,
    answers: Answers,
    pages: Mapping[str, str],
    notes: Mapping[str, bytes],
    documents: Mapping[str, str],
    *,
    beside: bool = False,
    imported: Mapping[str, str] = MappingProxyType({}),
) -> list[Done]:
    """``pages``: texts instead of the first ones; ``notes``: files for ``memory/``; ``documents``:
    texts for the platforms' own pages, under ``setup/``. ``beside``: another program's files lie in
    the home and stay as they are; ``imported``: secrets of it, which replace no value of
    ``.env``."""
    home.prepare(beside=beside)
    record = _Record(home.root / "state" / "init.json")
    record.answers = answers
    done = [_written(home.config, config_text(answers), record)]
    done += [
        _written(home.root / name, pages.get(name, text), record, anew=name in pages)
        for name, text in PAGES.items()
    ]
    for name, raw in notes.items():
        path = home.root / "memory" / name
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        done.append(_written(path, raw.decode("utf-8", "replace"), record, anew=False))
    for name, text in documents.items():
        path = home.root / "setup" / name
        path.parent.mkdir(mode=0o700, exist_ok=True)
        done.append(_written(path, text, record))
    if answers.secrets:
        done += put_secrets(env_file(home), answers.secrets, imported)
    record.save()
    return done


def lay_out(home: Home, documents: Mapping[str, str]) -> None:
    """The texts for a platform's pages, before anybody is asked for what those pages give;
    ``furnish`` writes them anew with all that is known."""
    home.prepare(beside=home.foreign())
    record = _Record(home.root / "state" / "init.json")
    for name, text in documents.items():
        path = home.root / "setup" / name
        path.parent.mkdir(mode=0o700, exist_ok=True)
        _written(path, text, record)
    record.save()


def earlier(home: Home) -> Answers:
    """What was decided by the last ``ohmo init`` of this home; the defaults when there was none."""
    return _Record(home.root / "state" / "init.json").answers


class _Record:
    """The answers, and the digests of what init wrote itself: a file that still has its digest was
    not edited. It never holds a secret."""

    def __init__(self, path: Path) -> None:
        self._path = path
        try:
            found: Any = json.loads(path.read_text(encoding="utf-8"))
            self._known: dict[str, str] = dict(found["files"])
            self.answers = from_json(found["answers"])
        except (OSError, ValueError, TypeError, KeyError):
            self._known = {}
            self.answers = Answers()

    def ours(self, path: Path, text: str) -> bool:
        return self._known.get(path.name) == _digest(text)

    def wrote(self, path: Path, text: str) -> None:
        self._known[path.name] = _digest(text)

    def save(self) -> None:
        self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_whole(
            self._path,
            json.dumps({"files": self._known, "answers": to_json(self.answers)}, indent=1),
        )


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def _written(path: Path, text: str, record: _Record, *, anew: bool = True) -> Done:
    try:
        there = path.read_text(encoding="utf-8", errors="surrogateescape")
    except FileNotFoundError:
        write_whole(path, text)
        record.wrote(path, text)
        return Done("created", path)
    if there == text:
        return Done("kept", path)
    if anew and record.ours(path, there):
        write_whole(path, text)
        record.wrote(path, text)
        return Done("changed", path)
    return Done("kept", path, text)


def put_secrets(
    path: Path, secrets: Mapping[str, str], imported: Mapping[str, str] = MappingProxyType({})
) -> list[Done]:
    """Into ``.env``. Who names a secret now means it: its line is written anew, or appended. One
    that is only imported keeps the value that stands there. Raises ConfigError: a value would be
    read as other variables."""
    there = read_env(path)
    for name, value in secrets.items():
        if not name.isidentifier() or len(f"{value}.".splitlines()) != 1 or "\0" in value:
            raise ConfigError(
                f"{name[:60]}: its value holds a line break or a zero byte; .env would read it as"
                " other variables. Copy it again"
            )
    fresh = [name for name in secrets if name not in there]
    other = [
        name
        for name in secrets
        if name in there and there[name] != secrets[name] != imported.get(name)
    ]
    if not fresh and not other:
        return [Done("kept", path)]
    text = (
        path.read_text(encoding="utf-8")
        if path.exists()
        else "# secrets of ohmo, read at start; nobody else may read this file\n"
    )
    lines = [line for line in text.splitlines() if _named(line) not in other]
    write_whole(
        path,
        "".join(
            f"{line}\n"
            for line in (*lines, *(f'{name}="{secrets[name]}"' for name in (*other, *fresh)))
        ),
    )
    done = [Done("changed", path, ", ".join(other))] if other else []
    return [*done, Done("added", path, ", ".join(fresh))] if fresh else done


def _named(line: str) -> str:
    """The variable that a line of ``.env`` sets; "" for a comment."""
    return line.strip().removeprefix("export ").partition("=")[0].strip() if "=" in line else ""
