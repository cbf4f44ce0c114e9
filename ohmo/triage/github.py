"""GitHub Actions: runs asked for with ``gh``, and jobs as ``gh run view --json`` and the REST API
print them.

Sources: cli.github.com/manual/gh_run_list, gh_run_view (JSON fields);
docs.github.com/rest/actions/workflow-jobs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import cast

from ohmo.triage.compare import Known, latest
from ohmo.triage.logs import failures_of, jobs_in
from ohmo.triage.results import (
    LISTED,
    BadResults,
    CiRun,
    Failure,
    ListedRun,
    Reading,
    Run,
    link,
    objects,
    parsed,
    text,
    with_failures,
)

_RUN_FIELDS = (
    "attempt,conclusion,createdAt,databaseId,displayTitle,event,headBranch,headSha,status,url"
    ",workflowName"
)
_BAD = frozenset({"failure", "timed_out", "startup_failure"})
_SAYS_NOTHING = frozenset({"cancelled", "skipped", "neutral", "stale", "action_required", ""})


def from_gh(repo: str, branch: str, run: Run, known: Known) -> Reading:
    """``repo``: ``owner/name``, or ``.`` for the repository of the folder. Raises BadResults."""
    where = [] if repo == "." else ["--repo", repo]
    only = ["--branch", branch] if branch else []
    list_runs = ["gh", "run", "list", *where, *only, "--limit", str(LISTED), "--json", _RUN_FIELDS]
    runs: list[CiRun] = []
    for listed_run, unknown in latest(listed(parsed(run(list_runs), "gh run list")), known):
        if not (listed_run.failed and unknown):
            runs.append(listed_run.run)
            continue
        view = ["gh", "run", "view", listed_run.number, *where]
        document = parsed(run([*view, "--json", "jobs"]), "gh run view")
        jobs: list[Mapping[str, object]] = []
        if isinstance(document, dict):
            jobs = objects(cast("Mapping[str, object]", document).get("jobs"))
        try:
            logs = jobs_in(run([*view, "--log-failed"]).decode("utf-8", "replace"))
        except BadResults:
            logs = {}  # GitHub keeps logs for a time only; what failed is known without them
        runs.append(with_failures(listed_run.run, failures_in(jobs, logs.get)))
    return Reading(runs)


def listed(runs: object) -> list[ListedRun]:
    """``gh run list --json`` or ``workflow_runs`` of the REST API, from the oldest to the newest;
    runs that go on, or were cancelled, are left out."""
    ended: list[tuple[tuple[str, int, str], ListedRun]] = []
    for fields in objects(runs):
        conclusion = text(fields, "conclusion")
        if text(fields, "status") != "completed" or conclusion in _SAYS_NOTHING:
            continue
        number = text(fields, "databaseId", "id")
        attempt = text(fields, "attempt", "run_attempt") or "1"
        run = CiRun(
            stream=text(fields, "workflowName", "name") or "workflow",
            key=f"{number}.{attempt}",
            commit=text(fields, "headSha", "head_sha"),
            at=text(fields, "createdAt", "created_at"),
            url=link(fields, "url" if text(fields, "databaseId") else "html_url"),
            failures=(),
        )
        order = (run.at, int(number) if number.isdigit() else 0, attempt)
        ended.append((order, ListedRun(number, run, conclusion in _BAD)))
    return [listed_run for _, listed_run in sorted(ended, key=lambda pair: pair[0])]


def read_jobs(
    document: Mapping[str, object], logs: Callable[[str], str | None] = lambda _: None
) -> list[CiRun]:
    """``gh run view --json jobs,…`` (one run) or the REST API's jobs (of one or several); runs
    that go on, or were cancelled, are left out. ``logs``: the log of a job, by its id or name."""
    jobs_of_run: dict[str, list[Mapping[str, object]]] = {}
    for job in objects(document.get("jobs")):
        number = text(job, "run_id") or text(document, "databaseId")
        jobs_of_run.setdefault(number, []).append(job)
    runs: list[CiRun] = []
    for number, jobs in jobs_of_run.items():
        if any(text(job, "status") not in ("completed", "") for job in jobs):
            continue
        if all(text(job, "conclusion") in _SAYS_NOTHING for job in jobs):
            continue
        first = jobs[0]
        attempt = text(document, "attempt") or text(first, "run_attempt") or "1"
        started = min(text(job, "started_at", "startedAt") for job in jobs)
        runs.append(
            CiRun(
                stream=text(document, "workflowName") or text(first, "workflow_name") or "workflow",
                key=f"{number}.{attempt}",
                commit=text(document, "headSha") or text(first, "head_sha"),
                at=text(document, "createdAt") or started,
                url=link(document, "url") or link(first, "html_url", "url"),
                failures=failures_in(jobs, logs),
            )
        )
    return sorted(runs, key=lambda run: (run.at, run.key))


def failures_in(
    jobs: Sequence[Mapping[str, object]], logs: Callable[[str], str | None]
) -> tuple[Failure, ...]:
    """By the log of a job that failed, and without one by its first step that did."""
    failures: list[Failure] = []
    for job in jobs:
        conclusion = text(job, "conclusion")
        if conclusion not in _BAD:
            continue
        name = text(job, "name") or "job"
        url = link(job, "html_url", "url")
        log = logs(text(job, "databaseId", "id")) or logs(name)
        if log:
            failures += failures_of(log, job=name, url=url, failed=True)
            continue
        steps = objects(job.get("steps"))
        bad = [text(step, "name") for step in steps if text(step, "conclusion") in _BAD]
        what = f"step {bad[0]}" if bad else "the job"
        how = "ran out of time" if conclusion == "timed_out" else "failed"
        failures.append(Failure(job=name, test="", message=f"{name}: {what} {how}", url=url))
    return tuple(failures)
