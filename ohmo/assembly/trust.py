"""Whatever waits for somebody's word before it takes part."""

from __future__ import annotations

from pathlib import Path

from ohmo.approvals.trusting import Candidates, TrustDesk
from ohmo.assembly.agent import AgentParts
from ohmo.contracts.trust import Trusts


def trust_desk(trusts: Trusts, agent: AgentParts, workspace: Path) -> TrustDesk:
    """Over the skills, and over the hooks of projects where hooks run at all."""
    more: list[Candidates] = []
    if agent.hooks is not None:
        more.append(agent.hooks.candidates)
    return TrustDesk(trusts, agent.skills, workspace, more)
