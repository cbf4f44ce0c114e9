"""GitHub Actions: jobs as ``gh run view --json`` and the REST API print them.

Sources: cli.github.com/manual/gh_run_list, gh_run_view (JSON fields);
docs.github.com/rest/actions/workflow-jobs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from channels.record import record
from ohmo.triage.results import CiRun, Failure
from ohmo.triage.logs import failures_of
from ohmo.triage.values import link, objects, text

RUN_FIELDS = (
    "attempt,conclusion,createdAt,databaseId,displayTitle,event,headBranch,headSha,status,url"
    ",workflowName"
)
_BAD = frozenset({"failure", "timed_out", "startup_failure"})
_SAYS_NOTHING = frozenset({"cancelled", "skipped", "neutral", "stale", "action_required", ""})


@record
class Listed:
    """A run that ended and says something."""

    number: str
    attempt: str
    run: CiRun
    failed: bool


def listed(runs: object) -> list[Listed]:
    """``gh run list --json`` or ``workflow_runs`` of the REST API, from the oldest to the newest;
    runs that go on, or were cancelled, are left out."""
    found: list[Listed] = []
    for one in objects(runs):
        conclusion = text(one, "conclusion")
        if text(one, "status") != "completed" or conclusion in _SAYS_NOTHING:
            continue
        number, attempt = text(one, "databaseId", "id"), text(one, "attempt", "run_attempt") or "1"
        run = CiRun(
            text(one, "workflowName", "name") or "workflow",
            f"{number}.{attempt}",
            text(one, "headSha", "head_sha"),
            text(one, "createdAt", "created_at"),
            link(one, "url") if text(one, "databaseId") else link(one, "html_url"),
            (),
        )
        found.append(Listed(number, attempt, run, conclusion in _BAD))
    return sorted(
        found,
        key=lambda each: (
            each.run.at,
            int(each.number) if each.number.isdigit() else 0,
            each.attempt,
        ),
    )


def read_jobs(
    document: Mapping[str, object], logs: Callable[[str], str | None] = lambda _: None
) -> list[CiRun]:
    """``gh run view --json jobs,…`` (one run) or the REST API's jobs (of one or several). ``logs``:
    the log of a job, by its id or its name."""
    groups: dict[str, list[Mapping[str, object]]] = {}
    for job in objects(document.get("jobs")):
        groups.setdefault(text(job, "run_id") or text(document, "databaseId"), []).append(job)
    runs = [
        run
        for number, jobs in groups.items()
        if (run := _run(number, jobs, document, logs)) is not None
    ]
    return sorted(runs, key=lambda run: (run.at, run.key))


def failures_in(
    jobs: Sequence[Mapping[str, object]], logs: Callable[[str], str | None]
) -> tuple[Failure, ...]:
    found: list[Failure] = []
    for job in jobs:
        if text(job, "conclusion") not in _BAD:
            continue
        name, url = text(job, "name") or "job", link(job, "html_url", "url")
        log = logs(text(job, "databaseId", "id")) or logs(name)
        found += (
            failures_of(log, job=name, url=url, failed=True)
            if log
            else [Failure(name, "", f"{name}: {_steps(job)}", url)]
        )
    return tuple(found)


def _run(
    number: str,
    jobs: Sequence[Mapping[str, object]],
    document: Mapping[str, object],
    logs: Callable[[str], str | None],
) -> CiRun | None:
    if any(text(job, "status") not in ("completed", "") for job in jobs):
        return None  # it goes on
    if all(text(job, "conclusion") in _SAYS_NOTHING for job in jobs):
        return None
    first = jobs[0]
    attempt = text(document, "attempt") or text(first, "run_attempt") or "1"
    at = text(document, "createdAt") or min(text(job, "started_at", "startedAt") for job in jobs)
    return CiRun(
        text(document, "workflowName") or text(first, "workflow_name") or "workflow",
        f"{number}.{attempt}",
        text(document, "headSha") or text(first, "head_sha"),
        at,
        link(document, "url") or link(first, "html_url", "url"),
        failures_in(jobs, logs),
    )


def _steps(job: Mapping[str, object]) -> str:
    bad = [
        text(step, "name") for step in objects(job.get("steps")) if text(step, "conclusion") in _BAD
    ]
    how = "ran out of time" if text(job, "conclusion") == "timed_out" else "failed"
    return f"{'step ' + bad[0] if bad else 'the job'} {how}"
