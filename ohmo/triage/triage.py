"""One triage: what was read, compared with what is remembered in a file, reported once in at most
3 500 characters that are safe in every chat; what does not fit, in a file."""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from channels.durable import write_whole
from channels.record import record
from ohmo.triage.compare import Compared, Group, LastAnswer, Past, compare, input_of, read, written
from ohmo.triage.results import LINK, BadResults, CiRun, Reading, plain

FOLDER = "ci-triage"  # in the folder where the command runs
SILENT = "[SILENT]"  # what a job answers when nobody shall be told
# seconds in which the same results give the same answer: a run that failed on its way is tried
# again
AGAIN = 7_200.0
_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,79}")
_MOST_STATE = 16 * 2**20
_FILES = 7  # of a triage that are kept
MOST = 3_500  # characters
_RESERVE = 160  # of them for the last line
_HEADS = {"new": "New", "still": "Still failing", "flaky": "Flaky", "fixed": "Fixed"}
_SAFE = str.maketrans(
    {
        "@": "\uff20",
        "<": "\u2039",
        ">": "\u203a",
        "`": "'",
        "\n": " ",
        "\r": " ",
        "\t": " ",
        "|": "\u00a6",
    }
)

Commits = Callable[[str, str], str]
"""What a repository says of the commits between a good and a bad one."""


@record
class Answer:
    """What the command prints."""

    text: str  # the report, or the word for silence
    file: Path | None  # relative to the folder of the command, None: everything is in the text


@record
class Report:
    """In at most ``MOST`` characters; ``rest``: the whole of it, empty when nothing was left
    out."""

    text: str
    rest: str


class Memory:
    """The state of one triage below ``folder``; one process at a time holds it."""

    def __init__(self, folder: Path, name: str) -> None:
        """Raises BadResults: the name cannot be a file's."""
        if _NAME.fullmatch(name) is None:
            raise BadResults(
                f"--name {name[:80]!r} cannot be a name; use up to 80 small letters, digits, dots,"
                " dashes and underscores"
            )
        self._folder = folder / FOLDER
        self._name = name

    @contextmanager
    def held(self) -> Generator[Memory]:
        """Raises BadResults: another process holds it."""
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        ignore = self._folder / ".gitignore"
        if not ignore.exists():
            write_whole(ignore, "*\n")
        handle = os.open(
            self._folder / f".{self._name}.lock",
            os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW,
            0o600,
        )
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise BadResults(
                f"another triage of {self._name} runs in {self._folder}; wait until it has ended"
            ) from error
        else:
            yield self
        finally:
            os.close(handle)

    def read(self) -> Past:
        """Raises BadResults with the file and what to do."""
        path = self._folder / f"{self._name}.json"
        try:
            if path.stat().st_size > _MOST_STATE:
                raise BadResults("it is too long")
            return read(path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return Past()
        except (BadResults, UnicodeDecodeError) as error:
            raise BadResults(
                f"{path}: {error}; remove it, and the next triage begins afresh"
            ) from error

    def write(self, past: Past) -> None:
        write_whole(self._folder / f"{self._name}.json", written(past))

    def keep(self, rest: str) -> Path:
        """A file that nobody changes any more: its name is what it says. The newest of a triage are
        kept."""
        name = f"{self._name}-{hashlib.sha256(rest.encode()).hexdigest()[:16]}.md"
        write_whole(self._folder / name, rest)
        old = sorted(
            self._folder.glob(f"{self._name}-{'[0-9a-f]' * 16}.md"),
            key=lambda path: path.stat().st_mtime,
        )
        for path in old[:-_FILES]:
            if path.name != name:
                path.unlink(missing_ok=True)
        return Path(FOLDER) / name


def triage(
    reading: Reading,
    title: str,
    memory: Memory,
    *,
    now: float,
    commits: Commits,
    clean: Callable[[str], str],
) -> Answer:
    """``memory`` is held. ``now``: seconds since 1970. ``clean`` takes secrets out before anything
    is remembered. Raises BadResults, OSError."""
    runs: list[CiRun] = []
    for run in reading.runs:
        failures = tuple(
            replace(
                failure,
                job=clean(failure.job),
                test=clean(failure.test),
                message=clean(failure.message),
            )
            for failure in run.failures
        )
        runs.append(replace(run, stream=clean(run.stream), failures=failures))
    reading = Reading(runs)
    past = memory.read()
    key = input_of(reading)
    last = past.last
    if last is not None and last.input == key and 0 <= now - last.at < AGAIN:
        return Answer(last.report, memory.keep(last.rest) if last.rest else None)
    compared = compare(reading, past)
    made = Report(SILENT, "")
    if compared.changed:
        made = report(compared, clean(title), commits=lambda good, bad: clean(commits(good, bad)))
    answer = Answer(made.text, memory.keep(made.rest) if made.rest else None)
    last = LastAnswer(input=key, at=now, report=made.text, rest=made.rest)
    memory.write(replace(compared.past, last=last))
    return answer


def report(compared: Compared, title: str, *, commits: Commits) -> Report:
    """Safe in every chat."""
    writer = _Writer(compared, commits)
    counts: list[str] = []
    for status in _HEADS:
        count = sum(group.status == status for group in compared.groups)
        if count:
            counts.append(f"{count} {status}")
    head = f"**CI triage: {', '.join(counts) or 'all green'}**\n{code(title, 120)}"
    newest: list[str] = []
    for run in compared.heads:
        if LINK.fullmatch(run.url):
            commit = f" {run.commit[:7]}" if _hex(run.commit) else ""
            newest.append(f"[{_label(run.stream)}{commit}]({run.url})")
    if newest:
        head += f" · {', '.join(newest[:4])}"
    text = head
    lines = writer.lines(long=False)
    for number, line in enumerate(lines):
        if len(text) + 1 + len(line) > MOST - _RESERVE:
            left = sum(entry.startswith("- ") for entry in lines[number:])
            whole = "\n".join([head, *writer.lines(long=True)])
            return Report(f"{text}\n\n_And {left} more: see the file._", f"{whole}\n")
        text += f"\n{line}"
    return Report(text, "")


def code(text: str, most: int = 160) -> str:
    """Somebody else's words as a code span: nothing in them is markup, calls anybody or ends the
    span."""
    shown = " ".join(plain(text).translate(_SAFE).split())
    if not shown:
        return "`(nothing said)`"
    if len(shown) > most:
        shown = f"{shown[: most - 1]}…"
    return f"`{shown}`"


class _Writer:
    """The lines below the head of a report."""

    def __init__(self, compared: Compared, commits: Commits) -> None:
        self._groups = compared.groups
        self._commits = commits
        self._commits_at = ""  # GitHub and GitLab show commits beside runs
        for run in compared.heads:
            github, actions, _ = run.url.partition("/actions/")
            gitlab, dash, _ = run.url.partition("/-/")
            if not LINK.fullmatch(run.url) or not (actions or dash):
                continue
            self._commits_at = f"{github}/commit/" if actions else f"{gitlab}/-/commit/"
            break

    def lines(self, *, long: bool) -> list[str]:
        lines: list[str] = []
        for status, head in _HEADS.items():
            members = [group for group in self._groups if group.status == status]
            if members:
                lines.append(f"\n**{head}**")
            for group in members:
                parts = [self._places(group, 40 if long else 3)]
                if group.status == "fixed":
                    if group.mended:
                        parts.append(f"by {self._commit(group.mended)}")
                elif group.bad:
                    commit = self._commit(group.bad)
                    author = self._commits(group.good, group.bad)
                    if author:
                        commit += f" {code(author, 100)}"
                    since = f"bad since {commit} or before"
                    if group.good:
                        since = f"first bad commit {commit}"
                    parts.append(since)
                if group.status == "flaky" and group.passes:
                    parts.append("passes now")
                details = "; ".join(filter(None, parts))
                message = code(group.message, 300 if long else 160)
                lines.append(f"- {message}: {details}" if details else f"- {message}")
        return lines

    def _places(self, group: Group, most: int) -> str:
        tests = list(dict.fromkeys(test for _, test, _ in group.places if test))
        jobs = list(dict.fromkeys((job, url) for job, _, url in group.places))
        shown = [code(test, 80) for test in tests[:most]]
        if len(tests) > most:
            shown.append(f"and {len(tests) - most} more tests")
        links: list[str] = []
        for job, url in jobs[:most]:
            if job and LINK.fullmatch(url):
                links.append(f"[{_label(job)}]({url})")
            elif job:
                links.append(code(job, 60))
        if len(jobs) > most:
            links.append(f"{len(jobs) - most} more jobs")
        words = [", ".join(shown)] if shown else []
        if links:
            words.append(f"in {', '.join(links)}")
        return " ".join(words)

    def _commit(self, commit: str) -> str:
        if not _hex(commit):
            return code(commit, 40)
        short = code(commit[:7], 40)
        return f"[{short}]({self._commits_at}{commit})" if self._commits_at else short


def _hex(commit: str) -> bool:
    return re.fullmatch(r"[0-9a-f]{7,64}", commit) is not None


def _label(text: str) -> str:
    """For the words of a link: letters, digits and what is harmless between them."""
    return " ".join(re.sub(r"[^\w .,()/+#:=-]", " ", plain(text, 60)).split()) or "run"
