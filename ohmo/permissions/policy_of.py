"""From a configuration to the policies that judge its turns: the present one, and the one a turn
began under, as it is stored with the turn."""

from __future__ import annotations

import glob
import os
from collections.abc import Sequence
from functools import lru_cache, partial
from pathlib import Path

from channels.record import record
from ohmo.config.load import Config
from ohmo.contracts.tool import CallContext, PolicySnapshot
from ohmo.permissions.policy import Policy
from ohmo.permissions.rules import rule_set
from ohmo.permissions.sensitive_paths import SensitivePaths
from ohmo.shell.parsing import Shell

_BUILT = 8  # earlier policies that are kept ready; open turns seldom know more


@record
class Host:
    """What a policy needs to know of this process."""

    home: Path  # of whoever runs it
    root: Path  # $OHMO_HOME
    path: str  # where commands find programs


def snapshot_of(config: Config) -> PolicySnapshot:
    """What of the agent's home lies elsewhere is closed as well: the file of ``--config``, the
    store, its copies."""
    rules = config.permissions
    apart = [(config.file, ""), (config.backups.folder, "/ohmo-*.tar.gz"), (config.database, "*")]
    return PolicySnapshot(
        tuple(rules.allow),
        tuple(rules.ask),
        tuple(rules.deny),
        rules.mode,
        rules.read_outside,
        config.workspace,
        tuple(glob.escape(os.path.realpath(path)) + more for path, more in apart if path),
        config.sessions.busy,
    )


def sensitive_of(snapshot: PolicySnapshot, host: Host) -> SensitivePaths:
    return SensitivePaths(host.home, host.root, snapshot.closed)


def policy_of(snapshot: PolicySnapshot, host: Host) -> Policy:
    """Raises ValueError with one line for a rule that cannot be read."""
    places = {
        "WORKSPACE": str(snapshot.workspace),
        "HOME": str(host.home),
        "OHMO_HOME": str(host.root),
    }
    rules = rule_set(snapshot.allow, snapshot.ask, snapshot.deny, places)
    shell = Shell(host.home, host.path)
    sensitive = sensitive_of(snapshot, host)
    return Policy(rules, sensitive, shell, snapshot.workspace, snapshot.read_outside)


class Policies:
    """Which policies judge a call."""

    def __init__(self, present: PolicySnapshot, host: Host) -> None:
        """Raises ValueError, as ``policy_of``."""
        self._of = lru_cache(_BUILT)(partial(policy_of, host=host))
        self.adopt(present)

    def adopt(self, present: PolicySnapshot) -> None:
        """Another configuration holds from now on, also in turns that run. Raises ValueError."""
        self._of(present)
        self.present = present

    def judging(self, context: CallContext) -> Sequence[Policy]:
        """The present one, and the one the turn began under where that is another."""
        found = dict.fromkeys((self.present, context.policy or self.present))
        return [self._of(snapshot) for snapshot in found]
