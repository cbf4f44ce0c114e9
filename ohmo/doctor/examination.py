"""Surveys the facts, runs every check, and mends what can be mended."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import cast

import ohmo
from channels.record import record
from channels.registry import DuplicateChannel, discover
from ohmo.config.home import find_home
from ohmo.config.load import load
from ohmo.contracts.errors import ConfigError, OhmoError
from ohmo.discovery import from_packages, scan
from ohmo.doctor.check import Check, Facts, Finding, Json, Kept, Machine, problem, skipped
from ohmo.hooks.packages import packaged
from ohmo.service.versions import installed
from ohmo.storefile.lock import holder, is_held


@record
class Result:
    """``mended``: what --fix did about it; empty: nothing."""

    check: Check
    finding: Finding
    mended: str = ""


def checks() -> tuple[Check, ...]:
    """Every check there is, in the order of their files and of their lines."""
    found = scan("ohmo.doctor.checks", "CHECKS")
    return tuple(check for group in found.values() for check in cast("Sequence[Check]", group))


def survey(
    environ: Mapping[str, str],
    ask: Callable[[str], Json | None],
    *,
    file: Path | None = None,
    machine: Machine | None = None,
    now: datetime | None = None,
    kept: Callable[[], Kept | None] = lambda: None,
) -> Facts:
    """Reads, and changes nothing. Raises ConfigError only when there is no home to look at."""
    home = find_home(environ)
    mistakes: tuple[str, ...] = ()
    try:
        catalogue = discover()
        manifests, broken = catalogue.manifests, catalogue.broken
    except DuplicateChannel as error:
        manifests, broken, mistakes = {}, (), (str(error),)
    for group, constant in (("ohmo.tools", "TOOL"), ("ohmo.providers", "MANIFEST")):
        taken = scan(group, constant)
        broken += from_packages(group, constant, object, taken=taken).broken
    broken += packaged().broken
    config = None
    try:
        config = load(file, environ=environ, manifests=manifests or None)
    except ConfigError as error:
        mistakes += tuple(str(error).splitlines())
    versions = installed()
    return Facts(
        home=home,
        environ=environ,
        config=config,
        mistakes=mistakes,
        manifests=manifests,
        broken=broken,
        ask=functools.cache(ask),
        holder=str(holder(home.lock) or "unknown") if is_held(home.lock, unclear=False) else None,
        machine=machine or Machine(),
        now=now or datetime.now(UTC),
        version=ohmo.__version__,
        kept=kept(),
        upgrade_interrupted=versions.trial.exists() and not versions.owned(),
    )


def examine(facts: Facts, *, live: bool = False, only: Sequence[str] = ()) -> list[Result]:
    """``only``: names, or the part before their dot."""
    return [
        Result(check, _look(check, facts, live=live))
        for check in checks()
        if not only or check.name in only or check.name.partition(".")[0] in only
    ]


def mend(facts: Facts, results: Sequence[Result], again: Callable[[], Facts]) -> list[Result]:
    """Mends what is marked so and was found wanting, then looks at everything again."""
    done: dict[str, str] = {}
    for result in results:
        check = result.check
        wanting = result.finding.state in ("warning", "problem", "note") and result.finding.next
        if check.mend is None or not wanting:
            continue
        if facts.not_ours:
            done[check.name] = f"left as it is: {facts.home.root}: {facts.not_ours}"
            continue
        try:
            done[check.name] = check.mend(facts)
        except (OSError, OhmoError) as error:
            done[check.name] = f"could not be mended: {getattr(error, 'strerror', None) or error}"
    if not done:
        return list(results)
    fresh = again()
    return [
        Result(
            result.check,
            result.finding if result.check.live else _look(result.check, fresh, live=False),
            done.get(result.check.name, ""),
        )
        for result in results
    ]


def _look(check: Check, facts: Facts, *, live: bool) -> Finding:
    if check.live and not live:
        return skipped("asked only with --live")
    if (
        facts.closed
        and check.name.partition(".")[0] != "machine"
        and check.name not in ("home.folder", "home.owner")
    ):
        return skipped("the home is closed to you; see home.owner")
    try:
        return check.examine(facts)
    except OSError as error:
        place = f"{error.filename}: " if error.filename else ""
        return problem(
            f"{place}{error.strerror or error}",
            "see that this file can be read by you, then ask again",
        )
    except OhmoError as error:
        return problem(str(error), "mend this first, then ask again")
