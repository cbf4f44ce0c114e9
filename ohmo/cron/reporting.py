"""What is told of jobs: what a run says, to whom, and when it keeps silent; notices to the owner
when a job begins to fail, is well again or missed runs; and jobs and runs as the API tells them."""

from __future__ import annotations

import hashlib
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import datetime, timedelta
from pathlib import Path

from channels.contract import Address, Outbound
from channels.text import code_span
from ohmo.ambient import derived
from ohmo.contracts.arrivals import Terms, Wake
from ohmo.contracts.cron import BY_A_PERSON, PREVIEW, JobRow, Jobs, OccurrenceRow, Passed, Report
from ohmo.contracts.messages import Json, ToolCall, ToolResult
from ohmo.cron.recipes import Recipe, attached, own_command, triage_report
from ohmo.cron.spec import in_utc, span, when_words
from ohmo.cron.wakes import SILENT

PATIENCE = 600.0  # seconds, of the command a report is made of
SUMMARY = 600  # characters the model may say above a report that is posted word for word
Ended = tuple[ToolCall, ToolResult]
_LOOKED = 50  # runs back
_FIRST_RETRY = 60.0  # seconds until a failed run is tried again: doubling
_LAST_RETRY = 3_600.0
_AROUND = " \t\r\n*_`'\"#>-"  # what a model dresses a word with


class Reporter:
    """``resolve`` reads an address with its channel's grammar, ValueError: it cannot be understood
    now. ``owner``: where the owner is reached. ``workspace``: where jobs run."""

    def __init__(
        self,
        jobs: Jobs,
        resolve: Callable[[str], Address],
        owner: Callable[[], Address],
        workspace: Path,
    ) -> None:
        self._jobs = jobs
        self._resolve = resolve
        self._owner = owner
        self._workspace = workspace

    def first(self, wake: Wake) -> Mapping[str, Json] | None:
        """A run by the clock whose rules name one command of ``ohmo triage`` begins with it."""
        if wake.terms is None or wake.occurrence is None:
            return None
        command = own_command(wake.terms.rules)
        return {"command": command, "timeout": PATIENCE} if command is not None else None

    def stands(self, wake: Wake, calls: Sequence[Ended]) -> bool:
        return wake.terms is not None and triage_report(wake.terms.rules, calls) is not None

    async def __call__(
        self, wake: Wake, text: str, refused: Sequence[str], calls: Sequence[Ended] = ()
    ) -> tuple[Outbound | None, Report]:
        """``refused``: calls that nobody allowed in time; ``calls``: all that ended. The post,
        None: nobody is told; and what the history keeps."""
        terms = wake.terms
        assert terms is not None
        printed = triage_report(terms.rules, calls)
        news = text if printed is None else printed
        text = text if printed is None else _on_top(text, printed)
        seen = fingerprint(news)
        kept = text[:PREVIEW]
        silence = None if refused else await self._silence(wake, terms, news, seen)
        if silence is not None:
            return None, Report(silence, kept, seen)
        body, files = attached(text.strip(), self._workspace)
        if is_silent(body):
            behind = body[body.upper().index(SILENT) + len(SILENT) :]
            body = behind.strip(_AROUND) or "Nothing else to report."
        if refused:
            body += "\n\n_Not allowed in time, so not done:_\n" + "\n".join(
                f"- {code_span(line)}" for line in refused
            )
        reason = f"not allowed in time: {'; '.join(refused)}"[:PREVIEW] if refused else ""
        place, note = self._place(terms)
        report = Report(reason or note, kept, seen)
        if place is None:
            return None, report
        return Outbound(place, f"{note}:\n\n{body}" if note else body, files), report

    async def _silence(self, wake: Wake, terms: Terms, text: str, seen: str) -> str | None:
        """Why nobody is told; None: somebody is."""
        if terms.when == "always":
            return None
        if is_silent(text):
            wrong = terms.when == "wrong"
            return "silent: nothing is wrong" if wrong else "silent: nothing changed"
        if terms.when != "changed" or wake.occurrence is None:
            return None
        rows = await self._jobs.occurrences(wake.occurrence.job, limit=20)
        for row in rows:
            if row.state == "done" and row.digest:
                return "silent: nothing changed" if seen == row.digest else None
        return None

    def _place(self, terms: Terms) -> tuple[Address | None, str]:
        """Where the report goes, None: nowhere; and what its reader has to be told about that, "":
        nothing."""
        if terms.place is not None or terms.to is None:
            return terms.place, ""
        try:
            return self._resolve(terms.to), ""
        except ValueError as error:
            note = f"The report of {terms.name} could not go where it belongs ({error})"
            return self._owner(), note


def _on_top(text: str, printed: str) -> str:
    """The report, below what the model says about it when that is short and not the report
    again."""
    summary = text.strip()
    if not summary or len(summary) > SUMMARY:
        return printed
    if is_silent(printed) or is_silent(summary):
        return printed
    if fingerprint(summary) == fingerprint(printed):
        return printed
    return f"{summary}\n\n{printed}"


def is_silent(text: str) -> bool:
    """Whether an answer begins with the word for silence, however it is dressed."""
    return text.lstrip(_AROUND).upper().startswith(SILENT)


def fingerprint(text: str) -> str:
    """Equal for answers that differ in spaces only."""
    return hashlib.sha256(" ".join(text.split()).encode("utf-8", "surrogatepass")).hexdigest()[:32]


class Incidents:
    """``tell`` posts a notice to the owner under an id, once: the same id again is nothing new,
    also after a restart and on another instance; it raises Unavailable when it could not be stored,
    and is called again then. ``again`` brings a failed run's wake back."""

    def __init__(
        self,
        jobs: Jobs,
        tell: Callable[[str, str], Awaitable[object]],
        again: Callable[[str, int], Awaitable[bool]],
    ) -> None:
        self._jobs = jobs
        self._tell = tell
        self._again = again
        self._retries: dict[tuple[str, datetime], tuple[datetime, OccurrenceRow]] = {}

    async def review(self, row: JobRow) -> None:
        """Look at how the latest runs ended."""
        ended = [  # where a person ended it nothing is broken
            run
            for run in await self._jobs.occurrences(row.job, limit=_LOOKED)
            if run.state in ("done", "failed") and run.cause not in BY_A_PERSON
        ]
        if not ended:
            return
        last = ended[0]
        if last.state == "done":
            if len(ended) > 1 and ended[1].state == "failed":
                await self._tell(
                    derived("cron well", row.job, last.due.isoformat()),
                    f"The job {row.name} is well again: {_when(row, last)}.",
                )
            return
        if (
            last.attempts <= row.body.spec.retry
            and last.ended is not None
            and last.thread is not None
        ):
            pause = min(_FIRST_RETRY * 2 ** (last.attempts - 1), _LAST_RETRY)
            self._retries[last.job, last.due] = (last.ended + timedelta(seconds=pause), last)
            return
        first = last
        for run in ended:
            if run.state != "failed":
                break
            first = run
        text = (
            f"The job {row.name} failed: {_when(row, last)}:"
            f" {(last.reason or 'no reason was given').rstrip('.')}. You hear again when it is"
            f" well; `ohmo cron history {row.name}` shows every run."
        )
        await self._tell(derived("cron failed", row.job, first.due.isoformat()), text)

    async def paused(self, row: JobRow, why: str) -> None:
        """A job whose times cannot be read any more."""
        text = (
            f"The job {row.name} was paused, because it cannot be read any more: {why}. Mend it"
            f" with `ohmo cron edit {row.name}`, then `ohmo cron resume {row.name}`."
        )
        await self._tell(derived("cron paused", row.job, str(row.revision)), text)

    @property
    def next_try(self) -> datetime | None:
        """When a run that failed is tried again; None: none is."""
        return min((at for at, _ in self._retries.values()), default=None)

    async def retry(self, now: datetime) -> list[tuple[str, datetime]]:
        """Tries again what failed and may be; job and slot of each run that begins again."""
        begun: list[tuple[str, datetime]] = []
        for key, (at, run) in list(self._retries.items()):
            if at > now:
                continue
            del self._retries[key]
            if run.thread is None or run.seq is None:
                continue
            if await self._again(run.thread, run.seq):
                begun.append(key)
        return begun

    async def missed(self, judged: Sequence[tuple[JobRow, Sequence[Passed]]]) -> None:
        """All of one look in one notice, but for jobs that ask for no catching up. Told before it
        is recorded: who dies in between tells it again."""
        lines: list[str] = []
        first: list[str] = []
        for row, passed in judged:
            missed = [slot for slot in passed if slot.state == "missed"]
            if not missed or row.body.spec.catch_up == "none":
                continue
            last = missed[-1]
            due = when_words(last.due, row.body.spec.tz)
            lines.append(f"- {row.name}: {len(missed)} (the last was due {due}): {last.reason}")
            first.append(f"{row.job} {missed[0].due.isoformat()}")
        if lines:
            text = "Scheduled runs were missed and are not caught up:\n\n" + "\n".join(lines)
            await self._tell(derived("cron missed", *first), text)


def _when(row: JobRow, run: OccurrenceRow) -> str:
    return f"the run of {when_words(run.due, row.body.spec.tz)}"


def job_view(row: JobRow, last: OccurrenceRow | None) -> Mapping[str, Json]:
    """Secrets by name only."""
    spec = row.body.spec
    latest: dict[str, Json] | None = None
    if last is not None:
        latest = {
            "due": in_utc(last.due),
            "state": last.state,
            "reason": last.reason,
            "turn": last.turn,
        }
    return {
        "name": row.name,
        "schedule": spec.schedule,
        "at": spec.at,
        "every": span(spec.every),
        "tz": spec.tz,
        "prompt": spec.prompt,
        "to": spec.to or _place(row),
        "thread": spec.thread,
        "rules": list(spec.rules),
        "secrets": [name for name, _ in spec.secrets],
        "deadline": span(spec.deadline),
        "catch_up": spec.catch_up,
        "overlap": spec.overlap,
        "when": spec.when,
        "jitter": span(spec.jitter or None),
        "retry": spec.retry,
        "expires": spec.expires,
        "recipe": spec.recipe,
        "enabled": row.enabled,
        "source": row.origin if row.origin == "config" else row.person,
        "next": None if row.next_at is None else in_utc(row.next_at),
        "next_local": None if row.next_at is None else when_words(row.next_at, spec.tz),
        "last": latest,
    }


def occurrence_view(row: OccurrenceRow) -> Mapping[str, Json]:
    """A run as the API tells it; times are ISO 8601 in UTC."""
    return {
        "due": in_utc(row.due),
        "state": row.state,
        "reason": row.reason,
        "started": None if row.started is None else in_utc(row.started),
        "ended": None if row.ended is None else in_utc(row.ended),
        "turn": row.turn,
        "preview": row.preview,
        "attempts": row.attempts,
    }


def recipe_view(recipe: Recipe) -> Mapping[str, Json]:
    """Its fields still hold their ``{{parameters}}``."""
    parameters: list[Json] = [
        {"name": name, "description": parameter.description, "default": parameter.default}
        for name, parameter in recipe.parameters.items()
    ]
    texts: dict[str, Json] = {
        name: value
        for name in ("schedule", "every", "prompt", "when")
        if isinstance(value := recipe.fields.get(name), str)
    }
    return {"name": recipe.name, "title": recipe.title, "parameters": parameters, **texts}


def _place(row: JobRow) -> str | None:
    place = row.body.place
    if place is None:
        return None
    topic = f"/{place.topic}" if place.topic else ""
    return f"{place.channel}:{place.chat}{topic}"
