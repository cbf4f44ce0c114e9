"""What is new, still there, flaky or fixed since people were last told, and which commit began it.
Pure: the same input gives the same answer."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from channels.record import record
from ohmo.triage.results import CiRun, Failure, Reading
from ohmo.triage.fingerprint import fingerprint, plain
from ohmo.triage.history import KEPT, Past, PastRun, Told

_MESSAGE = 300  # characters of a message that are remembered
_PLACES = 40  # of a group


@record
class Group:
    """Failures with one cause."""

    print: str
    status: str  # new, still, flaky, fixed
    message: str
    places: tuple[tuple[str, str, str], ...]
    bad: str = ""  # as in ``Told``, and so is the next
    good: str = ""
    mended: str = ""  # the commit that has it no more
    passes: bool = False  # it does not fail now


@record
class Compared:
    """What was read beside what is remembered."""

    groups: Sequence[Group]
    changed: bool  # people have to hear of it
    heads: Sequence[CiRun]  # the newest run of each stream
    past: Past  # to be remembered


def compare(reading: Reading, past: Past) -> Compared:
    """``past.last`` is left as it is."""
    lines, heads = _lines(reading, past), _heads(reading)
    fresh = {stream: run for stream, run in heads.items() if (stream, run.key) not in _known(past)}
    failing = _failing(fresh)
    silent = {
        stream for stream in past.runs if stream not in fresh
    }  # nothing new was read of them: what they said last still holds
    known = {print_ for stream in silent for print_ in past.runs[stream][-1].failing}
    groups = [
        _present(print_, members, past.told.get(print_), lines)
        for print_, members in failing.items()
    ]
    for print_, told in past.told.items():
        if print_ in failing:
            continue
        if print_ in known:
            groups.append(
                Group(
                    print_,
                    "flaky" if told.status == "flaky" else "still",
                    told.message,
                    told.places,
                    told.bad,
                    told.good,
                )
            )
        else:
            groups += _absent(print_, told, lines)
    order = ("new", "still", "flaky", "fixed")
    groups.sort(
        key=lambda group: (
            order.index(group.status),
            -len(group.places),
            group.message,
            group.print,
        )
    )
    changed = any(_is_news(group, past.told.get(group.print)) for group in groups)
    told = {
        group.print: Told(
            "flaky" if group.status == "flaky" else "still",
            group.message,
            group.bad,
            group.good,
            group.places,
        )
        for group in groups
        if group.status != "fixed"
    }
    kept = {stream: tuple(runs[-KEPT:]) for stream, runs in lines.items()}
    return Compared(groups, changed, list(heads.values()), Past(kept, told, past.last))


def input_of(reading: Reading) -> str:
    """Equal for readings that say the same."""
    said = sorted(f"{run.stream}\n{run.key}" for run in reading.runs)
    return hashlib.sha256("\n\n".join(said).encode("utf-8", "replace")).hexdigest()[:16]


def _lines(reading: Reading, past: Past) -> dict[str, list[PastRun]]:
    """The runs of each stream, what is remembered before what is read. A run that ended stays as it
    was read first."""
    found = {stream: list(runs) for stream, runs in past.runs.items()}
    for run in _unread(reading, past):
        line = found.setdefault(run.stream, [])
        line.append(
            PastRun(run.stream, run.key, run.commit, frozenset(map(fingerprint, run.failures)))
        )
    return found


def _unread(reading: Reading, past: Past) -> list[CiRun]:
    """Without those that are remembered, and those from before them: they were forgotten and must
    not come back as the newest."""
    known = _known(past)
    found: list[CiRun] = []
    seen: set[str] = (
        set()
    )  # streams that are at or before what is remembered, looked at from the newest
    for run in reversed(reading.runs):
        if (run.stream, run.key) in known:
            seen.add(run.stream)
        elif run.stream not in seen:
            found.append(run)
    return found[::-1]


def _known(past: Past) -> set[tuple[str, str]]:
    return {(run.stream, run.key) for line in past.runs.values() for run in line}


def _heads(reading: Reading) -> dict[str, CiRun]:
    return dict(sorted({run.stream: run for run in reading.runs}.items()))


def _failing(heads: Mapping[str, CiRun]) -> dict[str, list[Failure]]:
    found: dict[str, list[Failure]] = {}
    for run in heads.values():
        for failure in run.failures:
            members = found.setdefault(fingerprint(failure), [])
            members.append(failure if failure.url else replace(failure, url=run.url))
    return found


def _present(
    print_: str,
    members: Sequence[Failure],
    told: Told | None,
    lines: Mapping[str, Sequence[PastRun]],
) -> Group:
    flaky = any(_flaky(print_, line) for line in lines.values())
    status = (
        "flaky"
        if flaky or (told is not None and told.status == "flaky")
        else "new"
        if told is None
        else "still"
    )
    bad, good = (
        (told.bad, told.good) if told is not None and told.bad else _begun(print_, lines.values())
    )
    return Group(print_, status, plain(members[0].message, _MESSAGE), _places(members), bad, good)


def _absent(print_: str, told: Told, lines: Mapping[str, Sequence[PastRun]]) -> list[Group]:
    """It was there when people were last told."""
    group = Group(print_, "fixed", told.message, told.places, told.bad, told.good, passes=True)
    seen = [line for line in lines.values() if any(print_ in run.failing for run in line)]
    lately = any(print_ in run.failing for line in seen for run in line[-KEPT:])
    if any(_flaky(print_, line) for line in seen) or (told.status == "flaky" and lately):
        return [replace(group, status="flaky")]
    mended = next((run.commit for line in seen for run in _after(print_, line)), "")
    return [replace(group, mended=mended)]


def _is_news(group: Group, told: Told | None) -> bool:
    return group.status in ("new", "fixed") or (
        group.status == "flaky" and (told is None or told.status != "flaky")
    )


def _flaky(print_: str, line: Sequence[PastRun]) -> bool:
    """It came back after it was gone, or one commit had it and had it not."""
    runs = line[-KEPT - 1 :]
    bits = [print_ in run.failing for run in runs]
    if True not in bits:
        return False
    first = bits.index(True)
    gone = next((number for number, bit in enumerate(bits) if number > first and not bit), None)
    if gone is not None and True in bits[gone:]:
        return True
    by_commit: dict[str, set[bool]] = {}
    for run, bit in zip(runs, bits, strict=True):
        by_commit.setdefault(run.commit, set()).add(bit)
    return any(commit and len(states) == 2 for commit, states in by_commit.items())


def _begun(print_: str, lines: Iterable[Sequence[PastRun]]) -> tuple[str, str]:
    """The first bad commit, and the last good one before it, as far as the runs know."""
    for line in lines:
        if not line or print_ not in line[-1].failing:
            continue
        number = len(line) - 1
        while number and print_ in line[number - 1].failing:
            number -= 1
        return line[number].commit, line[number - 1].commit if number else ""
    return "", ""


def _after(print_: str, line: Sequence[PastRun]) -> Sequence[PastRun]:
    last = max(number for number, run in enumerate(line) if print_ in run.failing)
    return line[last + 1 :]


def _places(members: Sequence[Failure]) -> tuple[tuple[str, str, str], ...]:
    return tuple(
        dict.fromkeys((plain(one.job, 100), plain(one.test, 200), one.url) for one in members)
    )[:_PLACES]
