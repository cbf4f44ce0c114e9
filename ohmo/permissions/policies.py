"""Which policies have a say in a call: the configuration's, the one its turn began under, and what
projects tighten."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import lru_cache, partial
from typing import Protocol

from ohmo.contracts.messages import ToolCall
from ohmo.contracts.outbox import Grant
from ohmo.contracts.tool import CallContext, Footprint, Mode, Opened, PolicySnapshot, strictest
from ohmo.permissions.policy import Host, Paths, Policy, places_in, policy_of, sensitive_of
from ohmo.permissions.project_settings import ProjectSettings, Tightening, places_of
from ohmo.permissions.rules import RuleSet, Ruling, rule_set
from ohmo.shell.parsing import Shell

_BUILT = 8  # earlier policies that are kept ready; open turns seldom know more
_TIGHTENED = 32  # the same of projects


class Walled(Protocol):
    """The sandbox around commands."""

    @property
    def holds(self) -> bool:
        """Whether it is known that one does."""
        ...

    async def settled(self) -> None:
        """When it is known."""
        ...

    async def standing(self) -> object:
        """Finds it out when nobody has."""
        ...


class Tightened(Policy):
    """The configuration's policy with what a project adds. It stands beside that policy, never in
    its place: the strictest decides, so that no file can loosen anything."""

    def __init__(
        self, snapshot: PolicySnapshot, says: Tightening, host: Host, walled: Callable[[], bool]
    ) -> None:
        """``walled``: whether a sandbox holds. Raises ValueError."""
        places = places_in(snapshot, host)
        own = rule_set(snapshot.allow, snapshot.ask, snapshot.deny, places)
        more = rule_set((), says.ask, says.deny, places_of(says, places))
        super().__init__(
            RuleSet(own.allow, (*more.ask, *own.ask), (*more.deny, *own.deny)),
            sensitive_of(snapshot, host),
            Shell(host.home, host.path),
            snapshot.workspace,
            "ask" if says.read_outside == "ask" else snapshot.read_outside,
        )
        self._says = says
        self._walled = walled

    def rule(
        self,
        call: ToolCall,
        footprint: Footprint,
        context: CallContext,
        grants: Sequence[Grant] = (),
        paths: Paths | None = None,
    ) -> Ruling:
        """What it is stricter in names its file."""
        if self._says.lost and footprint.effect not in ("none", "house"):
            return Ruling("deny", "mode", str(self._says.file), self._says.lost, remember=False)
        ruling = self._offline(footprint)
        if ruling is None or ruling.verdict == "ask":
            found = super().rule(call, footprint, self._capped(context), grants, paths)
            ruling = ruling if ruling is not None and found.verdict == "allow" else found
        if ruling.verdict == "allow":
            return ruling
        file = str(self._says.file)
        rule = f"{ruling.rule} ({file})" if ruling.rule else file
        reason = ruling.reason
        if ruling.layer == "mode" and ruling.verdict == "deny" and context.mode != "plan":
            reason = "plan mode: nothing is changed in this project"
        return replace(ruling, rule=rule, reason=reason)

    def opened(
        self, footprint: Footprint, context: CallContext, grants: Sequence[Grant], *, person: bool
    ) -> Opened:
        found = super().opened(footprint, self._capped(context), grants, person=person)
        return replace(found, network=False, offline=True) if self._says.offline else found

    def _capped(self, context: CallContext) -> CallContext:
        mode = strictest((context.mode, self._says.mode))
        return context if mode == context.mode else replace(context, mode=mode)

    def _offline(self, footprint: Footprint) -> Ruling | None:
        """About commands that want the network, or that nothing keeps from it."""
        if not self._says.offline or footprint.command is None:
            return None
        rule = "sandbox.network: off"
        if footprint.network:
            why = "commands have no network in this project"
            return Ruling("deny", "deny", rule, why, remember=False)
        if footprint.effect == "none" or self._walled():
            return None
        why = "commands have no network in this project, and no sandbox holds that"
        return Ruling("ask", "sandbox", rule, why, remember=False)


class Policies:
    """Which policies judge a call, and the mode where people chose none."""

    def __init__(
        self, present: PolicySnapshot, host: Host, walls: Walled, projects: ProjectSettings
    ) -> None:
        """Raises ValueError, as ``policy_of``."""
        self._of = lru_cache(_BUILT)(partial(policy_of, host=host))
        self._walls = walls
        self.projects = projects

        def tightened(snapshot: PolicySnapshot, says: Tightening) -> Policy:
            return Tightened(snapshot, says, host, lambda: walls.holds)

        self._tightened = lru_cache(_TIGHTENED)(tightened)
        self.adopt(present)

    def adopt(self, present: PolicySnapshot) -> None:
        """Another configuration holds from now on, also in turns that run. Raises ValueError."""
        self._of(present)
        self.present = present

    def mode(self, *earlier: PolicySnapshot) -> Mode:
        """Of the present configuration, where it is stricter of the ``earlier`` ones."""
        walled = self._walls.holds
        return strictest(each.mode_where(walled=walled) for each in (self.present, *earlier))

    async def mode_found(self, earlier: PolicySnapshot) -> Mode:
        """The same, after it was found out whether a sandbox holds."""
        if self.present.caged or earlier.caged:
            await self._walls.standing()
        return self.mode(earlier)

    def judging(self, context: CallContext) -> Sequence[Policy]:
        """The present one, the one the turn began under where that is another, and what projects
        tighten where the turn works."""
        snapshots = dict.fromkeys((self.present, context.policy or self.present))
        projects = self.projects.over(context.cwd)
        return [
            *(self._of(snapshot) for snapshot in snapshots),
            *(self._tightened(self.present, says) for says in projects),
        ]
