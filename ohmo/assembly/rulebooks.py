"""By whose rules a turn is judged when the configuration changes under it: its own and the new
ones, at each call the stricter."""

from __future__ import annotations

import glob
import os
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Literal

from channels.contract import Inbound
from channels.record import record
from ohmo.assembly.channels import manifests, roles
from ohmo.config.channels import open_channels
from ohmo.config.load import Config
from ohmo.contracts.arrivals import Arrival, Wake
from ohmo.contracts.store import PersonRow
from ohmo.contracts.tool import CallContext
from ohmo.gateway import access
from ohmo.gateway.access import Access, Standing
from ohmo.gateway.accounts import Accounts
from ohmo.permissions.paths import SensitivePaths
from ohmo.permissions.policy import Policy
from ohmo.permissions.rules import rule_set
from ohmo.permissions.shell import Shell

Mode = Literal["default", "plan", "full_auto"]
Busy = Literal["queue", "steer", "interrupt", "collect"]
_MODES: tuple[Mode, ...] = ("plan", "default", "full_auto")  # strictest first
REMEMBERED = 4_096  # turns whose first words are kept to ask for their person's standing again
ELDERS = 64  # configurations before this one; a turn does not outlive so many


@record
class Rulebook:
    """What one configuration lets be done. ``busy`` and ``workspace`` are no rules; a turn keeps
    them with the rest."""

    policy: Policy
    mode: Mode
    busy: Busy
    workspace: Path
    access: Access


@record
class Elder:
    """A configuration that ended while the process went on. Turns whose id is smaller than
    ``until`` began under it."""

    until: str
    book: Rulebook


class Rulebooks:
    """``elders``: oldest first. ``coming``: a configuration that is about to replace the present
    one."""

    def __init__(self, elders: Sequence[Elder] = ()) -> None:
        self._elders = tuple(elders)
        self._begun: OrderedDict[str, tuple[Arrival, bool]] = OrderedDict()
        self.coming: Rulebook | None = None

    def elders(self, turn: str) -> tuple[Rulebook, ...]:
        """Under which the turn lived before this configuration; the first is the one it began
        with."""
        return tuple(elder.book for elder in self._elders if turn < elder.until)

    def begun(self, turn: str, first: Arrival, *, mode_chosen: bool) -> None:
        """What a coming configuration has to be asked about. ``mode_chosen``: with ``/mode``, which
        no configuration overrules."""
        self._begun.pop(turn, None)
        self._begun[turn] = (first, mode_chosen)
        if len(self._begun) > REMEMBERED:
            self._begun.popitem(last=False)

    def others(self, context: CallContext) -> tuple[tuple[Policy, CallContext], ...]:
        """Each policy that has a say in a call beside the present one, and as whom and in which
        mode it sees the caller."""
        found = [
            (book.policy, context) for book in self.elders(context.turn)
        ]  # their mode and standing are in the turn's plan
        coming = self.coming
        if coming is not None:
            first, chosen = self._begun.get(context.turn, (None, False))
            mode = context.mode if chosen else strictest((context.mode, coming.mode))
            role = (
                context.role
                if first is None
                else access.lower(context.role, standing_of(first, coming.access)) or "guest"
            )
            found.append((coming.policy, replace(context, mode=mode, role=role)))
        return tuple(found)


def strictest(modes: Iterable[Mode]) -> Mode:
    return min(modes, key=_MODES.index)


def standing_of(first: Arrival, known: Access) -> Standing:
    """On whose rights a turn runs that begins with this."""
    if isinstance(first, Wake):
        if first.again is not None and first.terms is None:
            return first.again.standing
        if first.terms is not None and first.terms.standing is not None:
            return first.terms.standing
        return "owner" if first.person == "owner" else _of_wake(first, known)
    private = first.private if isinstance(first, Inbound) else True
    return known.let_in(first, private=private) or "guest"


def _of_wake(wake: Wake, known: Access) -> Standing:
    channel, colon, person = wake.person.partition(":")
    # the wake of somebody's job runs indoors, but never with more rights than they have themselves
    if colon:
        return known.of_absent(channel, wake.account, person) or "guest"
    return known.of_absent(wake.place.channel, wake.place.account, wake.person) or "guest"


def sensitive_of(config: Config, home: Path) -> SensitivePaths:
    """``home`` is the person's home folder. What belongs to the agent's home and lies elsewhere is
    closed as well: the file of ``--config``, the store, its copies."""
    file, folder, store = config.file, config.backups.folder, config.database
    apart = [(file, ""), (folder, "/ohmo-*.tar.gz"), (store, "*")]
    found = [glob.escape(os.path.realpath(path)) + more for path, more in apart if path is not None]
    return SensitivePaths(home, config.home.root, found)


def policy_of(config: Config, home: Path, sensitive: SensitivePaths, path: str) -> Policy:
    """``home`` is the person's home folder, ``path`` where commands find programs. Raises
    ValueError with one line for a rule that cannot be read."""
    rules = config.permissions
    places = {
        "WORKSPACE": str(config.workspace),
        "HOME": str(home),
        "OHMO_HOME": str(config.home.root),
    }
    known = rule_set(rules.allow, rules.ask, rules.deny, places)
    return Policy(known, sensitive, Shell(home, path), config.workspace, rules.read_outside)


def rulebook(
    config: Config,
    policy: Policy,
    people: Iterable[PersonRow],
    doors: Callable[[str, str], access.Policy] | None = None,
) -> Rulebook:
    """``doors``: who is let in by channel and account, None: as the configuration says. Raises
    ConfigError."""
    if doors is None:
        doors = Accounts(open_channels(config.channels, manifests()[0])).policy
    known = Access(doors, roles(config), is_command=lambda _: False, open_question=lambda _: ())
    known.learn(people)
    return Rulebook(policy, config.permissions.mode, config.sessions.busy, config.workspace, known)
