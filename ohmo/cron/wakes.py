"""From a due slot to the wake that runs it."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

from channels.contract import Address, ChatId, TopicId
from ohmo.contracts.arrivals import Occurrence, Terms, Wake
from ohmo.contracts.cron import JobRow, JobSpec
from ohmo.cron.spec import digest, when_words

PREFIX = "cron:"  # of the house's threads that nobody sits in front of
SILENT = "[SILENT]"
DEADLINE = 7_200.0  # seconds, of jobs that state none: as long as a missed run may be caught up


def place_of(row: JobRow) -> Address:
    """The thread whose mind runs: its own, or the named one of the house. Nobody's job comes into
    another person's by its name: theirs bear the person, the house's do not."""
    theirs = "" if row.person == "owner" else f":{row.person}@{row.body.account}"
    return Address("house", "local", ChatId(f"{PREFIX}{_named(row.body.spec) or row.name}{theirs}"))


def _named(spec: JobSpec) -> str | None:
    return spec.thread if spec.to is None else None


def destination(spec: JobSpec, place: Address | None) -> tuple[str | None, Address | None]:
    """Where the report goes: as written with its thread, and as it was understood."""
    if spec.to is None:
        return None, place
    if place is not None and spec.thread is not None:
        place = Address(place.channel, place.account, place.chat, TopicId(spec.thread))
    return (
        spec.to if spec.thread is None or place is not None else f"{spec.to}/{spec.thread}",
        place,
    )


def wake_of(
    row: JobRow,
    due: datetime,
    *,
    by: Literal["schedule", "catch_up", "hand"],
    following: datetime | None,
    last: str,
    now: datetime,
) -> Wake:
    """``last``: what the job reported the last time, for "only if changed". ``now``: its deadline
    counts from here."""
    spec, terms = row.body.spec, terms_of(row)
    fresh = _named(spec) is None
    return Wake(
        key=f"cron:{row.job}@{round(due.timestamp() * 1000)}",
        origin="cron",
        place=place_of(row),
        deliver=None,
        person=row.person,
        prompt=prompt_of(spec, due, last),
        at=now,
        occurrence=Occurrence(row.job, due, row.revision, following, by, fresh),
        terms=terms,
        account=row.body.account,
    )


def terms_of(row: JobRow) -> Terms:
    spec = row.body.spec
    approved = row.body.approved == digest(spec)
    to, place = destination(spec, row.body.place)
    deadline = spec.deadline or DEADLINE
    return Terms(
        spec.name,
        spec.rules if approved else (),
        spec.secrets if approved else (),
        deadline,
        spec.when,
        to=to,
        place=place,
    )


def prompt_of(spec: JobSpec, due: datetime, last: str) -> str:
    """The job's own words, then when it runs and who is told."""
    about = (
        f"This is the scheduled run of the job {spec.name}, due {when_words(due, spec.tz)}. Nobody"
        " may be there to answer."
    )
    match spec.when:
        case "wrong":
            about += (
                " Whoever gets this wants to hear of trouble only: if nothing is wrong, answer"
                f" with exactly {SILENT} and nothing else; then nobody is told. Otherwise say what"
                " is wrong."
            )
        case "changed":
            about += (
                " Whoever gets this wants to hear of changes only: if nothing of substance changed"
                f" since the last report, answer with exactly {SILENT} and nothing else; then"
                " nobody is told."
            )
            about += (
                f" The last report began:\n\n{last}" if last else " There is no last report yet."
            )
        case "always":
            pass
    return f"{spec.prompt}\n\n({about})"
