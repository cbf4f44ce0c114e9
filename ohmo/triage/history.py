"""What a triage remembers: the last runs, what it told of them, and its last answer; one small JSON
file, written whole."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import cast

from channels.record import record
from ohmo.triage.results import BadResults
from ohmo.triage.values import objects, text

KEPT = 7  # runs of a stream
_VERSION = 1
_STREAMS = 50
_MOST_GROUPS = 2_000


@record
class PastRun:
    stream: str
    key: str
    commit: str
    failing: frozenset[str]  # fingerprints


@record
class Told:
    """A failure people know of."""

    status: str  # new, still, flaky
    message: str
    bad: str  # the first commit that had it
    good: str  # the last before it that had not, empty when nobody knows
    places: tuple[tuple[str, str, str], ...] = ()  # job, test, url


@record
class Last:
    """The last answer."""

    input: str
    at: float  # seconds since 1970
    report: str
    rest: str


@record
class Past:
    runs: Mapping[str, Sequence[PastRun]] = field(default_factory=dict[str, Sequence[PastRun]])
    told: Mapping[str, Told] = field(default_factory=dict[str, Told])
    last: Last | None = None


def written(past: Past) -> str:
    """As ``read`` reads it; the same past gives the same text."""
    newest = list(past.runs.items())[-_STREAMS:]
    runs = [
        {
            "stream": one.stream,
            "key": one.key,
            "commit": one.commit,
            "failing": sorted(one.failing)[:_MOST_GROUPS],
        }
        for _, members in newest
        for one in members[-KEPT:]
    ]
    told = [
        {
            "print": print_,
            "status": one.status,
            "message": one.message,
            "bad": one.bad,
            "good": one.good,
            "places": [list(place) for place in one.places],
        }
        for print_, one in sorted(past.told.items())[:_MOST_GROUPS]
    ]
    last = (
        None
        if past.last is None
        else {
            "input": past.last.input,
            "at": past.last.at,
            "report": past.last.report,
            "rest": past.last.rest,
        }
    )
    return (
        json.dumps(
            {"version": _VERSION, "runs": runs, "told": told, "last": last},
            ensure_ascii=False,
            indent=1,
        )
        + "\n"
    )


def read(source: str) -> Past:
    """Raises BadResults: it is none, or one of a later version."""
    try:
        found = cast("object", json.loads(source))
    except (ValueError, RecursionError) as error:
        raise BadResults(f"what is remembered is not JSON ({str(error)[:100]})") from error
    if not isinstance(found, dict) or cast("dict[str, object]", found).get("version") != _VERSION:
        raise BadResults("what is remembered was written by another version of ohmo")
    data = cast("dict[str, object]", found)
    runs: dict[str, list[PastRun]] = {}
    for one in objects(data.get("runs")):
        run = PastRun(
            text(one, "stream"),
            text(one, "key"),
            text(one, "commit"),
            frozenset(_texts(one.get("failing"))),
        )
        runs.setdefault(run.stream, []).append(run)
    told = {text(one, "print"): _told(one) for one in objects(data.get("told"))}
    last = next(iter(objects([data.get("last")])), None)
    return Past(
        {stream: tuple(members) for stream, members in runs.items()},
        told,
        None if last is None else _last(last),
    )


def _told(one: Mapping[str, object]) -> Told:
    listed = one.get("places")
    places = (
        [_texts(place) for place in cast("list[object]", listed)]
        if isinstance(listed, list)
        else []
    )
    return Told(
        text(one, "status"),
        text(one, "message"),
        text(one, "bad"),
        text(one, "good"),
        tuple((p[0], p[1], p[2]) for p in places if len(p) == 3),
    )


def _last(one: Mapping[str, object]) -> Last | None:
    at, report, rest = one.get("at"), one.get("report"), one.get("rest")
    if not isinstance(at, int | float) or not isinstance(report, str) or not isinstance(rest, str):
        return None
    return Last(text(one, "input"), float(at), report, rest)


def _texts(value: object) -> list[str]:
    return (
        [one for one in cast("list[object]", value) if isinstance(one, str)]
        if isinstance(value, list)
        else []
    )
