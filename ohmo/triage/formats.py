"""Any output of CI: which of the known forms it has, and what it says."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Literal, cast

from ohmo.triage import github, gitlab
from ohmo.triage.results import MOST_BYTES, BadResults, CiRun, Reading
from ohmo.triage.junit import read_junit
from ohmo.triage.logs import read_log
from ohmo.triage.values import objects, parsed, refuse, text

_UTF16 = (b"\xff\xfe", b"\xfe\xff")
_LOOKED = 65_536  # characters, or bytes
_JSON = re.compile(r"\{\s*[\"}]|\[\s*[\[{\]\"]|null\b")  # not [INFO] of a log
Form = Literal["auto", "junit", "github", "gitlab", "log"]


def read_results(data: bytes, form: Form = "auto", *, commit: str = "", url: str = "") -> Reading:
    """``commit`` and ``url``: of the run, where the form does not say them. Raises BadResults: it
    is empty, too long, or not of this form."""
    if len(data) > MOST_BYTES:
        raise BadResults(f"the CI results have {len(data)} bytes; at most {MOST_BYTES} are read")
    if not data.strip():
        raise BadResults(
            "the CI results are empty; run the command by hand and look at what it prints"
        )
    found = form_of(data) if form == "auto" else form
    match found:
        case "junit":
            return Reading([read_junit(data, commit=commit, url=url)])
        case "github" | "gitlab":
            return Reading(_of_json(parsed(data, f"{found} results"), found))
        case _:
            return Reading([read_log(_text(data), commit=commit, url=url)])


def _text(data: bytes) -> str:
    """A log is UTF-8, or says by its first character that it is UTF-16 (as PowerShell writes
    files). Raises BadResults: it is no text."""
    found = (
        data.decode("utf-16", "replace")
        if data.startswith(_UTF16)
        else data.decode("utf-8", "replace")
    )
    if "\0" in found[:_LOOKED]:
        raise BadResults("the CI results are no text; expected JUnit XML, JSON or a log")
    return found


def form_of(data: bytes) -> Form:
    """By its first characters, and for JSON by its fields. Raises BadResults: it is JSON that
    cannot be read, which must not pass for a log without a failure."""
    start = (
        data[:_LOOKED].decode("utf-16", "replace")
        if data.startswith(_UTF16)
        else data[:_LOOKED].decode("utf-8", "replace")
    )
    start = start.lstrip("\ufeff \t\r\n")
    if start.startswith("<"):
        return "junit"
    if _JSON.match(start) is None:
        return "log"
    try:
        found = cast("object", json.loads(data))
    except (ValueError, RecursionError) as error:
        if _is_lines(start):
            return "log"
        raise BadResults(
            f"the JSON is not whole ({str(error)[:100]}); run the command by hand and look at what"
            " it prints"
        ) from error
    refuse(found, "the JSON")
    if isinstance(found, dict) and "jobs" not in found:
        raise BadResults(
            "the JSON has no jobs; expected GitHub's {jobs: […]} or GitLab's list of jobs"
        )
    jobs = objects(
        cast("Mapping[str, object]", found)["jobs"] if isinstance(found, dict) else found
    )
    return (
        "github"
        if any("conclusion" in job for job in jobs) or not any("stage" in job for job in jobs)
        else "gitlab"
    )


def _is_lines(start: str) -> bool:
    """One value on each line: a log of a program that writes such."""
    try:
        json.loads(start.partition("\n")[0])
    except (ValueError, RecursionError):
        return False
    return "\n" in start


def _of_json(found: object, form: Form) -> list[CiRun]:
    document = cast("Mapping[str, object]", found) if isinstance(found, dict) else {"jobs": found}
    if not objects(document.get("jobs")):
        raise BadResults(f"the {form} results hold no jobs; is it the output of a list of jobs?")
    runs = (
        github.read_jobs(document) if form == "github" else gitlab.read_jobs(document.get("jobs"))
    )
    if not runs:
        raise BadResults("no run of them has ended yet; nothing is known before it has")
    shown, total = len(objects(document.get("jobs"))), text(document, "total_count")
    if total.isdigit() and int(total) > shown and not any(run.failures for run in runs):
        raise BadResults(
            f"only {shown} of {total} jobs are there, and none of these failed; ask for all of them"
            " (per_page=100)"
        )
    return runs
