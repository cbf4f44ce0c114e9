"""What a change did, shown as a diff; and changes taken back, with a checkpoint of their own, so
that this is taken back the same way."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from pathlib import Path

from channels.durable import write_whole
from channels.record import record
from channels.text import code_span, fenced, some
from ohmo.ambient import derived
from ohmo.checkpoints.folders import Folders
from ohmo.checkpoints.git import CannotKeep, Git
from ohmo.checkpoints.history import (
    Deed,
    Kind,
    Plan,
    Span,
    composed,
    deeds,
    name_of,
    planned,
    standing,
)
from ohmo.checkpoints.restoring import changes, not_new, now, patch, restore
from ohmo.checkpoints.snapshots import PLAIN, Kept, Snapshots, status_of
from ohmo.contracts.turns import Checkpoint

_SAID = 2_500  # characters of a diff that are said
_LISTED = 20  # files that are named
_NOTHING = (
    "There is nothing to undo here: no turn of this conversation changed files of"
    " which a checkpoint was made."
)
_TAKEN = (
    "There is nothing to undo here any more: what turns of this conversation changed is taken back."
)
_BLIND = "worked without a checkpoint: what it changed is not known and cannot be taken back"
_SHOWN = 5  # older changes
_SAME = "Nothing to do: these files are as they were before it."


@record
class TakenBack:
    """What the person is told, and what the model is told; "" where nothing was changed."""

    text: str
    told: str = ""


@record
class _Done:
    """Of one folder: absolute names."""

    restored: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    failed: tuple[str, ...] = ()
    modules: tuple[str, ...] = ()


@record
class Showing:
    """``spill``: folder of files that are shown. ``hides``: files whose content is not.
    ``redact``: takes secrets out of words. ``when``: a time in words."""

    spill: Path
    hides: Callable[[str], bool]
    redact: Callable[[str], str]
    when: Callable[[datetime], str]


class TakingBack:
    """``failpoint`` is hit as checkpoint.restoring."""

    def __init__(self, folders: Folders, showing: Showing) -> None:
        self._folders = folders
        self._showing = showing
        self._when = showing.when

    async def shown(self, thread: str, back: int) -> tuple[str, tuple[Path, ...]]:
        """``diff`` as it is said; a long one as a file."""
        text, told = await self.diff(thread, back)
        told = self._showing.redact(told)
        if len(told) <= _SAID:
            return f"{text}\n\n{fenced(told.rstrip(), 'diff')}" if told else text, ()
        file = self._showing.spill / "shown" / derived("diff", thread, told) / "changes.diff"
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_whole(file, told)
        return f"{text} {len(told.splitlines())} lines.", (file,)

    async def diff(self, thread: str, back: int) -> tuple[str, str]:
        """What the change that lies ``back`` changes ago did (1: the last one): a line about it,
        and a unified diff, "" for none."""
        done = deeds(await self._folders.rows.checkpoints(thread))
        if back > len(done):
            return _fewer(len(done)), ""
        deed = done[-back]
        name = f"{_name(deed)} of {self._when(deed.rows[0].at)}"
        if deed.kind is None and deed.turn not in await self._folders.rows.session_turns(thread):
            name += ", in another conversation here,"
        if not deed.kept:
            more = f" `/diff {back + 1}` shows the change before it." if back < len(done) else ""
            return f"{name} {_BLIND}.{more}", ""
        parts: list[str] = []
        for row in deed.kept:
            root = Path(row.repo)
            try:
                async with self._folders.alone([root]):
                    parts.append(await self._folders.within(root, self._patch, row))
            except CannotKeep as error:
                parts.append(f"# {row.repo}: {error}\n")
        shown = "".join(parts)
        blind = "" if deed.kept == deed.rows else f" It also {_BLIND}."
        return (f"{name} changed:" if shown else f"{name} changed nothing.") + blind, shown

    async def take_back(
        self, thread: str, order: int, kind: Kind, back: int, *, force: bool
    ) -> TakenBack:
        """Files become what they were before the last turn whose changes stand (``undo``), or
        before the last ``back`` changes (``rollback``). ``order``: number of the command: carried
        out again after a kill, it goes on. ``force``: also over what somebody else changed."""
        done = deeds(await self._folders.rows.checkpoints(thread))
        begun = next(
            (each for each in done if each.kind == kind and each.order == str(order)), None
        )
        if begun is not None:
            done = done[: done.index(begun)]
            of = next((each for each in done if each.turn == begun.of), None)
            force = True  # it was decided when it began
        elif kind == "undo":
            here = await self._folders.rows.session_turns(thread)
            of = next((each for each in reversed(standing(done)) if each.turn in here), None)
            if of is None:
                none = _TAKEN if any(each.turn in here for each in done) else _NOTHING
                return TakenBack(none + self._older(done))
        else:
            of = done[-back] if back <= len(done) else None
        if of is None:
            return TakenBack(_fewer(len(done)))
        if not of.kept:
            name = f"{_name(of).lower()} of {self._when(of.rows[0].at)}"
            return TakenBack(f"Not undone: {name} {_BLIND}.{self._older(done)}")
        reverted = [of] if kind == "undo" else done[done.index(of) :]
        rows = [row for deed in reverted for row in deed.kept]
        own = name_of(kind, of.turn, order)
        try:
            async with self._folders.alone([Path(row.repo) for row in rows]):
                taken = await self._take_back(own, of, rows, begun, force=force)
        except CannotKeep as error:
            return TakenBack(f"Not undone: {error}.")
        blind = any(each.kept != each.rows for each in reverted)
        if not blind or not taken.told:
            return taken
        stays = " What was changed without a checkpoint stays."
        return TakenBack(taken.text + stays, taken.told + stays)

    def _older(self, done: Sequence[Deed]) -> str:
        """Changes that ``/rollback`` can go back to, the newest first."""
        lines = [
            f"\n- `/rollback {back}`: before {_name(deed).lower()} of"
            f" {self._when(deed.rows[0].at)} ({_listed([row.repo for row in deed.kept])})"
            for back, deed in enumerate(reversed(done), start=1)
            if deed.kept
        ]
        return " `/rollback` goes back further:\n" + "".join(lines[:_SHOWN]) if lines else ""

    async def _take_back(
        self, own: str, of: Deed, rows: Sequence[Checkpoint], begun: Deed | None, *, force: bool
    ) -> TakenBack:
        folders = self._folders
        others = await folders.rows.checkpoints()
        plans: dict[Path, Plan] = {}
        for root in dict.fromkeys(Path(row.repo) for row in rows):
            here = [row for row in rows if row.repo == str(root)]
            near = [
                row
                for row in others
                if row.tree and row.repo == str(root) and row.thread != here[0].thread
            ]
            plans[root] = await folders.within(root, self._plan, here, near)
        touched = [str(root / path) for root, plan in plans.items() for path in plan.touched]
        if touched and not force:
            return TakenBack(
                "Not undone: somebody else may have changed since, or at the same time:"
                f" {_listed(touched)}. Say it again with `--force` behind it to undo it all the"
                " same; a checkpoint is made before."
            )
        done: list[_Done] = []
        for root, plan in plans.items():
            known = [row for row in begun.rows if row.repo == str(root)] if begun else []
            if not plan.wanted and not known:
                continue
            if known:
                row = known[0]
                before = await folders.within(root, _before, row.id)
            else:
                row, before = await folders.keep(rows[0].thread, own, root, sorted(plan.wanted))
            failed = await folders.within(root, self._restore, plan)
            await folders.end(row, before)
            done.append(await folders.within(root, _outcome, row.id, plan, failed))
        return self._told(of, done)

    def _plan(
        self, snapshots: Snapshots, git: Git, rows: Sequence[Checkpoint], near: Sequence[Checkpoint]
    ) -> Plan:
        """``near``: of other conversations, in the same folder."""
        spans: list[Span] = []
        for number, row in enumerate(rows):
            before, after = snapshots.read(row.id)
            ended = snapshots.ended(row.id)
            alone = not any(
                ended is not None
                and other.at <= ended
                and (snapshots.ended(other.id) or other.at) >= row.at
                for other in near
            )
            sure = after is not None and alone
            if after is None and number + 1 < len(rows):
                after, _ = snapshots.read(rows[number + 1].id)
            if after is None:
                after = self._folders.now(snapshots, git, before.paths or ())
            found = changes(git, before, after)
            for path in not_new(snapshots, git, row.id, before, found):
                del found[path]
            spans.append(Span(found, sure))
        files = composed(spans)
        return planned(files, {path: now(snapshots, path) for path in files})

    def _restore(self, _: Snapshots, git: Git, plan: Plan) -> list[str]:
        failpoint = self._folders.ambient.failpoint
        failpoint("checkpoint.restoring")
        return restore(git, plan.wanted, failpoint)

    def _told(self, of: Deed, done: Sequence[_Done]) -> TakenBack:
        restored = [path for each in done for path in each.restored]
        removed = [path for each in done for path in each.removed]
        failed = [line for each in done for line in each.failed]
        modules = [path for each in done for path in each.modules]
        if not restored and not removed:
            return TakenBack(_SAME)
        words: list[str] = []
        if restored:
            words.append(f"As before: {_listed(restored)}.")
        if removed:
            words.append(f"Removed, because it was new: {_listed(removed)}.")
        if modules:
            words.append(f"Submodules stay as they are: {_listed(modules)}.")
        if failed:
            words.append(f"Could not be restored: {'; '.join(failed[:_LISTED])}.")
        what = f"{_name(of).lower()} of {self._when(of.rows[0].at)}"
        return TakenBack(
            f"Files are as they were before {what}. {' '.join(words)} `/rollback` takes this back.",
            f"(A person has taken back what {what} changed, and whatever was changed after it where"
            f" it said so. {' '.join(words)} What was said about these files does not hold any"
            " more: read them again before you go on, and do not do it over unasked.)",
        )

    def _patch(self, snapshots: Snapshots, git: Git, row: Checkpoint) -> str:
        before, after = snapshots.read(row.id)
        if after is None:
            after = self._folders.now(snapshots, git, before.paths or ())
        found = changes(git, before, after)
        hidden = [path for path in found if self._showing.hides(str(snapshots.root / path))]
        lines = "".join(f"# {snapshots.root / path} changed and is not shown\n" for path in hidden)
        shown = lines + patch(git, before, after, hidden)
        in_one = f"# in {snapshots.root}\n" if snapshots.root != PLAIN else ""
        return in_one + shown if shown else ""


def _before(snapshots: Snapshots, _: Git, name: str) -> Kept:
    before, _after = snapshots.read(name)
    return before


def _outcome(snapshots: Snapshots, git: Git, name: str, plan: Plan, failed: Sequence[str]) -> _Done:
    """What was changed, also before a kill."""
    before, after = snapshots.read(name)
    found = changes(git, before, after or before)
    root = snapshots.root
    return _Done(
        tuple(f"{root / path}" for path, change in found.items() if change.after is not None),
        tuple(
            f"{root / path}"
            for path, change in found.items()
            if change.after is None and status_of(root, path) is None  # else it is ignored again
        ),
        tuple(f"{root}/{line}" for line in failed),
        tuple(f"{root / path}" for path in plan.modules),
    )


def _name(deed: Deed) -> str:
    return "The turn" if deed.kind is None else f"The `/{deed.kind}`"


def _fewer(count: int) -> str:
    if not count:
        return "Nothing was changed here of which a checkpoint is kept."
    return f"Only {some(count, 'change')} of this conversation are kept."


def _listed(paths: Sequence[str]) -> str:
    shown = ", ".join(code_span(path) for path in paths[:_LISTED])
    return shown if len(paths) <= _LISTED else f"{shown} and {len(paths) - _LISTED} more"
