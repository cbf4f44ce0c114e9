"""Builds what begins turns by itself: the jobs of the configuration and their scheduler, what their
runs report, and webhooks."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection
from contextlib import suppress
from datetime import datetime
from functools import partial
from zoneinfo import ZoneInfo

from channels.contract import Address, Outbound
from channels.errors import Unavailable
from channels.record import record
from ohmo.approvals.cards import JobPeople, JobPerson
from ohmo.assembly.deps import Environment, HouseStore
from ohmo.config.load import Config
from ohmo.config.values import Secret, SecretMissing
from ohmo.contracts.arrivals import Arrival, Wake
from ohmo.contracts.cron import BadJob, JobSpec, JobTools
from ohmo.contracts.errors import ConfigError
from ohmo.contracts.reports import ThreadInfo
from ohmo.contracts.store import Store
from ohmo.contracts.turns import Accepted, ThreadSettings
from ohmo.control.webhooks import Webhook, Webhooks
from ohmo.cron.desk import CronDesk, DeskParts
from ohmo.cron.recipes import BUNDLED
from ohmo.cron.reporting import Incidents, Reporter
from ohmo.cron.scheduler import Scheduler, SchedulerParts, WallAlarm
from ohmo.cron.spec import spec_of
from ohmo.cron.times import Fields, fields_of, local_zone, zone_of
from ohmo.cron.wakes import DEADLINE, place_of
from ohmo.gateway.notices import Notices


@record
class ClockLinks:
    """``publish`` returns after the commit; ``resolve`` reads ``CHANNEL:REST``, ValueError: not
    now. ``reach``: where a person of a channel reads, ValueError or None: not now. ``job_people``
    is told whose jobs run."""

    publish: Callable[[Wake, ThreadSettings | None], Awaitable[Accepted]]
    resolve: Callable[[str], Address]
    notices: Notices
    reach: Callable[[str, str], Address | None]
    job_people: JobPeople
    withdraw: Callable[[Collection[str]], Awaitable[None]]  # what turns of a removed job ask


@record
class Clockwork:
    desk: CronDesk
    scheduler: Scheduler
    reporter: Reporter
    zone: ZoneInfo  # of jobs that name none; times are told in it

    def tools(self, thread: Callable[[str], Awaitable[ThreadInfo | None]]) -> JobTools:
        """How the model's tools come to the desk."""

        async def place(id: str) -> Address | None:
            info = await thread(id)
            return info.address if info is not None else None

        return JobTools(self.desk, place)


def build_clockwork(
    config: Config, environment: Environment, store: Store, links: ClockLinks
) -> Clockwork:
    """Raises ConfigError with the line of a job that cannot be."""
    zone = zone_name(config, environment)
    jobs = specs(config, zone, environment.clock())

    async def publish(wake: Wake) -> Accepted:
        terms = wake.terms
        if terms is not None:
            asked_from = terms.place if terms.to is None else None
            _send(links, wake.place, wake.person, wake.account, asked_from)
        return await links.publish(wake, None)

    async def by_hand(wake: Wake) -> Accepted:
        accepted = await publish(wake)
        if wake.occurrence is not None and not accepted.duplicate:
            scheduler.began(wake.occurrence.job, wake.occurrence.due)
        return accepted

    async def tell(once: str, text: str) -> None:
        if not await links.notices.tell(once, text, once=once) and not links.notices.knows(once):
            raise Unavailable("a notice to the owner could not be stored")

    desk = CronDesk(
        DeskParts(
            jobs=store,
            publish=by_hand,
            resolve=links.resolve,
            secret_missing=partial(_missing, config),
            recipes=(config.home.root / "recipes", BUNDLED),
            zone=zone,
            new_id=environment.new_id,
            clock=environment.clock,
            withdraw=links.withdraw,
        )
    )

    async def prepare() -> None:
        await desk.sync(jobs, [job.enabled for job in config.cron.jobs])
        for row in await desk.list():  # what their runs ask may have outlived the last process
            asked_from = row.body.place if row.body.spec.to is None else None
            _send(links, place_of(row), row.person, row.body.account, asked_from)

    scheduler = Scheduler(
        SchedulerParts(
            jobs=store,
            desk=desk,
            publish=publish,
            incidents=Incidents(store, tell, store.retry_arrival),
            listen=store.listen,
            alarm=environment.alarm or WallAlarm(environment.clock),
            clock=environment.clock,
            failpoint=environment.failpoint,
            prepare=prepare,
        )
    )
    reporter = Reporter(store, links.resolve, links.notices.owner_place, config.workspace)
    return Clockwork(desk, scheduler, reporter, zone_of(zone))


def _send(
    links: ClockLinks, thread: Address, person: str, account: str, asked_from: Address | None
) -> None:
    """A person's job asks where that person made it, else in a chat with that person; the owner's,
    and one whose person cannot be reached now, asks the owner."""
    channel, colon, name = person.partition(":")
    place = asked_from
    if colon and place is None:
        with suppress(ValueError):
            place = links.reach(channel, name)
    if colon and place is not None and (place.channel, place.account) == (channel, account):
        links.job_people.learn(thread, JobPerson(person, place))


def zone_name(config: Config, environment: Environment) -> str:
    """Raises ConfigError."""
    if config.cron.timezone == "local":
        return local_zone(environment.environ)
    try:
        return zone_of(config.cron.timezone).key
    except ValueError as error:
        raise ConfigError(str(config.source.problem(("cron", "timezone"), str(error)))) from error


def specs(config: Config, zone: str, now: datetime) -> list[JobSpec]:
    """The jobs of the configuration. Raises ConfigError: one line for each that cannot be."""
    jobs: list[JobSpec] = []
    problems: list[str] = []

    def wrong(number: int, what: str, *field: str) -> None:
        problems.append(str(config.source.problem(("cron", "jobs", number, *field), what)))

    for number, job in enumerate(config.cron.jobs):
        fields = {name: getattr(job, name) for name in type(job).model_fields if name != "enabled"}
        try:
            for name in ("at", "expires"):
                # A time that means another instant at every start is no time for a file.
                text = fields[name]
                if isinstance(text, str) and not text.strip()[:4].isdigit():
                    raise BadJob("write the whole date, for example 2026-12-01 09:00", name)
            spec = spec_of(fields, zone, now)
        except BadJob as error:
            field = [error.field] if error.field else []
            wrong(number, error.what, *field)
            continue
        if any(other.name == spec.name for other in jobs):
            wrong(number, f"two jobs are called {spec.name}; rename one", "name")
        for name, reference in spec.secrets if job.enabled else ():
            why = _missing(config, reference)
            if why:
                wrong(number, why, "secrets", name)
        jobs.append(spec)
    try:
        consolidation(config, zone_of(zone))
    except BadJob as error:
        problems.append(str(config.source.problem(("memory", "consolidate"), error.what)))
    if problems:
        raise ConfigError("\n".join(problems))
    return jobs


def consolidation(config: Config, zone: ZoneInfo) -> Fields | None:
    """When notes are looked through unasked; None: never. Raises BadJob."""
    written = config.written.memory.consolidate
    return None if written == "off" else fields_of(written, zone)


def _missing(config: Config, reference: str) -> str:
    """Why a reference leads to nothing; "" for one that leads to a secret."""
    try:
        config.vault.reveal(Secret(reference))
    except SecretMissing as error:
        beside = config.home.root / ".env"
        return f"{error}; write it into {beside}" if reference.startswith("env:") else str(error)
    return ""


def build_hooks(
    config: Config,
    environment: Environment,
    store: HouseStore,
    publish: Callable[[Wake, ThreadSettings | None], Awaitable[Accepted]],
    resolve: Callable[[str], Address],
) -> Webhooks:
    """Raises ConfigError: a secret is missing."""
    hooks: dict[str, Webhook] = {}
    for name, written in config.webhooks.items():
        try:
            secret = config.vault.reveal(written.secret)
        except SecretMissing as error:
            problem = config.source.problem(("webhooks", name, "secret"), str(error))
            raise ConfigError(str(problem)) from error
        deadline = DEADLINE if written.deadline is None else written.deadline.total_seconds()
        hooks[name] = Webhook(
            name,
            secret,
            written.style,
            written.prompt,
            written.deliver,
            written.to,
            written.rules,
            written.when,
            written.role,
            deadline,
            written.window.total_seconds(),
        )

    async def publish_wake(wake: Wake) -> Accepted:
        return await publish(wake, None)

    async def stored(thread: str, seq: int) -> Arrival | None:
        row = await store.arrival(thread, seq)
        return row.arrival if row is not None else None

    async def posted(id: str) -> Outbound | None:
        row = await store.post_row(id)
        return row.row.outbound if row is not None else None

    return Webhooks(
        hooks,
        publish=publish_wake,
        post=store.post,
        stored=stored,
        posted=posted,
        resolve=resolve,
        clock=environment.clock,
    )
