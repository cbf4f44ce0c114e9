"""Jobs that cannot do what they were made for, without waiting for their hour."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence
from contextlib import closing
from datetime import timedelta

from ohmo.config.values import Secret
from ohmo.contracts.cron import BadJob, JobRow
from ohmo.contracts.errors import ConfigError
from ohmo.cron.recipes import BUNDLED, read_recipe, recipes
from ohmo.cron.spec import digest, seconds_apart, span
from ohmo.database.migrations import NewerSchema
from ohmo.database.writer import run
from ohmo.doctor.check import Check, Facts, Finding, ok, problem, skipped, warning
from ohmo.store.cron_jobs import jobs
from ohmo.storefile import inspection

LATE = timedelta(minutes=5)  # a slot that nobody claims
OPEN = timedelta(days=1)  # a run that does not end
_PROGRAMS = {"ohmo triage github": "gh", "ohmo triage gitlab": "glab"}
_NOT_READ = "the store cannot be read; see store.sound"

Look = Callable[[Facts, sqlite3.Connection, Sequence[JobRow]], Finding]


def _with_jobs(look: Look) -> Callable[[Facts], Finding]:
    """With the jobs that are not paused."""

    def examine(facts: Facts) -> Finding:
        path = facts.database
        if path is None or not path.exists():
            return skipped("there is no store of this machine yet")
        try:
            with closing(inspection.reading(path)) as connection:
                return look(
                    facts, connection, [row for row in run(connection, jobs()) if row.enabled]
                )
        except (sqlite3.Error, NewerSchema, ValueError, KeyError, TypeError):
            return skipped(_NOT_READ)

    return examine


def _ms(facts: Facts, ago: timedelta = timedelta()) -> int:
    return int((facts.now - ago).timestamp() * 1000)


@_with_jobs
def failing(_: Facts, connection: sqlite3.Connection, rows: Sequence[JobRow]) -> Finding:
    last = (
        "SELECT state, reason FROM occurrences WHERE job = ? AND state IN ('done','failed') ORDER"
        " BY due DESC LIMIT 1"
    )
    failed: list[tuple[JobRow, str | None]] = []
    for row in rows:
        ended = connection.execute(last, (row.job,)).fetchone()
        if ended and ended[0] == "failed":
            failed.append((row, ended[1]))
    if not failed:
        return ok()
    row, reason = failed[0]
    others = f", and {len(failed) - 1} more" if len(failed) > 1 else ""
    return warning(
        f"the last run of {row.name} failed: {_line(reason or 'no reason was given')}{others}",
        f"ohmo cron history {row.name}",
    )


@_with_jobs
def missed(facts: Facts, connection: sqlite3.Connection, rows: Sequence[JobRow]) -> Finding:
    query = "SELECT COUNT(*) FROM occurrences WHERE job = ? AND state = 'missed' AND due >= ?"
    since = _ms(facts, OPEN)
    missed: list[str] = []
    for row in rows:
        count = int(connection.execute(query, (row.job, since)).fetchone()[0])
        if count:
            missed.append(f"{row.name} ({count})")
    if not missed:
        return ok()
    return warning(
        f"runs of the last day were missed: {', '.join(missed[:5])}",
        "ohmo service install keeps ohmo running; catch_up: all makes up for each run",
    )


@_with_jobs
def late(facts: Facts, _: sqlite3.Connection, rows: Sequence[JobRow]) -> Finding:
    if facts.holder is None:
        return skipped("ohmo does not run")
    for row in rows:
        jitter = timedelta(seconds=row.body.spec.jitter or 0)
        if row.next_at is not None and row.next_at + jitter < facts.now - LATE:
            return problem(
                f"{row.name} is due for more than {LATE.seconds // 60} minutes and does not begin",
                "ohmo logs --level error",
            )
    return ok()


@_with_jobs
def unfinished(facts: Facts, connection: sqlite3.Connection, rows: Sequence[JobRow]) -> Finding:
    query = "SELECT MIN(due) FROM occurrences WHERE job = ? AND state = 'claimed'"
    for row in rows:
        due = connection.execute(query, (row.job,)).fetchone()[0]
        if due is not None and due < _ms(facts, OPEN):
            return warning(
                f"a run of {row.name} has not ended for more than a day",
                "ohmo approvals list, then ohmo inbox list --state taken",
            )
    return ok()


@_with_jobs
def target(facts: Facts, _: sqlite3.Connection, rows: Sequence[JobRow]) -> Finding:
    if facts.config is None:
        return skipped("config.yaml cannot be read")
    there = {channel.name for channel in facts.config.channels if channel.policy.enabled}
    lost = [
        (row.name, row.body.spec.to)
        for row in rows
        if row.body.spec.to is not None and row.body.spec.to.partition(":")[0] not in there
    ]
    if not lost:
        return ok()
    name, to = lost[0]
    others = ", ".join(f"{other} to {place}" for other, place in lost[1:6])
    if len(lost) > 6:
        others += f" and {len(lost) - 6} more"
    if others:
        others = f"; so do those of {others}"
    return warning(
        f"the reports of {name} go to {to}, whose channel is not enabled{others}",
        f"enable it in config.yaml, or ohmo cron edit {name} --to …",
    )


@_with_jobs
def secret(facts: Facts, _: sqlite3.Connection, rows: Sequence[JobRow]) -> Finding:
    if facts.config is None:
        return skipped("config.yaml cannot be read")
    for row in rows:
        for variable, reference in row.body.spec.secrets:
            try:
                facts.config.vault.reveal(Secret(reference))
            except ConfigError as error:
                return problem(
                    f"{row.name} needs {variable}: {_line(str(error))}",
                    f"put it where {reference} points, for example into .env",
                )
    return ok()


@_with_jobs
def allowed(_: Facts, __: sqlite3.Connection, rows: Sequence[JobRow]) -> Finding:
    changed = [
        row.name
        for row in rows
        if (row.body.spec.rules or row.body.spec.secrets)
        and row.body.approved != digest(row.body.spec)
    ]
    if not changed:
        return ok()
    name = changed[0]
    step = f"ohmo cron show {name}, then ohmo cron edit {name} --rule … --yes"
    return warning(
        f"nobody allowed the rules and secrets of {name} as they are now: it asks for everything",
        step,
    )


@_with_jobs
def often(facts: Facts, _: sqlite3.Connection, rows: Sequence[JobRow]) -> Finding:
    often = [
        (row.name, apart)
        for row in rows
        if (apart := seconds_apart(row.body, facts.now)) is not None
    ]
    if not often:
        return ok()
    name, apart = often[0]
    return warning(
        f"{name} asks the model every {span(apart)}",
        f"ohmo cron edit {name} --every 5m, if that is not meant",
    )


@_with_jobs
def programs(facts: Facts, _: sqlite3.Connection, rows: Sequence[JobRow]) -> Finding:
    for row in rows:
        for command, program in _PROGRAMS.items():
            if command in row.body.spec.prompt and not facts.machine.has_program(program):
                return problem(
                    f"{row.name} asks {program}, which is not there",
                    f"install {program} where the daemon runs",
                )
    return ok()


def _recipes(facts: Facts) -> Finding:
    folder = facts.home.root / "recipes"
    for name in recipes((folder, BUNDLED)):
        try:
            read_recipe(name, (folder, BUNDLED))
        except BadJob as error:
            return warning(_line(str(error)), f"mend {folder / name}.yaml, or remove it")
    return ok()


def _line(text: str) -> str:
    return " ".join(text.split())[:200]


CHECKS = (
    Check("cron.failing", "no job fails", failing),
    Check("cron.missed", "no run was missed lately", missed),
    Check("cron.late", "jobs begin when they are due", late),
    Check("cron.open", "runs end", unfinished),
    Check("cron.target", "reports have a way to go", target),
    Check("cron.secret", "what jobs need is there", secret),
    Check("cron.allowed", "rules of jobs were allowed as they are", allowed),
    Check("cron.often", "no job asks the model every few seconds", often),
    Check("cron.programs", "programs that recipes ask are there", programs),
    Check("cron.recipes", "recipes can be read", _recipes),
)
