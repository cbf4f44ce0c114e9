"""Who keeps the daemon running."""

from __future__ import annotations

from ohmo.doctor.check import (
    Check,
    Facts,
    Finding,
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
def asked(_: Facts, kept: Kept) -> Finding:
    if not kept.broken:
        return ok(kept.manager)
    return problem(
        f"nobody can tell how the service is: {kept.broken}", "mend this, then ohmo service status"
    )


@needs(kept)
def installed(facts: Facts, kept: Kept) -> Finding:
    if kept.installed or kept.broken:
        return ok(kept.manager)
    if facts.holder is None:
        return skipped("no daemon is running")
    return note(
        "it was started by hand: nobody starts it again when it ends",
        "ohmo service install; stop it; ohmo service start",
    )


@needs(kept)
def current(_: Facts, kept: Kept) -> Finding:
    if not kept.stale:
        return ok()
    return warning(
        "the service was installed from another place or by another version of ohmo",
        "ohmo service install, then ohmo service restart",
    )


@needs(kept)
def state(_: Facts, kept: Kept) -> Finding:
    found = kept.standing
    if found is None or found.state not in ("failed", "restarting"):
        return ok()
    return problem(
        f"the service is {found.state}: {found.detail or 'no reason is known'}",
        "ohmo service logs says why; then ohmo service start",
    )


@needs(kept)
def keeper(_: Facts, kept: Kept) -> Finding:
    if kept.standing is None or not kept.standing.alone:
        return ok()
    return warning(
        "the process that keeps the daemon was killed: nobody starts it again when it ends",
        "ohmo service start",
    )


def upgrade(facts: Facts) -> Finding:
    if not facts.upgrade_interrupted:
        return ok()
    if facts.holder is not None:
        return note(
            "an upgrade was interrupted; the daemon shows by itself whether it stays",
            "ask again in two minutes; ohmo logs says how it went",
        )
    return warning(
        "an upgrade was interrupted and is not taken back yet",
        "ohmo service stop, then ohmo service start: the version of before returns",
    )


CHECKS = (
    Check("service.asked", "its manager answers", asked),
    Check("service.installed", "somebody starts it again", installed),
    Check("service.current", "it starts what is installed", current),
    Check("service.state", "it did not give up", state),
    Check("service.keeper", "its keeper lives", keeper),
    Check("service.upgrade", "no upgrade was interrupted", upgrade),
)
