"""What a job is, what became of its occurrences, and what the store can do with both."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import datetime
from typing import Literal, Protocol

from channels.contract import Address
from channels.record import record
from ohmo.contracts.errors import OhmoError

#: Why a turn ended and why a slot is as it is, for programs; the sentence beside it in the row is
#: for people.
Cause = Literal[
    "stopped",  # by /stop or /new
    "interrupted",  # by a newer message
    "removed",  # with its job, before it began
    "caught_up",  # runs later than its hour
    "by_hand",  # runs beside its hours
    "coalesced",  # skipped for a later slot
    "overlap",  # skipped, the run before had not ended
    "queue_full",  # skipped, too many runs waited
    "not_running",  # missed, and the job asks for no catching up
    "too_late",  # missed, and too long ago to be caught up
    "too_many",  # missed, with more of them than are caught up
]
BY_A_PERSON = frozenset[Cause]({"stopped", "interrupted", "removed"})
CatchUp = Literal["none", "once", "all"]
Overlap = Literal["skip", "queue"]
When = Literal["always", "changed", "wrong"]
State = Literal["claimed", "done", "failed", "skipped", "missed"]
PREVIEW = 500  # characters of an answer that the history keeps


class BadJob(OhmoError):
    """The job cannot be as it was asked for."""

    def __init__(self, what: str, field: str = "") -> None:
        """``field``: of the job, the one that is wrong."""
        super().__init__(f"{field}: {what}" if field else what)
        self.what = what
        self.field = field


class NoSuchJob(OhmoError):
    """There is no job of this name."""


@record
class JobSpec:
    """What somebody asked for. Exactly one of ``schedule``, ``at`` and ``every`` is set."""

    name: str
    prompt: str
    tz: str  # an IANA name
    schedule: str | None = None  # five or six cron fields, or a name such as ``@daily``
    at: str | None = None  # ISO 8601 with its offset
    every: float | None = None  # seconds
    to: str | None = None  # CHANNEL:REST as written
    thread: str | None = None  # a topic there, or without ``to`` a named thread of the house
    rules: tuple[str, ...] = ()
    secrets: tuple[tuple[str, str], ...] = ()  # variable and reference
    deadline: float | None = None  # seconds
    catch_up: CatchUp = "once"
    overlap: Overlap = "skip"
    when: When = "always"
    jitter: float = 0.0  # seconds
    retry: int = 0
    expires: str | None = None  # ISO 8601
    recipe: str | None = None


@record
class JobBody:
    """What a row keeps as text."""

    spec: JobSpec
    anchor: datetime  # ``every`` counts from it
    # hash of the rules and secrets that were shown when it was made: a run uses them only as long
    # as they have it
    approved: str = ""
    account: str = ""  # of the person who made it
    place: Address | None = None  # what ``spec.to`` means


@record
class JobRow:
    """A job."""

    job: str
    name: str
    origin: Literal["config", "person"]
    body: JobBody
    revision: int  # grows with every change that somebody made, not with time going on
    enabled: bool
    next_at: datetime | None  # the next slot, None: none will come (paused, expired, over)
    person: str  # "owner" or CHANNEL:PERSON


@record
class OccurrenceRow:
    """One slot that came due."""

    job: str
    due: datetime
    state: State
    reason: str | None = None
    turn: str | None = None
    at: datetime | None = None  # when the row was written
    started: datetime | None = None
    ended: datetime | None = None
    preview: str | None = None
    digest: str | None = None
    thread: str | None = None  # with ``seq`` its wake in the inbox, when there is one
    seq: int | None = None
    attempts: int = 1  # how often it was started
    cause: Cause | None = None


@record
class Report:
    """How a run ended, for its row."""

    reason: str = ""  # one line, empty when there is nothing to say
    preview: str = ""
    digest: str = ""  # of the answer, for "only if changed"
    failed: bool = False
    cause: Cause | None = None  # None: its state says it all


@record
class Passed:
    """A slot that is not run."""

    due: datetime
    state: Literal["skipped", "missed"]
    cause: Cause
    reason: str


class Jobs(Protocol):
    """Jobs and the ledger of their occurrences; a row of (job, due) is written once."""

    async def jobs(self) -> list[JobRow]:
        """All of them, by name."""
        ...

    async def save_job(self, row: JobRow, *, over: int | None = None) -> bool:
        """``over``: the revision this one replaces, None: a new job. False and nothing written: the
        name is taken, or somebody was faster."""
        ...

    async def remove_job(self, job: str) -> bool:
        """Runs of it that wait are stopped; one that runs goes on to its end. False: there was
        none."""
        ...

    async def pass_over(
        self, row: JobRow, passed: Sequence[Passed], next_at: datetime | None
    ) -> bool:
        """The next slot moves from ``row.next_at`` to ``next_at``, and what is not run is recorded.
        False: somebody was faster."""
        ...

    async def rebase_job(self, row: JobRow, next_at: datetime | None) -> bool:
        """The clock or the zone's rules changed: slots that were passed over but lie in the future
        have not happened yet. False as above."""
        ...

    async def occurrences(self, job: str, *, limit: int = 50) -> list[OccurrenceRow]:
        """The latest first."""
        ...

    async def claimed(self) -> list[OccurrenceRow]:
        """Occurrences of all jobs that wait or run."""
        ...


@record
class By:
    """Who asks for a job."""

    person: str = "owner"
    account: str = ""
    everything: bool = True  # owner and admin; others see and touch their own jobs


OWNER = By()


class JobDesk(Protocol):
    """What the model's tools can do with jobs. Raises BadJob and NoSuchJob, each with one line."""

    async def list(self, by: By = OWNER) -> list[JobRow]: ...
    async def job(self, name: str, by: By = OWNER) -> JobRow: ...
    async def history(
        self, name: str, by: By = OWNER, *, limit: int = 50
    ) -> Sequence[OccurrenceRow]: ...
    def understand(self, fields: Mapping[str, object]) -> JobSpec: ...
    def first(self, spec: JobSpec) -> datetime | None: ...
    def caution(self, spec: JobSpec) -> str: ...
    async def create(
        self,
        fields: Mapping[str, object],
        by: By = OWNER,
        *,
        job: str = "",
        place: Address | None = None,
    ) -> JobRow: ...
    async def pause(self, name: str, by: By = OWNER) -> JobRow: ...
    async def resume(self, name: str, by: By = OWNER) -> JobRow: ...
    async def remove(self, name: str, by: By = OWNER) -> None: ...


@record
class JobTools:
    """How the model's tools come to the desk."""

    desk: JobDesk
    place: Callable[[str], Awaitable[Address | None]]  # where a thread is
