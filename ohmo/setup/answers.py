"""What the owner decided in the wizard, the ``config.yaml`` it becomes, and the three pages the
agent reads at first."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from dataclasses import field
from typing import Any, cast

from channels.record import record

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
    plain = {
        name: value
        if (value := getattr(new, name)) != getattr(default, name)
        else getattr(old, name)
        for name in ("provider", "base_url", "models", "api_key", "preset", "mode", "workspace")
    }
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


def from_json(found: Mapping[str, Any]) -> Answers:
    """Raises TypeError, KeyError, ValueError for anything that ``to_json`` did not write."""
    channels = {
        str(name): {str(key): _read(value) for key, value in dict(table).items()}
        for name, table in dict(found["channels"]).items()
    }
    jobs = tuple(
        Job(job["name"], job["schedule"], job["prompt"], tuple(job["rules"]))
        for job in found["jobs"]
    )
    return Answers(
        provider=str(found["provider"]),
        base_url=str(found["base_url"]),
        api_key=str(found["api_key"]),
        preset=str(found["preset"]),
        mode=str(found["mode"]),
        workspace=str(found["workspace"]),
        models=tuple(found["models"]),
        owner=tuple(found["owner"]),
        channels=channels,
        jobs=jobs,
    )


def _read(value: Any) -> Value:
    return tuple(cast("list[Any]", value)) if isinstance(value, list) else value


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
    lines += [f"    base_url: {_text(answers.base_url)}"] if answers.base_url else []
    lines += [f"    api_key: {_text(answers.api_key)}"] if answers.api_key else []
    lines += (
        [f"    models: {_list(answers.models)}  # small to large, the last is used"]
        if answers.models
        else []
    )
    lines += [f"workspace: {_text(answers.workspace)}"] if answers.workspace else []
    lines += ["permissions:", f"  preset: {answers.preset}  # safe | balanced"]
    lines += [f"  mode: {answers.mode}"] if answers.mode else []
    lines += [f"owner: {_list(answers.owner)}  # who hears of trouble, for example slack:U123"]
    lines += _jobs(answers.jobs)
    lines += ["channels:"]
    for name in (*CHANNELS, *(other for other in answers.channels if other not in CHANNELS)):
        lines += _channel(name, answers.channels.get(name))
    return "\n".join(lines) + "\n"


def _channel(name: str, settings: Mapping[str, Value] | None) -> list[str]:
    remark = CHANNELS.get(name, "")
    lines = [
        f"  {name}:",
        f"    enabled: {'true' if settings is not None else 'false'}"
        + (f"  # {remark}" if remark else ""),
    ]
    for key, value in (settings or {}).items():
        lines.append(f"    {key}: {_value(value)}")
    return lines


def _jobs(jobs: tuple[Job, ...]) -> list[str]:
    if not jobs:
        return []
    lines = ["cron:", "  jobs:  # taken over; look at each, then set enabled: true"]
    for job in jobs:
        lines += [
            f"    - name: {_text(job.name)}",
            f"      schedule: {_text(job.schedule)}",
            f"      prompt: {_text(job.prompt)}",
        ]
        lines += [f"      rules: {_list(job.rules)}", "      enabled: false"]
    return lines


def _value(value: Value) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return _text(value) if isinstance(value, str) else f"{{people: {_list(value)}}}"


def _text(value: str) -> str:
    """JSON is YAML; a reference such as env:NAME stays readable."""
    return (
        value
        if value.startswith("env:") and value[4:].isidentifier()
        else json.dumps(value, ensure_ascii=False)
    )


def _list(values: tuple[str, ...]) -> str:
    return "[" + ", ".join(json.dumps(value, ensure_ascii=False) for value in values) + "]"
