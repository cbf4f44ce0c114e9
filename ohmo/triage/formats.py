"""Any output of CI, given or asked for at an address: which of the known forms it has, and what it
says."""

from __future__ import annotations

import json
import re
import urllib.parse
from collections.abc import Mapping
from functools import partial
from typing import Literal, Protocol, cast

from ohmo.triage.ci_servers import github_failures, github_runs, gitlab_runs, listed_github_runs
from ohmo.triage.compare import Known, latest
from ohmo.triage.logs import read_junit, read_log
from ohmo.triage.results import (
    MOST_BYTES,
    PAGE,
    BadResults,
    CiRun,
    Reading,
    all_pages,
    link,
    objects,
    parsed,
    refuse,
    text,
    with_failures,
)

_UTF16 = (b"\xff\xfe", b"\xfe\xff")
_LOOKED = 65_536  # characters, or bytes
_JSON = re.compile(r"\{\s*[\"}]|\[\s*[\[{\]\"]|null\b")  # not [INFO] of a log
Form = Literal["auto", "junit", "github", "gitlab", "log"]


class Fetch(Protocol):
    """GETs an address. Raises BadResults."""

    def __call__(self, url: str) -> bytes: ...


def read_results(data: bytes, form: Form = "auto", *, commit: str = "", url: str = "") -> Reading:
    """``commit`` and ``url``: of the run, where the form does not say them. Raises BadResults: it
    is empty, too long, or not of this form."""
    if len(data) > MOST_BYTES:
        raise BadResults(f"the CI results have {len(data)} bytes; at most {MOST_BYTES} are read")
    if not data.strip():
        raise BadResults(
            "the CI results are empty; run the command by hand and look at what it prints"
        )
    if form == "auto":
        form = form_of(data)
    match form:
        case "junit":
            return Reading([read_junit(data, commit=commit, url=url)])
        case "github" | "gitlab":
            return Reading(_read_json(data, form))
        case _:
            log = _decoded(data)
            if "\0" in log[:_LOOKED]:
                raise BadResults("the CI results are no text; expected JUnit XML, JSON or a log")
            return Reading([read_log(log, commit=commit, url=url)])


def from_http(url: str, fetch: Fetch, known: Known) -> Reading:
    """One of the known forms, or GitHub's list of runs, whose jobs are then asked for at the same
    place. Raises BadResults."""

    def page(jobs: str, number: int) -> list[Mapping[str, object]]:
        query = urllib.parse.urlencode({"per_page": PAGE, "page": number})
        answer = fetch(f"{jobs}{'&' if '?' in jobs else '?'}{query}")
        return objects(_object(answer).get("jobs"))

    data = fetch(url)
    document = _object(data)
    if "workflow_runs" not in document:
        return read_results(data, url=url)
    fields_of = {text(fields, "id"): fields for fields in objects(document["workflow_runs"])}
    runs: list[CiRun] = []
    listed = listed_github_runs(document["workflow_runs"])
    for listed_run, unknown in latest(listed, known):
        if not (listed_run.failed and unknown):
            runs.append(listed_run.run)
            continue
        jobs_url = link(fields_of[listed_run.number], "jobs_url")
        if urllib.parse.urlsplit(jobs_url)[:2] != urllib.parse.urlsplit(url)[:2]:
            raise BadResults(
                f"{url}: run {listed_run.number} has its jobs at another place"
                f" ({jobs_url[:100] or 'no jobs_url'}); not asked there"
            )
        answer = _object(fetch(jobs_url))
        jobs = objects(answer.get("jobs"))
        total = text(answer, "total_count")
        if total.isdigit() and int(total) > len(jobs):
            # GitHub shows 30 of them when it is not asked for more.
            jobs = all_pages(partial(page, jobs_url))
        runs.append(with_failures(listed_run.run, github_failures(jobs, lambda _: None)))
    return Reading(runs)


def form_of(data: bytes) -> Form:
    """By its first characters, and for JSON by its fields. Raises BadResults: it is JSON that
    cannot be read, which must not pass for a log without a failure."""
    start = _decoded(data[:_LOOKED]).lstrip("\ufeff \t\r\n")
    if start.startswith("<"):
        return "junit"
    if _JSON.match(start) is None:
        return "log"
    try:
        document = cast("object", json.loads(data))
    except (ValueError, RecursionError) as error:
        if _is_lines(start):
            return "log"
        raise BadResults(
            f"the JSON is not whole ({str(error)[:100]}); run the command by hand and look at what"
            " it prints"
        ) from error
    refuse(document, "the JSON")
    listed = document
    if isinstance(document, dict):
        if "jobs" not in document:
            raise BadResults(
                "the JSON has no jobs; expected GitHub's {jobs: […]} or GitLab's list of jobs"
            )
        listed = cast("Mapping[str, object]", document)["jobs"]
    jobs = objects(listed)
    if any("conclusion" in job for job in jobs):
        return "github"
    return "gitlab" if any("stage" in job for job in jobs) else "github"


def _decoded(data: bytes) -> str:
    """UTF-8, or UTF-16 where the first character says so (as PowerShell writes files)."""
    return data.decode("utf-16" if data.startswith(_UTF16) else "utf-8", "replace")


def _is_lines(start: str) -> bool:
    """One value on each line: a log of a program that writes such."""
    try:
        json.loads(start.partition("\n")[0])
    except (ValueError, RecursionError):
        return False
    return "\n" in start


def _read_json(data: bytes, form: Literal["github", "gitlab"]) -> list[CiRun]:
    answer = parsed(data, f"{form} results")
    document: Mapping[str, object] = {"jobs": answer}
    if isinstance(answer, dict):
        document = cast("Mapping[str, object]", answer)
    jobs = objects(document.get("jobs"))
    if not jobs:
        raise BadResults(f"the {form} results hold no jobs; is it the output of a list of jobs?")
    runs = github_runs(document) if form == "github" else gitlab_runs(jobs)
    if not runs:
        raise BadResults("no run of them has ended yet; nothing is known before it has")
    total = text(document, "total_count")
    incomplete = total.isdigit() and int(total) > len(jobs)
    if incomplete and not any(run.failures for run in runs):
        raise BadResults(
            f"only {len(jobs)} of {total} jobs are there, and none of these failed; ask for all of"
            " them (per_page=100)"
        )
    return runs


def _object(data: bytes) -> Mapping[str, object]:
    """Empty when it is no JSON object."""
    if data.lstrip()[:1] != b"{":
        return {}
    try:
        document = cast("object", json.loads(data))
    except (ValueError, RecursionError):
        return {}
    return cast("Mapping[str, object]", document) if isinstance(document, dict) else {}
