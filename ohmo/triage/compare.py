"""What is new, still there, flaky or fixed since people were last told, which commit began it, and
what is remembered of it as one small JSON document. Pure: the same input gives the same answer."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, field, replace
from typing import cast

from channels.record import record
from ohmo.triage.results import (
    BadResults,
    CiRun,
    Failure,
    ListedRun,
    Reading,
    fingerprint,
    objects,
    plain,
    text,
)

_KEPT = 7  # runs of a stream that are remembered
_VERSION = 1
_MOST_GROUPS = 2_000
_STREAMS_KEPT = 50
_STREAMS_READ = 10  # workflows that are looked at
_MESSAGE = 300  # characters of a message that are remembered
_PLACES = 40  # of a group
_ORDER = ("new", "still", "flaky", "fixed")

Known = Collection[tuple[str, str]]
"""Stream and key of runs that need not be looked into again."""
Place = tuple[str, str, str]
"""Job, test, url."""


@record
class PastRun:
    """A run that is remembered."""

    stream: str
    key: str
    commit: str
    failing: frozenset[str]  # fingerprints


@record
class KnownFailure:
    """A failure people know of."""

    status: str  # new, still, flaky
    message: str
    bad: str  # the first commit that had it
    good: str  # the last before it that had not, empty when nobody knows
    places: tuple[Place, ...] = ()


@record
class LastAnswer:
    """What was told last, and of which input."""

    input: str
    at: float  # seconds since 1970
    report: str
    rest: str


@record
class Past:
    """What is remembered of one triage."""

    runs: Mapping[str, Sequence[PastRun]] = field(default_factory=dict[str, Sequence[PastRun]])
    told: Mapping[str, KnownFailure] = field(default_factory=dict[str, KnownFailure])
    last: LastAnswer | None = None


@record
class Group:
    """Failures with one cause."""

    print: str
    status: str  # new, still, flaky, fixed
    message: str
    places: tuple[Place, ...]
    bad: str = ""  # as in ``KnownFailure``, and so is the next
    good: str = ""
    mended: str = ""  # the commit that has it no more
    passes: bool = False  # it does not fail now

    def is_news(self, told: KnownFailure | None) -> bool:
        """Whether people have to hear of it, who know of it as ``told``."""
        if self.status == "flaky":
            return told is None or told.status != "flaky"
        return self.status in ("new", "fixed")

    def remembered(self) -> KnownFailure:
        """As people know of it from now on."""
        status = "flaky" if self.status == "flaky" else "still"
        return KnownFailure(status, self.message, self.bad, self.good, self.places)


@record
class Compared:
    """What was read beside what is remembered."""

    groups: Sequence[Group]
    changed: bool  # people have to hear of it
    heads: Sequence[CiRun]  # the newest run of each stream
    past: Past  # to be remembered


def compare(reading: Reading, past: Past) -> Compared:
    """``past.last`` is left as it is."""
    runs = _with_unread(reading, past)
    heads = dict(sorted({run.stream: run for run in reading.runs}.items()))
    remembered = known_runs(past)
    fresh = {stream: run for stream, run in heads.items() if (stream, run.key) not in remembered}
    failing: dict[str, list[Failure]] = {}
    for run in fresh.values():
        for failure in run.failures:
            members = failing.setdefault(fingerprint(failure), [])
            members.append(failure if failure.url else replace(failure, url=run.url))
    # Of these streams nothing new was read: what they said last still holds.
    holding: set[str] = set()
    for stream, line in past.runs.items():
        if stream not in fresh:
            holding |= line[-1].failing
    groups = [
        _failing(print_, members, past.told.get(print_), runs.values())
        for print_, members in failing.items()
    ]
    for print_, told in past.told.items():
        if print_ in failing:
            continue
        group = Group(
            print=print_,
            status="flaky",
            message=told.message,
            places=told.places,
            bad=told.bad,
            good=told.good,
        )
        if print_ not in holding:
            groups.append(_passing(group, told, runs.values()))
        else:
            groups.append(group if told.status == "flaky" else replace(group, status="still"))
    groups.sort(
        key=lambda group: (
            _ORDER.index(group.status),
            -len(group.places),
            group.message,
            group.print,
        )
    )
    changed = any(group.is_news(past.told.get(group.print)) for group in groups)
    told_now = {group.print: group.remembered() for group in groups if group.status != "fixed"}
    kept = {stream: tuple(line[-_KEPT:]) for stream, line in runs.items()}
    return Compared(
        groups=groups,
        changed=changed,
        heads=list(heads.values()),
        past=Past(kept, told_now, past.last),
    )


def input_of(reading: Reading) -> str:
    """Equal for readings that say the same."""
    keys = sorted(f"{run.stream}\n{run.key}" for run in reading.runs)
    return hashlib.sha256("\n\n".join(keys).encode("utf-8", "replace")).hexdigest()[:16]


def known_runs(past: Past) -> set[tuple[str, str]]:
    """Stream and key of each run that is remembered."""
    return {(run.stream, run.key) for line in past.runs.values() for run in line}


def latest(listed: Sequence[ListedRun], known: Known) -> list[tuple[ListedRun, bool]]:
    """In their order: the last runs of each stream, as many as are compared, of the streams that
    ran last; each with whether it is not known yet. Raises BadResults: none."""
    taken: dict[str, int] = {}
    newest: list[tuple[ListedRun, bool]] = []
    for listed_run in reversed(listed):
        run = listed_run.run
        if run.stream not in taken and len(taken) >= _STREAMS_READ:
            continue
        taken[run.stream] = taken.get(run.stream, 0) + 1
        if taken[run.stream] <= _KEPT + 1:
            newest.append((listed_run, (run.stream, run.key) not in known))
    if not newest:
        raise BadResults(
            "no run has ended there yet; look at the name of the repository and of the branch"
        )
    return newest[::-1]


def _with_unread(reading: Reading, past: Past) -> dict[str, list[PastRun]]:
    """The runs of each stream, what is remembered before what is read. A run that ended stays as it
    was read first; runs from before the remembered ones were forgotten and must not come back as
    the newest."""
    remembered = known_runs(past)
    unread: list[CiRun] = []
    reached: set[str] = set()  # streams that are at or before what is remembered
    for run in reversed(reading.runs):
        if (run.stream, run.key) in remembered:
            reached.add(run.stream)
        elif run.stream not in reached:
            unread.append(run)
    lines = {stream: list(runs) for stream, runs in past.runs.items()}
    for run in reversed(unread):
        failing = frozenset(map(fingerprint, run.failures))
        lines.setdefault(run.stream, []).append(
            PastRun(stream=run.stream, key=run.key, commit=run.commit, failing=failing)
        )
    return lines


def _failing(
    print_: str,
    members: Sequence[Failure],
    told: KnownFailure | None,
    lines: Collection[Sequence[PastRun]],
) -> Group:
    places: dict[Place, None] = {}
    for failure in members:
        places[plain(failure.job, 100), plain(failure.test, 200), failure.url] = None
    status = "new" if told is None else "still"
    if any(_flaky(print_, line) for line in lines) or (told and told.status == "flaky"):
        status = "flaky"
    if told is not None and told.bad:
        bad, good = told.bad, told.good
    else:  # as far as the runs know
        bad, good = "", ""
        for line in lines:
            if line and print_ in line[-1].failing:
                number = len(line) - 1
                while number and print_ in line[number - 1].failing:
                    number -= 1
                bad = line[number].commit
                good = line[number - 1].commit if number else ""
                break
    message = plain(members[0].message, _MESSAGE)
    return Group(
        print=print_,
        status=status,
        message=message,
        places=tuple(places)[:_PLACES],
        bad=bad,
        good=good,
    )


def _passing(group: Group, told: KnownFailure, lines: Iterable[Sequence[PastRun]]) -> Group:
    """It was there when people were last told; flaky as long as it may come back."""
    mended: str | None = None
    flaky = False
    for line in lines:
        failing = [number for number, run in enumerate(line) if group.print in run.failing]
        if not failing:
            continue
        lately = told.status == "flaky" and failing[-1] >= len(line) - _KEPT
        flaky = flaky or lately or _flaky(group.print, line)
        after = line[failing[-1] + 1 :]
        if after and mended is None:
            mended = after[0].commit
    if flaky:
        return replace(group, passes=True)
    return replace(group, status="fixed", mended=mended or "", passes=True)


def _flaky(print_: str, line: Sequence[PastRun]) -> bool:
    """It came back after it was gone, or one commit had it and had it not."""
    failed_before = passed_since = False
    by_commit: dict[str, bool] = {}
    for run in line[-_KEPT - 1 :]:
        failed = print_ in run.failing
        if failed and passed_since:
            return True
        if run.commit and by_commit.setdefault(run.commit, failed) != failed:
            return True
        failed_before = failed_before or failed
        passed_since = failed_before and not failed
    return False


def written(past: Past) -> str:
    """As ``read`` reads it; the same past gives the same text."""
    runs: list[dict[str, object]] = []
    for line in list(past.runs.values())[-_STREAMS_KEPT:]:
        for run in line[-_KEPT:]:
            fields = asdict(run)
            fields["failing"] = sorted(run.failing)[:_MOST_GROUPS]
            runs.append(fields)
    told = [
        {"print": print_, **asdict(failure)}
        for print_, failure in sorted(past.told.items())[:_MOST_GROUPS]
    ]
    last = None if past.last is None else asdict(past.last)
    document = {"version": _VERSION, "runs": runs, "told": told, "last": last}
    return json.dumps(document, ensure_ascii=False, indent=1) + "\n"


def read(source: str) -> Past:
    """Raises BadResults: it is none, or one of a later version."""
    try:
        document = cast("object", json.loads(source))
    except (ValueError, RecursionError) as error:
        raise BadResults(f"what is remembered is not JSON ({str(error)[:100]})") from error
    data = cast("dict[str, object]", document) if isinstance(document, dict) else {}
    if data.get("version") != _VERSION:
        raise BadResults("what is remembered was written by another version of ohmo")
    runs: dict[str, list[PastRun]] = {}
    for fields in objects(data.get("runs")):
        failing = frozenset(_texts(fields.get("failing")))
        run = PastRun(
            stream=text(fields, "stream"),
            key=text(fields, "key"),
            commit=text(fields, "commit"),
            failing=failing,
        )
        runs.setdefault(run.stream, []).append(run)
    told: dict[str, KnownFailure] = {}
    for fields in objects(data.get("told")):
        places: list[Place] = []
        listed = fields.get("places")
        for place in cast("list[object]", listed) if isinstance(listed, list) else []:
            match _texts(place):
                case [job, test, url]:
                    places.append((job, test, url))
                case _:
                    pass
        told[text(fields, "print")] = KnownFailure(
            status=text(fields, "status"),
            message=text(fields, "message"),
            bad=text(fields, "bad"),
            good=text(fields, "good"),
            places=tuple(places),
        )
    last: LastAnswer | None = None
    for fields in objects([data.get("last")]):
        at, report, rest = fields.get("at"), fields.get("report"), fields.get("rest")
        if isinstance(at, int | float) and isinstance(report, str) and isinstance(rest, str):
            last = LastAnswer(input=text(fields, "input"), at=float(at), report=report, rest=rest)
    return Past({stream: tuple(line) for stream, line in runs.items()}, told, last)


def _texts(value: object) -> list[str]:
    if not isinstance(value, list):
        return []
    return [item for item in cast("list[object]", value) if isinstance(item, str)]
