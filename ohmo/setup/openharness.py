"""Takes over what OpenHarness' ohmo 0.1 keeps in ``~/.ohmo``: persona, person, memory, channels
with their tokens, cron. Its files are only read."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

from channels.record import record
from ohmo.contracts.cron import BadJob
from ohmo.contracts.errors import ConfigError
from ohmo.cron.spec import spec_of
from ohmo.setup.answers import Answers, Job, Value, variable

# Theirs -> ours, by channel: (their key, our key, whether it is a secret)
_KEYS: dict[str, tuple[tuple[str, str, bool], ...]] = {
    "slack": (("bot_token", "bot_token", True), ("app_token", "app_token", True)),
    "telegram": (("token", "token", True),),
    "discord": (("token", "token", True),),
    "feishu": (
        ("app_id", "app_id", True),
        ("app_secret", "app_secret", True),
        ("domain", "domain", False),
    ),
    "matrix": (
        ("homeserver", "homeserver", False),
        ("user_id", "user", False),
        ("access_token", "access_token", True),
    ),
}
_LARGEST = 2**20  # bytes of a page or a note
# Nobody is given full rights by an import.
_MODES = {"default": "", "plan": "plan", "full_auto": ""}


@record
class Found:
    """What another program left."""

    answers: Answers
    pages: Mapping[str, str]  # our page by name, with its text
    notes: Mapping[str, bytes]  # files of the memory by path
    notices: tuple[str, ...]  # what could not be taken over, and why


def read(folder: Path, data: Path) -> Found:
    """``folder``: their workspace (gateway.json, soul.md); ``data``: where their cron_jobs.json is.
    Raises ConfigError: nothing of theirs is there."""
    if not (folder / "gateway.json").exists() and not (folder / "soul.md").exists():
        raise ConfigError(
            f"{folder}: neither gateway.json nor soul.md is there; name OpenHarness' folder with"
            " --source"
        )
    notices: list[str] = []
    gateway = _json(folder / "gateway.json", notices)
    table = _table(gateway)
    channels, secrets = _channels(table, notices)
    if table.get("permission_mode") == "full_auto":
        notices.append(
            "permission_mode full_auto was not taken over: write permissions.mode yourself if you"
            " want that"
        )
    answers = Answers(
        mode=_MODES.get(str(table.get("permission_mode", "default")), ""),
        channels=channels,
        jobs=_jobs(data / "cron_jobs.json", notices),
        secrets=secrets,
    )
    pages: dict[str, str] = {}
    for ours, theirs in (("SOUL.md", ("soul.md", "identity.md")), ("USER.md", ("user.md",))):
        texts = [_page(folder / name) for name in theirs]
        whole = "\n\n".join(text for text in texts if text)
        if whole:
            pages[ours] = whole.rstrip() + "\n"
    memory = folder / "memory"
    notes: dict[str, bytes] = {}
    for path in sorted(memory.rglob("*.md")) if memory.is_dir() else ():
        if path.is_file() and not path.is_symlink() and path.stat().st_size <= _LARGEST:
            notes[str(path.relative_to(memory))] = path.read_bytes()
    return Found(answers, pages, notes, tuple(notices))


def _json(path: Path, notices: list[str]) -> object:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, RecursionError) as error:
        reason = getattr(error, "strerror", None) or "not JSON"
        notices.append(f"{path}: cannot be read ({reason}); it was left out")
        return None


def _channels(
    table: Mapping[str, Any], notices: list[str]
) -> tuple[dict[str, dict[str, Value]], dict[str, str]]:
    channels: dict[str, dict[str, Value]] = {}
    secrets: dict[str, str] = {}
    enabled = dict.fromkeys(str(name)[:100] for name in _list(table.get("enabled_channels")))
    configs = _table(table.get("channel_configs"))
    for name in enabled:
        if name not in _KEYS:
            notices.append(f"channel {name}: ohmo has no such channel; it was left out")
            continue
        theirs = _table(configs.get(name))
        ours: dict[str, Value] = {}
        for key, own, secret in _KEYS[name]:
            value = str(theirs.get(key) or "").strip()
            env_name = variable(name, own)
            if len(value.splitlines()) > 1 or "\0" in value:
                notices.append(
                    f"channel {name}: {key} holds a line break or a zero byte; it was left out"
                )
            elif value and secret:
                secrets[env_name] = value
                ours[own] = f"env:{env_name}"
            elif value:
                ours[own] = value
            elif secret:
                notices.append(f"channel {name}: it has no {key} there; set {env_name}")
        people = tuple(str(person) for person in _list(theirs.get("allow_from")))
        if "*" in people:
            notices.append(
                f"channel {name}: allow_from * was not taken over: people pair with a code (dm:"
                " open lets everybody in)"
            )
        elif people:
            ours |= {"dm": "allowlist", "allow": people}
        channels[name] = ours
    return channels, secrets


def _jobs(path: Path, notices: list[str]) -> tuple[Job, ...]:
    jobs: list[Job] = []
    for entry in _list(_json(path, notices)):
        job = _table(entry)
        name = str(job.get("name") or "").strip()
        schedule = str(job.get("schedule") or "").strip()
        command = str(job.get("command") or "").strip()
        if not (name and schedule and command):
            notices.append(f"{path}: a job without name, schedule or command was left out")
            continue
        name = re.sub(r"[^A-Za-z0-9._-]+", "-", name).strip("-._")[:64] or "job"
        where = f" in the folder {job['cwd']}" if job.get("cwd") else ""
        prompt = f"Run this command{where} and report what it says: {command}"
        # This command and no other: what the grammar of rules would read as a pattern gets none.
        rules: tuple[str, ...] = (f"Bash({command})",)
        if "*" in command or "${" in command or len(command.splitlines()) > 1:
            rules = ()
        fields = {"name": name, "schedule": schedule, "prompt": prompt, "rules": list(rules)}
        try:
            spec_of(fields, "UTC", datetime.now(UTC))
        except BadJob as error:
            notices.append(f"{path}: the job {name} was left out ({error})")
            continue
        if not rules:
            notices.append(
                f"{path}: the job {name} got no rule, because its command as a rule would allow"
                " others too; it will ask"
            )
        jobs.append(Job(name, schedule, prompt, rules))
    return tuple(jobs)


def _table(value: object) -> dict[str, Any]:
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def _list(value: object) -> list[object]:
    return cast("list[object]", value) if isinstance(value, list) else []


def _page(path: Path) -> str:
    """A link is not followed: it may lead to what is no page at all, and a page is told to the
    model."""
    try:
        if path.is_symlink() or path.stat().st_size > _LARGEST:
            return ""
        return path.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError):
        return ""
