"""From the desk of trust to its cards and ``/trust``."""

from __future__ import annotations

from pathlib import Path

from channels.contract import Address
from channels.record import record
from ohmo.approvals.trust_cards import TrustCards
from ohmo.approvals.trust_orders import TrustOrders
from ohmo.assembly.agent import AgentParts
from ohmo.assembly.deps import Deps
from ohmo.commands.contract import TRUSTING
from ohmo.logs.redaction import Redactor


@record
class CardPlaces:
    """Implements ``ohmo.approvals.trust_cards.Places``."""

    deps: Deps

    def owner(self) -> Address | None:
        return self.deps.notices.owner_reached()

    def decides(self, place: Address, person: str) -> bool:
        channel, _, name = person.partition(":")
        standing = self.deps.access.standing(channel, place.account, name)
        return place.channel == channel != "house" and standing in TRUSTING

    async def folder(self, thread: str) -> Path:
        found = await self.deps.store.thread(thread)
        chosen = None if found is None else found.settings.workspace
        return Path(chosen or self.deps.config.workspace)

    async def tell(self, incident: str, text: str) -> object:
        return await self.deps.notices.tell(incident, text)


def build_trust(deps: Deps, agent: AgentParts) -> TrustOrders:
    """Reads nothing yet."""
    workspace = deps.config.workspace
    desk = agent.trust_desk(deps.store, workspace)
    kept = deps.config.home.state("trust") / "cards.json"
    new_id = deps.environment.new_id
    cards = TrustCards(
        desk,
        deps.store,
        CardPlaces(deps),
        kept,
        workspace=workspace,
        new_id=new_id,
        redact=Redactor(lambda: deps.config.vault.values).text,
    )
    return TrustOrders(cards, workspace)
