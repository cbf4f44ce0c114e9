"""What the owner decided in the wizard, and the files of a home it becomes: ``config.yaml``,
``.env`` and the three pages the agent reads at first. What somebody edited stays as it is; what
init wrote itself may be written anew."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Mapping
from dataclasses import field
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal, cast

from channels.durable import write_whole
from channels.record import record
from ohmo.config.home import Home, env_file, read_env
from ohmo.contracts.errors import ConfigError

CHANNELS = {  # a remark for each that init offers
    "slack": "socket mode",
    "discord": "message content intent on",
    "telegram": "@BotFather gives the token",
    "feishu": "Lark too: domain: https://open.larksuite.com",
    "matrix": "any homeserver",
    "web": "the chat in the browser",
}
HEAD = """\
# ohmo reads this file at start. Every key with its default: config.example.yaml; what it means: \
docs/configuration.md
# Check it with: ohmo config check
"""
SOUL = """\
# Who you are

You are ohmo, a personal agent. You are calm, exact and brief. You say what you did, what you \
did not do, and what you are not sure of.
You ask before you do what cannot be undone.
"""
USER = """\
# Who you work for

Write here what the agent should know about you: name, time zone, languages, how you like to be \
answered.
"""
AGENTS = """\
# How to work here

Write here the rules of your projects and machines: what may be touched, what may not, how to \
test, whom to tell.
"""


PAGES = {"SOUL.md": SOUL, "USER.md": USER, "AGENTS.md": AGENTS}

Value = str | bool | tuple[str, ...]


@record
class Job:
    """A schedule taken over from elsewhere; it begins switched off, to be looked at."""

    name: str
    schedule: str
    prompt: str
    rules: tuple[str, ...] = ()


@record
class Answers:
    """What was decided."""

    provider: str = "auto"
    base_url: str = ""
    models: tuple[str, ...] = ()
    api_key: str = ""  # env:NAME and the like; empty: the provider's usual variable
    preset: str = "balanced"
    mode: str = ""
    workspace: str = ""
    owner: tuple[str, ...] = ()
    #: The enabled ones with the platform's keys; secrets stand in ``secrets``, never here.
    channels: Mapping[str, Mapping[str, Value]] = field(
        default_factory=dict[str, Mapping[str, Value]]
    )
    jobs: tuple[Job, ...] = ()
    #: By name of their variable.
    secrets: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)


def merged(old: Answers, new: Answers) -> Answers:
    """What is said now wins; what is not mentioned stays."""
    channels = {
        name: {**old.channels.get(name, {}), **new.channels.get(name, {})}
        for name in (*old.channels, *new.channels)
    }
    jobs = {job.name: job for job in (*old.jobs, *new.jobs)}
    owner = tuple(dict.fromkeys((*old.owner, *new.owner)))
    default = Answers()
    plain: dict[str, Any] = {}
    for name in ("provider", "base_url", "models", "api_key", "preset", "mode", "workspace"):
        chosen = getattr(new, name)
        plain[name] = getattr(old, name) if chosen == getattr(default, name) else chosen
    return Answers(
        **plain,
        owner=owner,
        channels=channels,
        jobs=tuple(jobs.values()),
        secrets={**old.secrets, **new.secrets},
    )


def to_json(answers: Answers) -> dict[str, Any]:
    """Everything but the secrets."""
    return {name: value for name, value in dataclasses.asdict(answers).items() if name != "secrets"}


def from_json(saved: Mapping[str, Any]) -> Answers:
    """Raises TypeError, KeyError, ValueError for anything that ``to_json`` did not write."""
    channels: dict[str, dict[str, Value]] = {}
    for name, table in dict(saved["channels"]).items():
        settings = channels[str(name)] = {}
        for key, value in dict(table).items():
            if isinstance(value, list):
                value = tuple(cast("list[Any]", value))  # noqa: PLW2901
            settings[str(key)] = value
    jobs = tuple(
        Job(job["name"], job["schedule"], job["prompt"], tuple(job["rules"]))
        for job in saved["jobs"]
    )
    return Answers(
        provider=str(saved["provider"]),
        base_url=str(saved["base_url"]),
        api_key=str(saved["api_key"]),
        preset=str(saved["preset"]),
        mode=str(saved["mode"]),
        workspace=str(saved["workspace"]),
        models=tuple(saved["models"]),
        owner=tuple(saved["owner"]),
        channels=channels,
        jobs=jobs,
    )


def variable(channel: str, key: str) -> str:
    """Where a secret of a channel is looked for: the name config.example.yaml uses."""
    usual = {("matrix", "access_token"): "MATRIX_TOKEN"}
    return usual.get((channel, key), f"{channel.upper()}_{key.upper()}")


def config_text(answers: Answers) -> str:
    """Short, commented, and valid for every set of answers."""
    lines = [
        HEAD.rstrip("\n"),
        "profiles:",
        "  default:",
        f"    provider: {answers.provider}  # auto | anthropic | openai | offline",
    ]
    if answers.base_url:
        lines.append(f"    base_url: {_text(answers.base_url)}")
    if answers.api_key:
        lines.append(f"    api_key: {_text(answers.api_key)}")
    if answers.models:
        lines.append(f"    models: {_list(answers.models)}  # small to large, the last is used")
    if answers.workspace:
        lines.append(f"workspace: {_text(answers.workspace)}")
    lines += ["permissions:", f"  preset: {answers.preset}  # safe | balanced | full"]
    if answers.mode:
        lines.append(f"  mode: {answers.mode}")
    lines.append(f"owner: {_list(answers.owner)}  # who hears of trouble, for example slack:U123")
    if answers.jobs:
        lines += ["cron:", "  jobs:  # taken over; look at each, then set enabled: true"]
    for job in answers.jobs:
        lines += [
            f"    - name: {_text(job.name)}",
            f"      schedule: {_text(job.schedule)}",
            f"      prompt: {_text(job.prompt)}",
            f"      rules: {_list(job.rules)}",
            "      enabled: false",
        ]
    lines.append("channels:")
    for name in {**CHANNELS, **answers.channels}:
        remark = f"  # {CHANNELS[name]}" if name in CHANNELS else ""
        enabled = "true" if name in answers.channels else "false"
        lines += [f"  {name}:", f"    enabled: {enabled}{remark}"]
        for key, value in answers.channels.get(name, {}).items():
            match value:
                case bool():
                    written = "true" if value else "false"
                case str():
                    written = _text(value)
                case _:
                    written = f"{{people: {_list(value)}}}"
            lines.append(f"    {key}: {written}")
    return "\n".join(lines) + "\n"


def _text(value: str) -> str:
    """JSON is YAML; a reference such as env:NAME stays readable."""
    if value.startswith("env:") and value[4:].isidentifier():
        return value
    return json.dumps(value, ensure_ascii=False)


def _list(values: tuple[str, ...]) -> str:
    return json.dumps(list(values), ensure_ascii=False)


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
    for name, text in PAGES.items():
        page = pages.get(name, text)
        done.append(_written(home.root / name, page, record, anew=name in pages))
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
            saved: Any = json.loads(path.read_text(encoding="utf-8"))
            self._digests: dict[str, str] = dict(saved["files"])
            self.answers = from_json(saved["answers"])
        except (OSError, ValueError, TypeError, KeyError):
            self._digests = {}
            self.answers = Answers()

    def ours(self, path: Path, text: str) -> bool:
        return self._digests.get(path.name) == _digest(text)

    def wrote(self, path: Path, text: str) -> None:
        self._digests[path.name] = _digest(text)

    def save(self) -> None:
        self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        saved = {"files": self._digests, "answers": to_json(self.answers)}
        write_whole(self._path, json.dumps(saved, indent=1))


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def _written(path: Path, text: str, record: _Record, *, anew: bool = True) -> Done:
    try:
        present = path.read_text(encoding="utf-8", errors="surrogateescape")
    except FileNotFoundError:
        write_whole(path, text)
        record.wrote(path, text)
        return Done("created", path)
    if present == text:
        return Done("kept", path)
    if anew and record.ours(path, present):
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
    present = read_env(path)
    for name, value in secrets.items():
        if not name.isidentifier() or len(f"{value}.".splitlines()) != 1 or "\0" in value:
            raise ConfigError(
                f"{name[:60]}: its value holds a line break or a zero byte; .env would read it as"
                " other variables. Copy it again"
            )
    added: list[str] = []
    changed: list[str] = []
    for name, value in secrets.items():
        if name not in present:
            added.append(name)
        elif value not in (present[name], imported.get(name)):
            changed.append(name)
    if not added and not changed:
        return [Done("kept", path)]
    text = "# secrets of ohmo, read at start; nobody else may read this file\n"
    if path.exists():
        text = path.read_text(encoding="utf-8")
    lines: list[str] = []
    for line in text.splitlines():
        name = line.strip().removeprefix("export ").partition("=")[0]
        if name.strip() not in changed:
            lines.append(line)
    lines += [f'{name}="{secrets[name]}"' for name in (*changed, *added)]
    write_whole(path, "".join(f"{line}\n" for line in lines))
    done: list[Done] = []
    if changed:
        done.append(Done("changed", path, ", ".join(changed)))
    if added:
        done.append(Done("added", path, ", ".join(added)))
    return done
