"""GitLab CI: pipelines asked for with ``glab``, and jobs as ``glab ci get --with-job-details
--output json``, ``glab api`` and the REST API print them.

Source: docs.gitlab.com/api/jobs and /api/pipelines."""

from __future__ import annotations

import urllib.parse
from collections.abc import Callable, Mapping, Sequence
from functools import partial

from ohmo.triage.compare import Known, latest
from ohmo.triage.logs import failures_of
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
            runs.append(with_failures(listed_run.run, failures_in(jobs, trace)))
        else:
            runs.append(listed_run.run)
    return Reading(runs)


def read_jobs(jobs: object, logs: Callable[[str], str | None] = lambda _: None) -> list[CiRun]:
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
                failures=failures_in(members, logs),
            )
        )
    return sorted(runs, key=lambda run: (run.at, run.key))


def failures_in(
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
