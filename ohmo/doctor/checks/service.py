"""Who keeps the daemon running."""

from __future__ import annotations

from ohmo.doctor.contract import (
    Check,
    Finding,
    Ground,
    Kept,
    kept,
    needs,
    note,
    ok,
    problem,
    skipped,
    warning,
)


@needs(kept)
def _asked(_: Ground, kept: Kept) -> Finding:
    if not kept.broken:
        return ok(kept.manager)
    return problem(
        f"nobody can tell how the service is: {kept.broken}", "mend this, then ohmo service status"
    )


@needs(kept)
def _installed(ground: Ground, kept: Kept) -> Finding:
    if kept.installed or kept.broken:
        return ok(kept.manager)
    if ground.holder is None:
        return skipped("no daemon is running")
    return note(
        "it was started by hand: nobody starts it again when it ends",
        "ohmo service install; stop it; ohmo service start",
    )


@needs(kept)
def _current(_: Ground, kept: Kept) -> Finding:
    if not kept.stale:
        return ok()
    return warning(
        "the service was installed from another place or by another version of ohmo",
        "ohmo service install, then ohmo service restart",
    )


@needs(kept)
def _state(_: Ground, kept: Kept) -> Finding:
    found = kept.standing
    if found is None or found.state not in ("failed", "restarting"):
        return ok()
    return problem(
        f"the service is {found.state}: {found.detail or 'no reason is known'}",
        "ohmo service logs says why; then ohmo service start",
    )


@needs(kept)
def _keeper(_: Ground, kept: Kept) -> Finding:
    if kept.standing is None or not kept.standing.alone:
        return ok()
    return warning(
        "the process that keeps the daemon was killed: nobody starts it again when it ends",
        "ohmo service start",
    )


def _upgrade(ground: Ground) -> Finding:
    if not ground.upgrade_interrupted:
        return ok()
    if ground.holder is not None:
        return note(
            "an upgrade was interrupted; the daemon shows by itself whether it stays",
            "ask again in two minutes; ohmo logs says how it went",
        )
    return warning(
        "an upgrade was interrupted and is not taken back yet",
        "ohmo service stop, then ohmo service start: the version of before returns",
    )


CHECKS = (
    Check("service.asked", "its manager answers", _asked),
    Check("service.installed", "somebody starts it again", _installed),
    Check("service.current", "it starts what is installed", _current),
    Check("service.state", "it did not give up", _state),
    Check("service.keeper", "its keeper lives", _keeper),
    Check("service.upgrade", "no upgrade was interrupted", _upgrade),
)
