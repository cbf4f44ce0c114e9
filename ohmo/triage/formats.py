"""Any output of CI: which of the known forms it has, and what it says."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, cast

from ohmo.triage import github, gitlab
from ohmo.triage.facts import MOST_BYTES, BadResults, CiRun, Reading
from ohmo.triage.junit import read_junit
from ohmo.triage.logs import read_log
from ohmo.triage.values import objects, parsed

Form = Literal["auto", "junit", "github", "gitlab", "log"]


def read_results(data: bytes, form: Form = "auto", *, commit: str = "", url: str = "") -> Reading:
    """``commit`` and ``url``: of the run, where the form does not say them. Raises BadResults: it is empty, too long, or not of this form."""
    if len(data) > MOST_BYTES:
        raise BadResults(f"the CI results have {len(data)} bytes; at most {MOST_BYTES} are read")
    if not data.strip():
        raise BadResults("the CI results are empty; run the command by hand and look at what it prints")
    found = form_of(data) if form == "auto" else form
    match found:
        case "junit":
            return Reading([read_junit(data, commit=commit, url=url)])
        case "github" | "gitlab":
            return Reading(_of_json(parsed(data, f"{found} results"), found))
        case _:
            return Reading([read_log(data.decode("utf-8", "replace"), commit=commit, url=url)])


def form_of(data: bytes) -> Form:
    """By its first characters, and for JSON by its fields."""
    start = data.lstrip(b"\xef\xbb\xbf \t\r\n")[:1]
    if start == b"<":
        return "junit"
    if start not in (b"{", b"["):
        return "log"
    try:
        found = parsed(data, "")
    except BadResults:
        return "log"
    if isinstance(found, dict) and "jobs" not in found:
        raise BadResults("the JSON has no jobs; expected GitHub's {jobs: […]} or GitLab's list of jobs")
    jobs = objects(cast("Mapping[str, object]", found)["jobs"] if isinstance(found, dict) else found)
    return "github" if any("conclusion" in job for job in jobs) or not any("stage" in job for job in jobs) else "gitlab"


def _of_json(found: object, form: Form) -> list[CiRun]:
    document = cast("Mapping[str, object]", found) if isinstance(found, dict) else {"jobs": found}
    if not objects(document.get("jobs")):
        raise BadResults(f"the {form} results hold no jobs; is it the output of a list of jobs?")
    runs = github.read_jobs(document) if form == "github" else gitlab.read_jobs(document.get("jobs"))
    if not runs:
        raise BadResults("no run of them has ended yet; nothing is known before it has")
    return runs
