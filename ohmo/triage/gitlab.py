"""GitLab CI: jobs as ``glab ci get --with-job-details --output json``, ``glab api`` and the REST
API print them.

Source: docs.gitlab.com/api/jobs and /api/pipelines."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from ohmo.triage.results import CiRun, Failure
from ohmo.triage.logs import failures_of
from ohmo.triage.values import link, objects, text

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


def finished(pipelines: object) -> list[tuple[str, CiRun, bool]]:
    """Id, run and whether it failed, from the oldest to the newest; those that go on or were
    cancelled are left out."""
    found = [
        (
            text(one, "id"),
            CiRun(
                _STREAM,
                text(one, "id"),
                text(one, "sha"),
                text(one, "created_at"),
                link(one, "web_url"),
                (),
            ),
            text(one, "status") == "failed",
        )
        for one in objects(pipelines)
        if text(one, "status") in ("success", "failed")
    ]
    return sorted(found, key=lambda each: int(each[0]) if each[0].isdigit() else 0)


def read_jobs(jobs: object, logs: Callable[[str], str | None] = lambda _: None) -> list[CiRun]:
    """Jobs of one or several pipelines. ``logs``: the trace of a job, by its id."""
    groups: dict[str, list[Mapping[str, object]]] = {}
    for job in objects(jobs):
        groups.setdefault(text(job, "pipeline.id"), []).append(job)
    runs: list[CiRun] = []
    for number, members in groups.items():
        states = {text(job, "status") for job in members}
        if states & _GOES_ON or not states & {"success", "failed"}:
            continue
        first = members[0]
        key = number or text(first, "commit.id", "id")
        at = min(text(job, "created_at") for job in members)
        runs.append(
            CiRun(
                _STREAM,
                key,
                text(first, "pipeline.sha", "commit.id"),
                at,
                link(first, "pipeline.web_url"),
                failures_in(members, logs),
            )
        )
    return sorted(runs, key=lambda run: (run.at, run.key))


def failures_in(
    jobs: Sequence[Mapping[str, object]], logs: Callable[[str], str | None]
) -> tuple[Failure, ...]:
    """Jobs that may fail (``allow_failure``) are none."""
    found: list[Failure] = []
    for job in jobs:
        if text(job, "status") != "failed" or job.get("allow_failure") is True:
            continue
        name, url = text(job, "name") or "job", link(job, "web_url")
        log = logs(text(job, "id"))
        reason = text(job, "failure_reason").replace("_", " ") or "failed"
        found += (
            failures_of(log, job=name, url=url, failed=True)
            if log
            else [Failure(name, "", f"{name} in {text(job, 'stage')}: {reason}", url)]
        )
    return tuple(found)
