"""From what somebody wrote to a job: every field checked, every mistake one line; and how many jobs
there may be, and how often those of somebody who is neither owner nor admin may run."""

from __future__ import annotations

import hashlib
import json
import re
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, cast
from zoneinfo import ZoneInfo

from channels.text import MINUTES, wall
from ohmo.config.values import Secret, duration
from ohmo.contracts.cron import BadJob, By, JobBody, JobRow, JobSpec
from ohmo.cron.times import after, end_of, instant_of, moment_of, period, zone_of
from ohmo.permissions.rules import parse_rule

FIELDS = frozenset(
    {
        "name",
        "prompt",
        "tz",
        "schedule",
        "at",
        "every",
        "to",
        "thread",
        "rules",
        "secrets",
        "deadline",
        "catch_up",
        "overlap",
        "when",
        "jitter",
        "retry",
        "expires",
        "recipe",
    }
)
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}")
_CHOICES: Mapping[str, Sequence[str]] = {
    "catch_up": ("none", "once", "all"),
    "overlap": ("skip", "queue"),
    "when": ("always", "changed", "wrong"),
}
_LONGEST = 100_000  # characters of a prompt
_LINE = 1_000  # characters of a schedule, a rule, an address
_NEAR = datetime(1900, 1, 1, tzinfo=UTC)  # every zone can tell these two
_FAR = datetime(9990, 1, 1, tzinfo=UTC)
_MOST_RETRIES = 10
_WITH_SECONDS = 6  # fields
MOST_JOBS = 2_000  # jobs of the house: every look at the clock reads all of them, 0.1 ms each
OF_ONE = 20  # jobs of one person
# Seconds between two runs: of what is called often, and at least of those who are neither owner
# nor admin, because every turn they take is taken from somebody else.
OFTEN = 60.0
Read = Callable[[str, ZoneInfo, datetime], datetime]


def spec_of(fields: Mapping[str, object], zone: str, now: datetime) -> JobSpec:
    """``zone``: of jobs that name none. Fields that are None count as not given. Raises BadJob with
    one line."""
    given = {name: value for name, value in fields.items() if value is not None}
    if unknown := sorted(given.keys() - FIELDS):
        raise BadJob(f"a job has no such field; it has {', '.join(sorted(FIELDS))}", unknown[0])
    tz = _text(given, "tz") or zone
    try:
        where = zone_of(tz)
    except ValueError as error:
        raise BadJob(str(error), "tz") from error
    times = [given.get(name, "") for name in ("schedule", "at", "every")]
    if sum(value != "" for value in times) != 1:
        raise BadJob(
            "give exactly one of schedule (0 9 * * 1-5), at (2026-12-01 09:00) and every (5m)"
        )
    prompt = _text(given, "prompt") or ""
    if not prompt.strip() or len(prompt) > _LONGEST:
        raise BadJob(f"say what shall be done, in at most {_LONGEST} characters", "prompt")
    words = re.findall(r"[A-Za-z0-9]+", prompt.lower())[:5]
    drawn = hashlib.sha256(prompt.encode("utf-8", "replace")).hexdigest()[:6]
    from_prompt = "-".join(words)[:48].strip("-")
    name = _text(given, "name") or from_prompt or f"job-{drawn}"
    if _NAME.fullmatch(name) is None:
        raise BadJob(
            f"{name[:80]!r} cannot be a name; use up to 64 letters, digits, dots, dashes and"
            " underscores",
            "name",
        )
    at = _text(given, "at")
    expires = _text(given, "expires")
    to = _text(given, "to")
    if to is not None and not all(to.partition(":")):
        raise BadJob(f"{to[:80]!r} is no address; write CHANNEL:REST, for example slack:C123", "to")
    retry = given.get("retry", 0)
    if not isinstance(retry, int) or isinstance(retry, bool) or not 0 <= retry <= _MOST_RETRIES:
        raise BadJob(f"a number from 0 to {_MOST_RETRIES}", "retry")
    now = whole(now)
    spec = JobSpec(
        name=name,
        prompt=prompt,
        tz=where.key,
        schedule=_text(given, "schedule"),
        at=None if at is None else whole(_moment("at", at, where, now)).isoformat(),
        every=_seconds(given, "every", least=1.0),
        to=to,
        thread=_text(given, "thread"),
        rules=_rules(given),
        secrets=_secrets(given),
        deadline=_seconds(given, "deadline", least=1.0),
        jitter=_seconds(given, "jitter") or 0.0,
        retry=retry,
        expires=(
            None if expires is None else _moment("expires", expires, where, now, end_of).isoformat()
        ),
        recipe=_text(given, "recipe"),
        **cast("Any", {key: _choice(given, key) for key in _CHOICES if key in given}),
    )
    after(JobBody(spec, now), now)  # its fields and zone are right
    return spec


def fields_of_spec(spec: JobSpec) -> dict[str, object]:
    """What ``spec_of`` reads back as the same job."""
    fields: dict[str, object] = {name: getattr(spec, name) for name in FIELDS}
    return fields | {"rules": list(spec.rules), "secrets": dict(spec.secrets)}


def first_slot(body: JobBody, now: datetime) -> datetime | None:
    """Where a new or changed job begins. Raises BadJob: it would never run."""
    due = after(body, now)
    if due is not None:
        return due
    spec = body.spec
    if spec.at is not None and instant_of(spec.at) <= now:
        raise BadJob(f"{when_words(instant_of(spec.at), spec.tz)} is in the past", "at")
    if spec.expires is not None:
        raise BadJob("the job would be over before its first run", "expires")
    raise BadJob(f"{spec.schedule!r} never comes", "schedule")


def digest(spec: JobSpec) -> str:
    """What an approval of a job is bound to: the rules and secrets that were shown."""
    return hashlib.sha256(
        json.dumps([list(spec.rules), [list(pair) for pair in spec.secrets]]).encode()
    ).hexdigest()


# with their milliseconds; days only where nothing else is left
_UNITS = (("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1_000), ("ms", 1))


def span(seconds: float | None) -> str | None:
    """``5m``, ``24h``, ``1h30m``: as a duration is written."""
    if seconds is None:
        return None
    rest = round(seconds * 1000)
    text = ""
    for unit, size in _UNITS:
        if unit == "d" and rest % size:
            continue
        count, rest = divmod(rest, size)
        if count:
            text += f"{count}{unit}"
    return text or "0s"


def when_words(due: datetime | None, tz: str) -> str:
    """``Mon 2026-11-23 09:00 CET (Europe/Berlin)``; seconds where there are some."""
    if due is None:
        return "never"
    seconds = ":%S" if due.second or due.microsecond else ""
    return wall(due, zone_of(tz), f"%a {MINUTES}{seconds}")


def rhythm(spec: JobSpec) -> str:
    """When it runs, in a few words."""
    if spec.schedule is not None:
        return spec.schedule
    if spec.every is not None:
        return f"every {span(spec.every)}"
    if spec.at is None:
        return "once"
    return f"once, {instant_of(spec.at).astimezone(zone_of(spec.tz)):%Y-%m-%d %H:%M}"


def seconds_apart(body: JobBody, now: datetime) -> float | None:
    """Between its next two runs, where that is less than a minute; None for any other job."""
    if body.spec.every is None and not _seconds_field(body.spec):
        return None  # five fields are never more often than once a minute
    due = after(body, now)
    apart = None if due is None else period(body, due)
    seconds = None if apart is None else apart.total_seconds()
    return seconds if seconds is not None and seconds < OFTEN else None


def caution(body: JobBody, now: datetime) -> str:
    """What the person should know who makes a job by seconds; "" for any other."""
    last = _seconds_field(body.spec)
    apart = seconds_apart(body, now)
    notes: list[str] = []
    if last:
        notes.append(f"the sixth field, {last}, is seconds")
    if apart is not None:
        notes.append(f"the model is asked, and paid, every {span(apart)}")
    return "; ".join(notes)


def _seconds_field(spec: JobSpec) -> str:
    """Empty without one. Source of the order: croniter, six fields."""
    fields = (spec.schedule or "").split()
    return fields[-1] if len(fields) == _WITH_SECONDS else ""


def check_quota(spec: JobSpec, by: By, others: Sequence[JobRow]) -> None:
    """``others``: every other job there is. Raises BadJob: this one would be too much."""
    if len(others) >= MOST_JOBS:
        raise BadJob(
            f"there are {MOST_JOBS} jobs already, which is as many as there can be; remove some"
            " first: ohmo cron remove NAME",
            "name",
        )
    if by.everything:
        return
    seconds = spec.schedule.split()[5:] if spec.schedule is not None else []
    by_the_second = any(not part.isdigit() for part in seconds)
    if by_the_second or (spec.every is not None and spec.every < OFTEN):
        raise BadJob(
            "a job of yours may run once a minute at most; ask the owner for one that runs more"
            " often",
            "every",
        )
    theirs = sum(is_of(row, by) for row in others)
    if theirs >= OF_ONE:
        raise BadJob(
            f"you have {theirs} jobs, which is as many as one person may have; remove one first:"
            " /cron remove NAME",
            "name",
        )


def is_of(row: JobRow, by: By) -> bool:
    """Whether somebody sees and touches a job."""
    return by.everything or (row.person, row.body.account) == (by.person, by.account)


def _moment(
    name: str, text: str, where: ZoneInfo, now: datetime, read: Read = moment_of
) -> datetime:
    try:
        moment = read(text, where, now)
    except BadJob as error:
        raise BadJob(str(error), name) from error
    except OverflowError:
        moment = _FAR
    if not _NEAR < moment < _FAR:
        raise BadJob(
            f"{text[:80]!r} is further away than any calendar; write a date such as"
            " 2026-12-01 09:00",
            name,
        )
    return moment


def _text(given: Mapping[str, object], name: str) -> str | None:
    value = given.get(name)
    if value is None or value == "":
        return None
    if not isinstance(value, str):
        raise BadJob(f"expected text, not {type(value).__name__}", name)
    return _line(name, value) if name != "prompt" else value.strip() or None


def _line(name: str, text: str) -> str | None:
    """People are shown it before they allow it: it has to be what it looks like."""
    text = text.strip()
    if len(text) > _LINE:
        raise BadJob(f"at most {_LINE} characters", name)
    if any(unicodedata.category(letter) in ("Cc", "Cf", "Cs", "Zl", "Zp") for letter in text):
        raise BadJob(f"{ascii(text)[:80]} holds a line break or a character that nobody sees", name)
    return text or None


def _seconds(given: Mapping[str, object], name: str, least: float = 0.0) -> float | None:
    value = given.get(name)
    if value is None or value == "":
        return None
    try:
        length = duration(value)
    except ValueError as error:
        raise BadJob(str(error), name) from error
    if length < timedelta(seconds=least):
        raise BadJob(f"at least {span(least)}", name)
    return round(length.total_seconds(), 3)


def _choice(given: Mapping[str, object], name: str) -> str:
    value = given[name]
    if value not in _CHOICES[name]:
        choices = ", ".join(_CHOICES[name])
        raise BadJob(f"{str(value)[:40]!r} is none of {choices}", name)
    return str(value)


def _rules(given: Mapping[str, object]) -> tuple[str, ...]:
    rules = given.get("rules") or ()
    if isinstance(rules, str) or not isinstance(rules, Sequence):
        raise BadJob("expected a list such as [Bash(gh run list:*)]", "rules")
    for rule in cast("Sequence[object]", rules):
        try:
            parse_rule(_line("rules", str(rule)) or "")
        except ValueError as error:
            raise BadJob(str(error), "rules") from error
    return tuple(str(rule).strip() for rule in cast("Sequence[object]", rules))


def _secrets(given: Mapping[str, object]) -> tuple[tuple[str, str], ...]:
    secrets: object = given.get("secrets") or ()
    if secrets == ():
        return ()
    if not isinstance(secrets, Mapping):
        raise BadJob(
            "expected names with references, for example {GH_TOKEN: env:GH_TOKEN}", "secrets"
        )
    references: list[tuple[str, str]] = []
    for name, reference in cast("Mapping[object, object]", secrets).items():
        secret = reference if isinstance(reference, Secret) else Secret(str(reference))
        if _VARIABLE.fullmatch(str(name)) is None:
            raise BadJob(f"{str(name)[:60]!r} cannot be a variable's name", "secrets")
        if secret.kind == "literal":
            raise BadJob(
                f"{name}: a job keeps references, not values; write env:NAME, file:PATH or"
                " keyring:SERVICE/NAME",
                "secrets",
            )
        references.append((str(name), secret.written()))
    return tuple(sorted(references))


def whole(moment: datetime) -> datetime:
    """Slots are whole milliseconds, as the store keeps them: else a slot would come back a little
    earlier than it is, and be due again."""
    return moment.replace(microsecond=moment.microsecond // 1000 * 1000)


def in_utc(moment: datetime) -> str:
    """ISO 8601 as the API tells it."""
    return moment.astimezone(UTC).isoformat().replace("+00:00", "Z")


def job_line(row: JobRow) -> str:
    """A job as an item of a list."""
    spec = row.body.spec
    next_run = when_words(row.next_at, spec.tz) if row.enabled else "paused"
    return f"- `{row.name}`: {rhythm(spec)}; next {next_run}"
