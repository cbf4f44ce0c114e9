"""``/permissions``: what was allowed for longer than once."""

from __future__ import annotations

from channels.text import code_span, literal
from ohmo.approvals.answering import remembered_by
from ohmo.commands.contract import Order
from ohmo.contracts.store import Store


async def permissions_in_words(store: Store, order: Order) -> str:
    """Owner and admin see everybody's."""
    everything = order.standing in ("owner", "admin")
    person = "" if everything else f"{order.address.channel}:{order.person}"
    grants = await remembered_by(store, person)
    verb, _, number = order.argument.partition(" ")
    number = number.strip()
    if verb == "revoke" and number:
        theirs = any(grant.id == number for grant in grants)
        if theirs and await store.revoke_grant(number):
            return "Revoked: it asks again."
        return "There is no such permission."
    if verb:
        return "Say `/permissions`, or `/permissions revoke ID`."
    lines: list[str] = []
    for grant in grants:
        whose = f" (for {literal(grant.person)})" if everything else ""
        until = "always" if grant.until == "always" else "for its session"
        lines.append(
            f"- {code_span(grant.rule)}: {literal(grant.means)}, {until}{whose}."
            f" `/permissions revoke {grant.id}`"
        )
    return "\n".join(lines) if lines else "Nothing was allowed for longer than once."
