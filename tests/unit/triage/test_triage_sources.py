"""What gh, glab and a CI server print, recorded after their documentation, becomes runs; only what
is new is looked into."""

from __future__ import annotations

import json
import urllib.parse
from collections.abc import Sequence
from pathlib import Path

import pytest

from ohmo.cron.recipes import attached
from ohmo.triage.ci_servers import from_gh, from_glab
from ohmo.triage.formats import from_http
from ohmo.triage.results import BadResults
from tests.programs import OHMO, run_process

# cli.github.com/manual/gh_run_list and gh_run_view: the fields of --json, and the three columns of
# --log-failed
RUN = {
    "attempt": 1,
    "displayTitle": "Drop the index",
    "event": "push",
    "headBranch": "main",
    "status": "completed",
    "workflowName": "CI",
}
GH = {
    "gh run list": [
        {
            **RUN,
            "databaseId": 103,
            "conclusion": "",
            "status": "in_progress",
            "createdAt": "2026-11-22T08:00:00Z",
            "headSha": "c" * 40,
            "url": "https://github.com/o/r/actions/runs/103",
        },
        {
            **RUN,
            "databaseId": 102,
            "conclusion": "failure",
            "createdAt": "2026-11-22T07:00:00Z",
            "headSha": "b" * 40,
            "url": "https://github.com/o/r/actions/runs/102",
        },
        {
            **RUN,
            "databaseId": 101,
            "conclusion": "success",
            "createdAt": "2026-11-21T07:00:00Z",
            "headSha": "a" * 40,
            "url": "https://github.com/o/r/actions/runs/101",
        },
    ],
    "gh run view": {
        "jobs": [
            {
                "databaseId": 9001,
                "name": "unit",
                "status": "completed",
                "conclusion": "failure",
                "url": "https://github.com/o/r/actions/runs/102/job/9001",
                "steps": [{"name": "Run pytest", "conclusion": "failure"}],
            },
            {
                "databaseId": 9002,
                "name": "lint",
                "status": "completed",
                "conclusion": "success",
                "url": "https://github.com/o/r/actions/runs/102/job/9002",
                "steps": [],
            },
        ]
    },
}
LOG = (
    "unit\tRun pytest\t2026-11-22T07:01:00.1234567Z \x1b[31mFAILED\x1b[0m tests/a.py::test_x -"
    " ConnectionError: no route to db-7\n"
)
# docs.gitlab.com/api/pipelines and /api/jobs, as `glab api` prints them
PIPELINES = [
    {
        "id": 48,
        "sha": "b" * 40,
        "ref": "main",
        "status": "failed",
        "created_at": "2026-11-22T07:00:00Z",
        "web_url": "https://gitlab.com/g/p/-/pipelines/48",
    },
    {
        "id": 47,
        "sha": "a" * 40,
        "ref": "main",
        "status": "success",
        "created_at": "2026-11-21T07:00:00Z",
        "web_url": "https://gitlab.com/g/p/-/pipelines/47",
    },
]
JOBS = [
    {
        "id": 7,
        "name": "rspec",
        "stage": "test",
        "status": "failed",
        "failure_reason": "script_failure",
        "allow_failure": False,
        "web_url": "https://gitlab.com/g/p/-/jobs/7",
    }
]


class Recorded:
    """Answers as the programs do; remembers what they were asked."""

    def __init__(self, *, logs: bool = True) -> None:
        self.asked: list[str] = []
        self._logs = logs

    def __call__(self, words: Sequence[str]) -> bytes:
        line = " ".join(words)
        self.asked.append(line)
        if words[0] == "gh":
            if "--log-failed" in words:
                if not self._logs:
                    raise BadResults("gh run view failed (HTTP 410: Gone)")
                return LOG.encode()
            return json.dumps(GH[" ".join(words[:3])]).encode()
        if line.endswith("/trace"):
            return (
                b"section_start:1:step\r\x1b[0K$ rspec\nERROR: Job failed: exit code 1\nError:"
                b" widget is not there\n"
            )
        return json.dumps(JOBS if "/pipelines/48/jobs" in line else PIPELINES).encode()


def test_gh_is_asked_for_runs_then_for_those_that_failed() -> None:
    run = Recorded()
    reading = from_gh("o/r", "main", run, ())
    assert [(one.key, one.commit[:1], len(one.failures)) for one in reading.runs] == [
        ("101.1", "a", 0),
        ("102.1", "b", 1),
    ]
    failure = reading.runs[1].failures[0]
    assert (failure.job, failure.test, failure.message) == (
        "unit",
        "tests/a.py::test_x",
        "ConnectionError: no route to db-7",
    )
    assert failure.url.endswith("/job/9001")
    assert [line.split(" --json")[0] for line in run.asked] == [
        "gh run list --repo o/r --branch main --limit 50",
        "gh run view 102 --repo o/r",
        "gh run view 102 --repo o/r --log-failed",
    ]
    again = Recorded()
    from_gh(".", "main", again, {("CI", "102.1")})
    assert [line.split(" --json")[0] for line in again.asked] == [
        "gh run list --branch main --limit 50"
    ]


def test_a_log_that_is_gone_leaves_the_step() -> None:
    reading = from_gh("o/r", "main", Recorded(logs=False), ())
    assert reading.runs[1].failures[0].message == "unit: step Run pytest failed"


def test_glab_is_asked_for_pipelines_jobs_and_traces() -> None:
    run = Recorded()
    reading = from_glab("g/p", "main", run, ())
    assert [(one.key, len(one.failures)) for one in reading.runs] == [("47", 0), ("48", 1)]
    assert reading.runs[1].failures[0].message == "Error: widget is not there"
    assert run.asked == [
        "glab api projects/g%2Fp/pipelines?per_page=50&ref=main",
        "glab api projects/g%2Fp/pipelines/48/jobs?per_page=100",
        "glab api projects/g%2Fp/jobs/7/trace",
    ]
    from_glab(".", "", quiet := Recorded(), {("pipeline", "48")})
    assert quiet.asked == ["glab api projects/:fullpath/pipelines?per_page=50"]


def test_jobs_at_another_place_are_not_asked_for() -> None:
    runs = {
        "workflow_runs": [
            {
                "id": 1,
                "name": "CI",
                "status": "completed",
                "conclusion": "failure",
                "jobs_url": "https://evil.example/jobs",
            }
        ]
    }
    with pytest.raises(BadResults, match="not asked there"):
        from_http("https://ci.example/runs", lambda url: json.dumps(runs).encode(), ())


def test_the_job_that_failed_is_found_on_a_later_page() -> None:
    """GitHub shows 30 jobs of a run when it is asked for no number, GitLab at most 100."""
    jobs = [
        {"id": number, "name": f"job {number}", "status": "completed", "conclusion": "success"}
        for number in range(1, 131)
    ]
    jobs[-1]["conclusion"] = "failure"
    run = {
        "id": 1,
        "name": "CI",
        "status": "completed",
        "conclusion": "failure",
        "jobs_url": "https://ci.example/runs/1/jobs",
    }
    asked: list[str] = []

    def fetch(url: str) -> bytes:
        asked.append(url)
        split = urllib.parse.urlsplit(url)
        if split.path == "/runs":
            return json.dumps({"workflow_runs": [run]}).encode()
        query = dict(urllib.parse.parse_qsl(split.query))
        size, page = int(query.get("per_page", 30)), int(query.get("page", 1))
        return json.dumps(
            {"total_count": 130, "jobs": jobs[size * (page - 1) : size * page]}
        ).encode()

    assert [
        failure.job for failure in from_http("https://ci.example/runs", fetch, ()).runs[0].failures
    ] == ["job 130"]
    assert len(asked) == 4

    def glab(words: Sequence[str]) -> bytes:
        if "/jobs?" not in words[-1]:
            return (
                b"trace"
                if words[-1].endswith("/trace")
                else json.dumps([{"id": 48, "status": "failed", "sha": "b" * 40}]).encode()
            )
        page = int(dict(urllib.parse.parse_qsl(words[-1].partition("?")[2])).get("page", 1))
        shown = [
            {
                "id": job["id"],
                "name": job["name"],
                "status": job["conclusion"].replace("failure", "failed"),
            }
            for job in jobs
        ]
        return json.dumps(shown[100 * (page - 1) : 100 * page]).encode()

    assert [one.job for one in from_glab("g/p", "main", glab, ()).runs[0].failures] == ["job 130"]


def test_a_run_that_failed_without_a_job_is_not_green() -> None:
    """A workflow or pipeline whose file is broken has no jobs."""
    listed = [
        {
            "id": 48,
            "status": "failed",
            "sha": "b" * 40,
            "web_url": "https://gitlab.example/g/p/-/pipelines/48",
        }
    ]
    reading = from_glab(
        "g/p",
        "main",
        lambda words: b"[]" if "/jobs?" in words[-1] else json.dumps(listed).encode(),
        (),
    )
    assert [(failure.message, failure.url) for failure in reading.runs[0].failures] == [
        ("pipeline: the run failed, and no job says why", listed[0]["web_url"])
    ]


def test_an_answer_that_is_no_result_says_what_it_said() -> None:
    with pytest.raises(BadResults, match="404 Project Not Found"):
        from_glab("g/p", "main", lambda words: b'{"message": "404 Project Not Found"}', ())
    with pytest.raises(BadResults, match="rate limit exceeded"):
        from_http(
            "https://ci.example/runs",
            lambda url: b'{"message": "API rate limit exceeded for 10.0.0.1"}',
            (),
        )


def test_no_run_that_ended_is_said() -> None:
    with pytest.raises(BadResults, match="no run has ended there yet"):
        from_gh("o/r", "main", lambda words: b"[]", ())


def test_only_the_file_of_a_triage_goes_with_a_report(tmp_path: Path) -> None:
    folder = tmp_path / "ci-triage"
    folder.mkdir()
    whole = folder / "shop-0123456789abcdef.md"
    whole.write_text("all of it")
    (folder / "link-0123456789abcdef.md").symlink_to("/etc/hostname")
    line = "[file: ci-triage/shop-0123456789abcdef.md]"
    assert attached(f"report\n\n{line}", tmp_path) == ("report", (whole,))
    for text in (
        f"{line}\nreport",
        "[file: ../secret-0123456789abcdef.md]",
        "x\n[file: ci-triage/../../x-0123456789abcdef.md]",
        "x\n[file: ci-triage/link-0123456789abcdef.md]",
        "x\n[file: ci-triage/none-0123456789abcdef.md]",
        "x",
    ):
        assert attached(text, tmp_path) == (text, ())


def test_the_command_prints_a_report_with_its_file_and_takes_secrets_out(tmp_path: Path) -> None:
    cases = "".join(
        f'<testcase name="test_{word}"><failure message="{word * 120} broke {word} with'
        ' s3cr3t-value"/></testcase>'
        for word in "abcdefghijklmnopqrstuvwxyz"
    )
    (tmp_path / "r.xml").write_text(f"<testsuite>{cases}</testsuite>")

    def triage() -> str:
        environ = {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "CI_TOKEN": "s3cr3t-value"}
        words = ("triage", "read", "r.xml")
        return run_process(*OHMO, *words, code=0, cwd=tmp_path, env=environ).stdout

    first = triage()
    assert triage() == first
    text, files = attached(first.strip(), tmp_path)
    assert len(text) <= 3_500
    assert len(files) == 1
    assert all(word * 120 in files[0].read_text() for word in "abcxyz")
    assert (
        "s3cr3t"
        not in first + files[0].read_text() + (tmp_path / "ci-triage" / "tests.json").read_text()
    )
    assert (tmp_path / "ci-triage" / ".gitignore").read_text() == "*\n"
