"""One triage: what was read, compared with what is remembered, told once."""

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
from ohmo.triage.compare import compare, input_of
from ohmo.triage.results import BadResults, CiRun, Reading
from ohmo.triage.history import KEPT, Last, Past, read, written
from ohmo.triage.report import Commits, report

FOLDER = "ci-triage"  # in the folder where the command runs
SILENT = "[SILENT]"  # what a job answers when nobody shall be told
# seconds in which the same results give the same answer: a run that failed on its way is tried
# again
AGAIN = 7_200.0
_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,79}")
_MOST_STATE = 16 * 2**20


@record
class Told:
    """What the command prints."""

    text: str  # the report, or the word for silence
    file: Path | None  # relative to the folder of the command, None: everything is in the text


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
        for path in old[:-KEPT]:
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
) -> Told:
    """``memory`` is held. ``now``: seconds since 1970. ``clean`` takes secrets out before anything
    is remembered. Raises BadResults, OSError."""
    reading = _cleaned(reading, clean)
    past, input_ = memory.read(), input_of(reading)
    if past.last is not None and past.last.input == input_ and 0 <= now - past.last.at < AGAIN:
        return _told(past.last, memory)
    compared = compare(reading, past)
    if compared.changed:
        said = report(compared, clean(title), commits=lambda good, bad: clean(commits(good, bad)))
        last = Last(input_, now, said.text, said.rest)
    else:
        last = Last(input_, now, SILENT, "")
    told = _told(last, memory)
    memory.write(replace(compared.past, last=last))
    return told


def _told(last: Last, memory: Memory) -> Told:
    return Told(last.report, memory.keep(last.rest) if last.rest else None)


def _cleaned(reading: Reading, clean: Callable[[str], str]) -> Reading:
    return Reading([_run(run, clean) for run in reading.runs])


def _run(run: CiRun, clean: Callable[[str], str]) -> CiRun:
    failures = tuple(
        replace(one, job=clean(one.job), test=clean(one.test), message=clean(one.message))
        for one in run.failures
    )
    return replace(run, stream=clean(run.stream), failures=failures)
