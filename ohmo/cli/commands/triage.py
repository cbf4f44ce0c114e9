"""Read CI results, group what failed by cause, and say what is new since the last time."""

from __future__ import annotations

import os
import re
import subprocess
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Sequence
from http.client import HTTPException
from pathlib import Path
from typing import IO, Any, ParamSpec, TypeVar

import click

from ohmo.logs.redaction import Redactor
from ohmo.triage.ci_servers import from_gh, from_glab
from ohmo.triage.compare import Known, known_runs
from ohmo.triage.formats import from_http, read_results
from ohmo.triage.results import MOST_BYTES, BadResults, Reading
from ohmo.triage.triage import Memory, triage

P = ParamSpec("P")
R = TypeVar("R")
_PATIENCE = 90.0  # seconds for one call of a program, or one answer
_COMMIT = re.compile(r"[0-9a-f]{7,64}")
_PRIVATE = re.compile(r"TOKEN|SECRET|PASSW|API_?KEY|CREDENTIAL", re.IGNORECASE)


@click.group(
    "triage",
    help=(
        f"{__doc__}\n\nPrints the report, or [SILENT] when there is nothing to say; docs/recipes.md"
        " shows how a job does it."
    ),
)
def COMMAND() -> None:
    pass


def _options(function: Callable[P, R]) -> Callable[P, R]:
    for option in reversed(
        [
            click.option(
                "--name",
                metavar="N",
                help="Of what is remembered in ./ci-triage; made from the source when not given.",
            ),
            click.option(
                "--git",
                type=click.Path(path_type=Path),
                default=".",
                help="A clone in which commits are looked up.",
                show_default=True,
            ),
        ]
    ):
        function = option(function)
    return function


@COMMAND.command("github")
@click.argument("repo", default=".")
@click.option("--branch", default="main", show_default=True, help="Whose runs count ('': all).")
@_options
def github(repo: str, branch: str, name: str | None, git: Path) -> None:
    """Runs of GitHub Actions, read with gh (run list, run view). REPO: owner/name; else the
    repository of this folder."""
    _checked(repo, branch)
    title = f"{repo} {branch}".strip()
    _say(
        title,
        name or _slug("github", repo, branch),
        git,
        lambda known: from_gh(repo, branch, _program, known),
    )


@COMMAND.command("gitlab")
@click.argument("repo", default=".")
@click.option(
    "--branch", default="main", show_default=True, help="Whose pipelines count ('': all)."
)
@_options
def gitlab(repo: str, branch: str, name: str | None, git: Path) -> None:
    """Pipelines of GitLab CI, read with glab api. REPO: group/name; else the project of this
    folder."""
    _checked(repo, branch)
    title = f"{repo} {branch}".strip()
    _say(
        title,
        name or _slug("gitlab", repo, branch),
        git,
        lambda known: from_glab(repo, branch, _program, known),
    )


@COMMAND.command("http")
@click.argument("url")
@click.option(
    "--bearer", metavar="VARIABLE", help="A variable whose value is sent as Authorization: Bearer."
)
@_options
def http(url: str, bearer: str | None, name: str | None, git: Path) -> None:
    """Whatever answers at URL: JUnit XML, GitHub's runs or jobs, GitLab's jobs, or a plain log."""
    parts = urllib.parse.urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise click.UsageError(
            f"{url[:100]}: expected an address that begins with https:// or http://"
        )
    shown = f"{parts.hostname}{parts.path}"
    _say(
        shown,
        name or _slug("http", shown),
        git,
        lambda known: from_http(url, lambda url: _get(url, bearer), known),
    )


@COMMAND.command("read")
@click.argument("file", type=click.File("rb"), default="-")
@click.option(
    "--form",
    type=click.Choice(["auto", "junit", "github", "gitlab", "log"]),
    default="auto",
    show_default=True,
)
@click.option(
    "--commit", default="", metavar="SHA", help="Of the run, where the input does not say it."
)
@click.option(
    "--url", default="", metavar="URL", help="Of the run, where the input does not say it."
)
@_options
def read(file: IO[bytes], form: Any, commit: str, url: str, name: str | None, git: Path) -> None:
    """What another command prints: its output by pipe, or a FILE."""
    data = file.read(MOST_BYTES + 1)
    title = name or "tests"
    _say(
        title,
        title,
        git,
        lambda _: read_results(
            data, form, commit=commit or _git(git, "rev-parse", "--verify", "HEAD"), url=url
        ),
    )


def _say(title: str, name: str, git: Path, gather: Callable[[Known], Reading]) -> None:
    redactor = Redactor(
        lambda: [value for key, value in os.environ.items() if _PRIVATE.search(key)]
    )
    with Memory(Path.cwd(), name).held() as memory:
        known = known_runs(memory.read())
        try:
            told = triage(
                gather(known),
                title,
                memory,
                now=time.time(),
                commits=lambda good, bad: _commits(git, good, bad),
                clean=redactor.text,
            )
        except BadResults as error:
            raise BadResults(redactor.text(f"triage: {error}")) from error
    click.echo(told.text if told.file is None else f"{told.text}\n\n[file: {told.file}]")


def _checked(repo: str, branch: str) -> None:
    """Neither may be taken for a flag."""
    for what, given in (("REPO", repo), ("--branch", branch)):
        if given.startswith("-") or re.fullmatch(r"[\w./@+#:-]*", given) is None:
            raise click.UsageError(f"{what} {given[:80]!r}: expected a name such as owner/name")


def _slug(*parts: str) -> str:
    words = "-".join(part for part in parts if part and part != ".").lower()
    return re.sub(r"[^a-z0-9._-]+", "-", words)[:80].strip("-.") or "ci"


def _program(words: Sequence[str]) -> bytes:
    try:
        ended = subprocess.run(  # noqa: S603
            words, stdin=subprocess.DEVNULL, capture_output=True, timeout=_PATIENCE, check=False
        )
    except FileNotFoundError as error:
        raise BadResults(f"{words[0]} is not installed, or not on the PATH of ohmo") from error
    except subprocess.TimeoutExpired as error:
        raise BadResults(f"{' '.join(words[:3])} did not end within {_PATIENCE:.0f} s") from error
    if ended.returncode:
        said = " ".join(ended.stderr.decode("utf-8", "replace").split())[:300]
        raise BadResults(
            f"{' '.join(words[:3])} failed ({said or f'exit code {ended.returncode}'})"
        )
    return ended.stdout


class _Stay(urllib.request.HTTPRedirectHandler):
    """Goes nowhere else: the address was approved, and the token is for it."""

    def redirect_request(self, *_: Any, **__: Any) -> None:
        return None


def _get(url: str, bearer: str | None) -> bytes:
    shown = url.partition("?")[0][:200]
    headers = {"Accept": "application/json, */*", "User-Agent": "ohmo-triage"}
    if bearer is not None:
        if not os.environ.get(bearer):
            raise BadResults(
                f"the variable {bearer} that --bearer names is not set; export it, or give it to"
                f" the job (secrets, {bearer}=env:{bearer})"
            )
        headers["Authorization"] = f"Bearer {os.environ[bearer]}"
    opener = urllib.request.build_opener(_Stay)
    try:
        with opener.open(urllib.request.Request(url, headers=headers), timeout=_PATIENCE) as answer:  # noqa: S310 - the scheme was looked at
            return answer.read(MOST_BYTES + 1)
    except urllib.error.HTTPError as error:
        to = (
            f" to {error.headers['Location'][:200]}; give that address"
            if error.headers.get("Location")
            else ""
        )
        raise BadResults(f"{shown}: it answered {error.code} {error.reason}{to}") from error
    except (OSError, HTTPException, ValueError) as error:
        raise BadResults(
            f"{shown}: not reached ({getattr(error, 'reason', None) or error})"
        ) from error


def _git(folder: Path, *words: str) -> str:
    settings = ["-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null"]
    try:
        ended = subprocess.run(  # noqa: S603 - no shell
            ["git", *settings, "-C", str(folder), "--no-pager", *words],  # noqa: S607
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=30,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    if ended.returncode:
        return ""
    return ended.stdout.decode("utf-8", "replace").strip()


def _commits(folder: Path, good: str, bad: str) -> str:
    """Who wrote the first bad commit and what it is about; how many others lie between it and the
    good one."""
    if _COMMIT.fullmatch(bad) is None:
        return ""
    subject = _git(folder, "log", "-1", "--no-show-signature", "--format=%an: %s", bad, "--")
    if not subject or _COMMIT.fullmatch(good) is None:
        return subject
    count = _git(folder, "rev-list", "--count", f"{good}..{bad}", "--")
    more = int(count) - 1 if count.isdigit() else 0
    if more > 0:
        subject += f" (or one of {more} before it)"
    return subject
