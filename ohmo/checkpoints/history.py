"""Which changes of a conversation stand, and what has to happen so that files are as they were
before some of them. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

from channels.record import record
from ohmo.checkpoints.restoring import MODULE, Change, Entry
from ohmo.contracts.turns import Checkpoint

Kind = Literal["undo", "rollback"]


@record
class Deed:
    """What one turn, or one command that took something back, changed. ``of``: what it took back,
    "" for a turn; ``order``: the number of the command."""

    turn: str
    rows: tuple[Checkpoint, ...]
    kind: Kind | None = None
    of: str = ""
    order: str = ""

    @property
    def kept(self) -> tuple[Checkpoint, ...]:
        """Without those that only say that nothing could be kept."""
        return tuple(row for row in self.rows if row.tree)


def name_of(kind: Kind, of: str, order: int) -> str:
    """What stands in the place of a turn in the rows of a command."""
    return f"{kind}:{of}:{order}"


def deeds(rows: Sequence[Checkpoint]) -> list[Deed]:
    """Oldest first, as the rows are."""
    grouped: dict[str, list[Checkpoint]] = {}
    for row in rows:
        grouped.setdefault(row.turn, []).append(row)
    found: list[Deed] = []
    for turn, own in grouped.items():
        kind, _, rest = turn.partition(":")
        of, _, order = rest.rpartition(":")
        if kind == "undo" or kind == "rollback":  # noqa: PLR1714 - narrows the type
            found.append(Deed(turn, tuple(own), kind, of, order))
        else:
            found.append(Deed(turn, tuple(own)))
    return found


def standing(done: Sequence[Deed]) -> list[Deed]:
    """Turns whose changes have not been taken back, oldest first."""
    now: list[Deed] = []
    before: dict[str, list[Deed]] = {}
    for deed in done:
        before[deed.turn] = list(now)
        match deed.kind:
            case "undo":
                now = [each for each in now if each.turn != deed.of]
            case "rollback":
                now = list(before.get(deed.of, []))
            case None:
                now.append(deed)
    return now


@record
class Span:
    """Files that changed between two snapshots. ``sure``: nobody else had a hand in it."""

    changes: Mapping[str, Change]
    sure: bool


@record
class Plan:
    """``wanted``: files as they shall be, None for none; ``touched``: those of them that somebody
    else changed; ``modules``: submodules, which stay as they are."""

    wanted: Mapping[str, Entry | None]
    touched: tuple[str, ...]
    modules: tuple[str, ...]


def composed(spans: Sequence[Span]) -> dict[str, tuple[Change, bool]]:
    """Of spans in their order, each file as it was before the first of them that changed it and
    after the last; and whether it was touched by nobody else in between."""
    found: dict[str, tuple[Change, bool]] = {}
    for span in spans:
        for path, change in span.changes.items():
            first, sure = found.get(path, (change, True))
            known = path not in found or first.after == change.before
            found[path] = (Change(first.before, change.after), sure and known and span.sure)
    return found


def planned(files: Mapping[str, tuple[Change, bool]], present: Mapping[str, Entry | None]) -> Plan:
    """``present``: those files as they are now."""
    wanted: dict[str, Entry | None] = {}
    touched: list[str] = []
    modules: list[str] = []
    for path, (change, sure) in files.items():
        entries = [each for each in (change.before, change.after) if each is not None]
        if any(each.mode == MODULE for each in entries):
            modules.append(path)
            continue
        if present[path] == change.before:
            continue
        wanted[path] = change.before
        if not sure or present[path] != change.after:
            touched.append(path)
    return Plan(wanted, tuple(sorted(touched)), tuple(sorted(modules)))
