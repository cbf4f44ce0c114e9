"""Where CI results come from: ``gh``, ``glab`` and addresses of the web. Read only: each program is
called with words of its own."""

from __future__ import annotations

import json
import urllib.parse
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Protocol, TypeVar, cast

from ohmo.triage import github, gitlab
from ohmo.triage.results import BadResults, CiRun, Failure, Reading
from ohmo.triage.formats import read_results
from ohmo.triage.history import KEPT
from ohmo.triage.logs import jobs_in
from ohmo.triage.values import link, objects, parsed, text

_LISTED = 50  # runs that are asked for
_STREAMS = 10  # workflows that are looked at
# jobs of a page, the most there may be (docs.gitlab.com/api/rest,
# docs.github.com/rest/using-the-rest-api)
_PAGE = 100
_PAGES = 20

Run = Callable[[Sequence[str]], bytes]
"""A program and its words, to what it prints. Raises BadResults with what it said when it fails."""
Known = Collection[tuple[str, str]]
"""Stream and key of runs that need not be looked into again."""
Job = Mapping[str, object]
One = TypeVar("One")


class Fetch(Protocol):
    """GETs an address. Raises BadResults."""

    def __call__(self, url: str) -> bytes: ...


def from_gh(repo: str, branch: str, run: Run, known: Known) -> Reading:
    """``repo``: ``owner/name``, or ``.`` for the repository of the folder. Raises BadResults."""
    where = [] if repo == "." else ["--repo", repo]
    only = ["--branch", branch] if branch else []
    answer = run(
        ["gh", "run", "list", *where, *only, "--limit", str(_LISTED), "--json", github.RUN_FIELDS]
    )
    runs = github.listed(parsed(answer, "gh run list"))

    def look(one: github.Listed) -> CiRun:
        found = parsed(
            run(["gh", "run", "view", one.number, *where, "--json", "jobs"]), "gh run view"
        )
        jobs = (
            objects(cast("Mapping[str, object]", found).get("jobs"))
            if isinstance(found, dict)
            else []
        )
        try:
            logs = jobs_in(
                run(["gh", "run", "view", one.number, *where, "--log-failed"]).decode(
                    "utf-8", "replace"
                )
            )
        except BadResults:
            logs = {}  # GitHub keeps logs for a time only; what failed is known without them
        return _failed(one.run, github.failures_in(jobs, logs.get))

    return Reading(
        [
            look(one) if one.failed and _new(one.run, known) else one.run
            for one in _latest(runs, lambda one: one.run.stream)
        ]
    )


def from_glab(repo: str, branch: str, run: Run, known: Known) -> Reading:
    """``repo``: ``group/name``, or ``.`` for the project of the folder. Raises BadResults."""
    project = "projects/" + (":fullpath" if repo == "." else urllib.parse.quote(repo, safe=""))
    only = f"&ref={urllib.parse.quote(branch, safe='')}" if branch else ""
    pipelines = gitlab.finished(
        parsed(
            run(["glab", "api", f"{project}/pipelines?per_page={_LISTED}{only}"]),
            "glab api pipelines",
        )
    )

    def trace(job: str) -> str | None:
        try:
            return (
                run(["glab", "api", f"{project}/jobs/{job}/trace"]).decode("utf-8", "replace")
                if job.isdigit()
                else None
            )
        except BadResults:
            return None  # erased or expired

    def page(number: str, page: int) -> list[Job]:
        more = f"&page={page}" if page > 1 else ""
        return objects(
            parsed(
                run(["glab", "api", f"{project}/pipelines/{number}/jobs?per_page={_PAGE}{more}"]),
                "glab api jobs",
            )
        )

    def look(number: str, one: CiRun) -> CiRun:
        return _failed(one, gitlab.failures_in(_pages(lambda turn: page(number, turn)), trace))

    chosen = _latest(pipelines, lambda one: one[1].stream)
    return Reading(
        [
            look(number, one) if failed and _new(one, known) else one
            for number, one, failed in chosen
        ]
    )


def from_http(url: str, fetch: Fetch, known: Known) -> Reading:
    """One of the known forms, or GitHub's list of runs, whose jobs are then asked for at the same
    place. Raises BadResults."""
    data = fetch(url)
    document = _document(data)
    if "workflow_runs" not in document:
        return read_results(data, url=url)

    def page(jobs: str, turn: int) -> list[Job]:
        query = urllib.parse.urlencode({"per_page": _PAGE, "page": turn})
        return objects(_document(fetch(f"{jobs}{'&' if '?' in jobs else '?'}{query}")).get("jobs"))

    raw = {(text(one, "id")): one for one in objects(document["workflow_runs"])}

    def look(one: github.Listed) -> CiRun:
        jobs = link(raw[one.number], "jobs_url")
        if urllib.parse.urlsplit(jobs)[:2] != urllib.parse.urlsplit(url)[:2]:
            raise BadResults(
                f"{url}: run {one.number} has its jobs at another place"
                f" ({jobs[:100] or 'no jobs_url'}); not asked there"
            )
        answer = _document(fetch(jobs))
        found = objects(answer.get("jobs"))
        total = text(answer, "total_count")
        if total.isdigit() and int(total) > len(
            found
        ):  # GitHub shows 30 of them when it is not asked for more
            found = _pages(lambda turn: page(jobs, turn))
        return _failed(one.run, github.failures_in(found, lambda _: None))

    chosen = _latest(github.listed(document["workflow_runs"]), lambda one: one.run.stream)
    return Reading(
        [look(one) if one.failed and _new(one.run, known) else one.run for one in chosen]
    )


def _pages(page: Callable[[int], list[Job]]) -> list[Job]:
    """All of a list that comes in pages, from the first one on."""
    found: dict[str, Job] = {}
    for turn in range(1, _PAGES + 1):
        jobs = page(turn)
        fresh = {
            text(job, "id") or str(len(found) + number): job for number, job in enumerate(jobs)
        }
        if fresh.keys() <= found.keys():
            break
        found.update(fresh)
        if len(jobs) < _PAGE:
            break
    return list(found.values())


def _failed(run: CiRun, failures: tuple[Failure, ...]) -> CiRun:
    """A run that failed before it had a job (its file is broken), or whose jobs are gone, is not
    green for that."""
    return replace(
        run,
        failures=failures
        or (Failure("", "", f"{run.stream}: the run failed, and no job says why", run.url),),
    )


def _document(data: bytes) -> Mapping[str, object]:
    try:
        found = cast("object", json.loads(data)) if data.lstrip()[:1] == b"{" else None
    except (ValueError, RecursionError):
        return {}
    return cast("Mapping[str, object]", found) if isinstance(found, dict) else {}


def _new(run: CiRun, known: Known) -> bool:
    return (run.stream, run.key) not in known


def _latest(runs: Iterable[One], stream: Callable[[One], str]) -> list[One]:
    """In their order: the last runs of each stream, as many as are compared, of the streams that
    ran last. Raises BadResults: none."""
    taken: dict[str, int] = {}
    found: list[One] = []
    for one in reversed(list(runs)):
        name = stream(one)
        if name in taken or len(taken) < _STREAMS:
            taken[name] = taken.get(name, 0) + 1
            found += [one] if taken[name] <= KEPT + 1 else []
    if not found:
        raise BadResults(
            "no run has ended there yet; look at the name of the repository and of the branch"
        )
    return found[::-1]
