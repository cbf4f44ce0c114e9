"""Where jobs are made, changed and looked at: the one face for keyboard, page, chat and model."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from pathlib import Path

from channels.contract import Address, Clock
from channels.errors import Unavailable
from channels.record import record
from ohmo.ambient import NewId
from ohmo.contracts.arrivals import Terms, Wake
from ohmo.contracts.cron import (
    OWNER,
    BadJob,
    By,
    JobBody,
    JobRow,
    Jobs,
    JobSpec,
    NoSuchJob,
    OccurrenceRow,
)
from ohmo.contracts.errors import NotConnected, NotEnabled
from ohmo.contracts.messages import Json
from ohmo.contracts.turns import Accepted
from ohmo.cron.recipes import Recipe, read_recipe, recipes
from ohmo.cron.reporting import job_view
from ohmo.cron.spec import (
    MOST_JOBS,
    caution,
    check_quota,
    digest,
    fields_of_spec,
    first_slot,
    in_utc,
    is_of,
    spec_of,
    when_words,
    whole,
)
from ohmo.cron.times import after
from ohmo.cron.wakes import place_of, terms_of, wake_of

Publish = Callable[[Wake], Awaitable[Accepted]]
_SHOWN = 5  # slots a preview shows
_TIMES = ("schedule", "at", "every")  # fields of which a job has one


@record
class DeskParts:
    """What the desk is built from."""

    jobs: Jobs
    publish: Publish
    resolve: Callable[[str], Address]  # of CHANNEL:REST; ValueError: cannot, NotConnected: not now
    secret_missing: Callable[[str], str]  # why a reference leads to nothing; "": it does not
    recipes: Sequence[Path]  # folders, the owner's first
    zone: str  # of jobs that name none
    new_id: NewId
    clock: Clock
    withdraw: Callable[[Collection[str]], Awaitable[None]]  # the questions of these turns


class CronDesk:
    """Raises BadJob and NoSuchJob, each with one line, and what the store raises."""

    def __init__(self, parts: DeskParts) -> None:
        self._parts = parts
        self._by_hand = asyncio.Lock()

    def _now(self) -> datetime:
        return whole(self._parts.clock())

    async def list(self, by: By = OWNER) -> list[JobRow]:
        """By name."""
        return [row for row in await self._parts.jobs.jobs() if is_of(row, by)]

    async def job(self, name: str, by: By = OWNER) -> JobRow:
        rows = await self.list(by)
        row = next((row for row in rows if row.name == name), None)
        if row is None:
            there = ", ".join(row.name for row in rows[:10]) or "none yet"
            raise NoSuchJob(f"{name[:80]}: there is no such job; there are: {there}")
        return row

    async def history(self, name: str, by: By = OWNER, *, limit: int = 50) -> list[OccurrenceRow]:
        """The latest first."""
        return await self._parts.jobs.occurrences((await self.job(name, by)).job, limit=limit)

    def understand(
        self, fields: Mapping[str, object], values: Mapping[str, str] | None = None
    ) -> JobSpec:
        """The job that these fields mean, its recipe filled in with ``values``; nothing is
        written."""
        name = fields.get("recipe")
        if isinstance(name, str) and name:
            given = {key: value for key, value in fields.items() if value not in (None, "", [], {})}
            recipe = read_recipe(name, self._parts.recipes).job(values or {})
            if any(given.get(key) for key in _TIMES):
                for key in _TIMES:
                    recipe.pop(key, None)
            fields = {**recipe, **given}
        return spec_of(fields, self._parts.zone, self._now())

    def first(self, spec: JobSpec) -> datetime | None:
        """When it would run first."""
        now = self._now()
        return first_slot(JobBody(spec, now), now)

    def caution(self, spec: JobSpec) -> str:
        """See ``spec.caution``."""
        now = self._now()
        return caution(JobBody(spec, now), now)

    def looks(self, spec: JobSpec) -> Mapping[str, Json]:
        """A job as it would be, with its next slots, for whoever has to agree to it."""
        now = self._now()
        self._check_secrets(spec)
        body = JobBody(spec, now, place=self._place(spec))
        slots = [first_slot(body, now)]
        while (last := slots[-1]) is not None and len(slots) < _SHOWN:
            slots.append(after(body, last))
        upcoming: list[Json] = [
            {"at": in_utc(slot), "local": when_words(slot, spec.tz)}
            for slot in slots
            if slot is not None
        ]
        row = JobRow(
            job="",
            name=spec.name,
            origin="person",
            body=body,
            revision=1,
            enabled=True,
            next_at=slots[0],
            person="owner",
        )
        return {**job_view(row, None), "upcoming": upcoming, "note": caution(body, now)}

    def recipes(self) -> list[Recipe]:
        """Those that can be read, by name."""
        readable: list[Recipe] = []
        for name in recipes(self._parts.recipes):
            with suppress(BadJob):  # said to whoever asks for it by name
                readable.append(read_recipe(name, self._parts.recipes))
        return readable

    async def view(self, row: JobRow) -> Mapping[str, Json]:
        """A job as the API tells it."""
        latest = await self._parts.jobs.occurrences(row.job, limit=1)
        # What stands in the way of its reports, as far as it is known, and what is dear about it.
        notes = [caution(row.body, self._now())]
        to = row.body.spec.to
        if to is not None:
            with suppress(ValueError):  # it is connected later, or its reports say what is wrong
                try:
                    self._parts.resolve(to)
                except NotEnabled as error:
                    notes.append(f"{error}; until then its reports go to the owner")
        view = job_view(row, latest[0] if latest else None)
        return {**view, "note": "; ".join(filter(None, notes))}

    async def create(
        self,
        fields: Mapping[str, object],
        by: By = OWNER,
        *,
        values: Mapping[str, str] | None = None,
        job: str = "",
        place: Address | None = None,
        enabled: bool = True,
    ) -> JobRow:
        """Whoever calls this has shown its rules and secrets, and was allowed them. ``job``: an id;
        the same one again is the same job. ``place``: where its report goes when ``to`` is not
        given. A name that nobody chose gets a number where it is taken."""
        parts = self._parts
        now = self._now()
        spec = self.understand(fields, values)
        self._check_secrets(spec)
        check_quota(spec, by, [row for row in await parts.jobs.jobs() if row.job != job])
        body = JobBody(
            spec=spec,
            anchor=now,
            approved=digest(spec),
            account=by.account,
            place=self._place(spec) or (place if spec.to is None else None),
        )
        due = first_slot(body, now)
        row = JobRow(
            job=job or parts.new_id(),
            name=spec.name,
            origin="person",
            body=body,
            revision=1,
            enabled=enabled,
            next_at=due if enabled else None,
            person=by.person,
        )
        chosen = bool(fields.get("name") or fields.get("recipe"))
        for number in range(2, MOST_JOBS + 3):
            if await parts.jobs.save_job(row):
                return row
            for existing in await parts.jobs.jobs():
                if existing.job == row.job:
                    return existing
            if chosen:
                break
            name = f"{spec.name}-{number}"
            row = replace(row, name=name, body=replace(body, spec=replace(spec, name=name)))
        raise BadJob(
            f"there is a job {spec.name} already; choose another name, or change it with:"
            f" ohmo cron edit {spec.name}",
            "name",
        )

    async def changed(self, name: str, fields: Mapping[str, object], by: By = OWNER) -> JobSpec:
        """The job as it would be with these fields; nothing is written."""
        return self._merged(await self._own(name, by), fields)

    def _merged(self, row: JobRow, fields: Mapping[str, object]) -> JobSpec:
        known = fields_of_spec(row.body.spec)
        if any(fields.get(key) for key in _TIMES):
            known |= dict.fromkeys(_TIMES)
        if fields.get("name") not in (None, row.name):
            raise BadJob("a job keeps its name; remove it and add another", "name")
        return spec_of({**known, **fields}, self._parts.zone, self._now())

    async def edit(self, name: str, fields: Mapping[str, object], by: By = OWNER) -> JobRow:
        """Fields that are given win over what the job is; one that is empty takes it away."""
        row = await self._own(name, by)
        spec = self._merged(row, fields)
        self._check_secrets(spec)
        now = self._now()
        made_at = row.body.place if row.body.spec.to is None else None
        place = self._place(spec) if spec.to is not None else made_at
        anchor = row.body.anchor if spec.every == row.body.spec.every else now
        body = replace(row.body, spec=spec, anchor=anchor, approved=digest(spec), place=place)
        due = row.next_at
        if body.spec != row.body.spec and row.enabled:
            due = first_slot(body, now)
        return await self._save(row, replace(row, body=body, next_at=due))

    async def pause(self, name: str, by: By = OWNER) -> JobRow:
        row = await self.job(name, by)
        if not row.enabled:
            return row
        return await self._save(row, replace(row, enabled=False, next_at=None))

    async def resume(self, name: str, by: By = OWNER) -> JobRow:
        """From the next slot on: what was due meanwhile is not run."""
        row = await self.job(name, by)
        if row.enabled:
            return row
        due = first_slot(row.body, self._now())
        return await self._save(row, replace(row, enabled=True, next_at=due))

    async def remove(self, name: str, by: By = OWNER) -> None:
        await self._remove(await self._own(name, by))

    async def _remove(self, row: JobRow) -> None:
        """What waits is stopped, what runs ends, and what it asks is not asked any more."""
        jobs = self._parts.jobs
        turns = {
            run.turn for run in await jobs.claimed() if run.job == row.job and run.turn is not None
        }
        await jobs.remove_job(row.job)
        await self._parts.withdraw(turns)

    async def run(self, name: str, by: By = OWNER) -> datetime:
        """Now, beside its schedule; returns the instant under which the run stands in the history.
        BadJob: it runs already."""
        async with self._by_hand:  # who presses twice has pressed once
            row = await self.job(name, by)
            now = self._now()
            running = {run.job for run in await self._parts.jobs.claimed()}
            if row.body.spec.overlap == "skip" and row.job in running:
                raise BadJob(f"{name}: it is running already; see ohmo cron history {name}")
            last = await self.last_report(row)
            accepted = await self._parts.publish(
                wake_of(row, now, by="hand", following=None, last=last, now=now)
            )
        if accepted.duplicate:
            raise BadJob(
                f"{name}: it was changed or started by somebody else in this moment; try again"
            )
        return now

    async def terms_at(self, place: Address, person: str, job: str) -> tuple[Terms, str] | None:
        """Under what the job runs whose thread this is and that acts for ``person``, told whatever
        its answer, and the account of that person; None: there is none any more. ``job``: its name
        where several share the thread, "": not known."""
        rows = [
            row
            for row in await self._parts.jobs.jobs()
            if place_of(row) == place and row.person == person and job in ("", row.name)
        ]
        if len(rows) != 1:
            return None
        return replace(terms_of(rows[0]), when="always"), rows[0].body.account

    async def last_report(self, row: JobRow) -> str:
        """How the last answer began, for a job that tells changes only."""
        if row.body.spec.when != "changed":
            return ""
        rows = await self._parts.jobs.occurrences(row.job, limit=20)
        for run in rows:
            if run.state == "done" and run.preview:
                return run.preview
        return ""

    async def sync(self, specs: Sequence[JobSpec], enabled: Sequence[bool]) -> None:
        """Jobs of the configuration become rows; those that stand there no more are removed. A job
        that did not change keeps its place in time."""
        jobs = self._parts.jobs
        now = self._now()
        rows = {row.name: row for row in await jobs.jobs()}
        for spec, on in zip(specs, enabled, strict=True):
            row = rows.get(spec.name)
            anchor = now if row is None else row.body.anchor
            body = JobBody(
                spec=spec, anchor=anchor, approved=digest(spec), account="", place=self._place(spec)
            )
            same = row is not None and row.origin == "config" and row.body.spec == spec
            if row is None:
                due = after(body, now) if spec.at is None else body_at(spec)
                await jobs.save_job(
                    JobRow(
                        job=self._parts.new_id(),
                        name=spec.name,
                        origin="config",
                        body=body,
                        revision=1,
                        enabled=on,
                        next_at=due if on else None,
                        person="owner",
                    )
                )
            elif not same or (row.enabled and not on):
                due = after(body, now) if on else None
                await self._save(
                    row,
                    replace(
                        row, origin="config", body=body, enabled=on, next_at=due, person="owner"
                    ),
                )
        names = {spec.name for spec in specs}
        for row in rows.values():
            if row.origin == "config" and row.name not in names:
                await self._remove(row)

    async def _own(self, name: str, by: By) -> JobRow:
        row = await self.job(name, by)
        if row.origin == "config":
            raise BadJob(f"{name}: this job stands in config.yaml; change it there")
        return row

    async def _save(self, row: JobRow, newer: JobRow) -> JobRow:
        newer = replace(newer, revision=row.revision + 1)
        if not await self._parts.jobs.save_job(newer, over=row.revision):
            raise Unavailable(f"{row.name} was changed by somebody else in this moment")
        return newer

    def _place(self, spec: JobSpec) -> Address | None:
        """None: its channel is not connected now; it is read when the report goes out. Raises
        BadJob when it can be read and is wrong."""
        if spec.to is None:
            return None
        try:
            return self._parts.resolve(spec.to)
        except NotConnected:
            return None
        except ValueError as error:
            raise BadJob(str(error), "to") from error

    def _check_secrets(self, spec: JobSpec) -> None:
        for _, reference in spec.secrets:
            if why := self._parts.secret_missing(reference):
                raise BadJob(why, "secrets")


def body_at(spec: JobSpec) -> datetime | None:
    """The slot of a one-shot of the configuration, also when it is past: whether it is caught up is
    the scheduler's matter."""
    return None if spec.at is None else datetime.fromisoformat(spec.at)
