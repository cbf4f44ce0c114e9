"""The CI servers: GitHub Actions, asked with ``gh``, and GitLab CI, asked with ``glab``; and jobs
as their programs and REST APIs print them.

Sources: cli.github.com/manual/gh_run_list, gh_run_view (JSON fields);
docs.github.com/rest/actions/workflow-jobs; docs.gitlab.com/api/jobs and /api/pipelines."""

from __future__ import annotations

import urllib.parse
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import cast

from ohmo.triage.compare import Known, latest
from ohmo.triage.logs import failures_of, jobs_in
from ohmo.triage.results import (
    LISTED,
    PAGE,
    BadResults,
    CiRun,
    Failure,
    ListedRun,
    Reading,
    Run,
    all_pages,
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
_GOES_ON = frozenset(
    {
        "created",
        "pending",
        "running",
        "preparing",
        "waiting_for_resource",
        "waiting_for_callback",
        "canceling",
    }
)
_STREAM = "pipeline"


def from_gh(repo: str, branch: str, run: Run, known: Known) -> Reading:
    """``repo``: ``owner/name``, or ``.`` for the repository of the folder. Raises BadResults."""
    where = [] if repo == "." else ["--repo", repo]
    only = ["--branch", branch] if branch else []
    list_runs = ["gh", "run", "list", *where, *only, "--limit", str(LISTED), "--json", _RUN_FIELDS]
    runs: list[CiRun] = []
    for listed_run, unknown in latest(
        listed_github_runs(parsed(run(list_runs), "gh run list")), known
    ):
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
        runs.append(with_failures(listed_run.run, github_failures(jobs, logs.get)))
    return Reading(runs)


def listed_github_runs(runs: object) -> list[ListedRun]:
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


def github_runs(
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
                failures=github_failures(jobs, logs),
            )
        )
    return sorted(runs, key=lambda run: (run.at, run.key))


def github_failures(
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


def from_glab(repo: str, branch: str, run: Run, known: Known) -> Reading:
    """``repo``: ``group/name``, or ``.`` for the project of the folder. Raises BadResults."""
    project = "projects/" + (":fullpath" if repo == "." else urllib.parse.quote(repo, safe=""))
    only = f"&ref={urllib.parse.quote(branch, safe='')}" if branch else ""

    def trace(job: str) -> str | None:
        if not job.isdigit():
            return None
        try:
            log = run(["glab", "api", f"{project}/jobs/{job}/trace"])
        except BadResults:
            return None  # erased or expired
        return log.decode("utf-8", "replace")

    def page(pipeline: str, number: int) -> list[Mapping[str, object]]:
        more = f"&page={number}" if number > 1 else ""
        path = f"{project}/pipelines/{pipeline}/jobs?per_page={PAGE}{more}"
        return objects(parsed(run(["glab", "api", path]), "glab api jobs"))

    answer = run(["glab", "api", f"{project}/pipelines?per_page={LISTED}{only}"])
    pipelines: list[ListedRun] = []
    for fields in objects(parsed(answer, "glab api pipelines")):
        status = text(fields, "status")
        if status in ("success", "failed"):
            number = text(fields, "id")
            created = text(fields, "created_at")
            url = link(fields, "web_url")
            pipeline = CiRun(
                stream=_STREAM,
                key=number,
                commit=text(fields, "sha"),
                at=created,
                url=url,
                failures=(),
            )
            pipelines.append(ListedRun(number, pipeline, status == "failed"))
    pipelines.sort(
        key=lambda listed_run: int(listed_run.number) if listed_run.number.isdigit() else 0
    )
    runs: list[CiRun] = []
    for listed_run, unknown in latest(pipelines, known):
        if listed_run.failed and unknown:
            jobs = all_pages(partial(page, listed_run.number))
            runs.append(with_failures(listed_run.run, gitlab_failures(jobs, trace)))
        else:
            runs.append(listed_run.run)
    return Reading(runs)


def gitlab_runs(jobs: object, logs: Callable[[str], str | None] = lambda _: None) -> list[CiRun]:
    """Jobs of one or several pipelines. ``logs``: the trace of a job, by its id."""
    jobs_of_pipeline: dict[str, list[Mapping[str, object]]] = {}
    for job in objects(jobs):
        jobs_of_pipeline.setdefault(text(job, "pipeline.id"), []).append(job)
    runs: list[CiRun] = []
    for number, members in jobs_of_pipeline.items():
        states = {text(job, "status") for job in members}
        if states & _GOES_ON or not states & {"success", "failed"}:
            continue
        first = members[0]
        runs.append(
            CiRun(
                stream=_STREAM,
                key=number or text(first, "commit.id", "id"),
                commit=text(first, "pipeline.sha", "commit.id"),
                at=min(text(job, "created_at") for job in members),
                url=link(first, "pipeline.web_url"),
                failures=gitlab_failures(members, logs),
            )
        )
    return sorted(runs, key=lambda run: (run.at, run.key))


def gitlab_failures(
    jobs: Sequence[Mapping[str, object]], logs: Callable[[str], str | None]
) -> tuple[Failure, ...]:
    """Jobs that may fail (``allow_failure``) are none."""
    failures: list[Failure] = []
    for job in jobs:
        if text(job, "status") != "failed" or job.get("allow_failure") is True:
            continue
        name = text(job, "name") or "job"
        url = link(job, "web_url")
        log = logs(text(job, "id"))
        if log:
            failures += failures_of(log, job=name, url=url, failed=True)
            continue
        reason = text(job, "failure_reason").replace("_", " ") or "failed"
        failures.append(
            Failure(job=name, test="", message=f"{name} in {text(job, 'stage')}: {reason}", url=url)
        )
    return tuple(failures)
