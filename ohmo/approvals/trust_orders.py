"""``/trust``: what waits and what is trusted, allowed or taken back in words; the same desk as at
the keyboard, and the same cards as the buttons."""

from __future__ import annotations

import re
from pathlib import Path
from typing import cast, get_args

from channels.text import code_span, literal
from ohmo.approvals.trust_cards import TrustCards
from ohmo.approvals.trust_wording import Card, titled
from ohmo.approvals.trusting import NothingToTrust
from ohmo.commands.contract import Order
from ohmo.content import one_line
from ohmo.contracts.trust import Candidate, Kind, Trust

_DIGEST = re.compile(r"[0-9a-f]{8,64}")
_MOST = 30  # that are listed
_CONTENTS = 3  # of one that are
_SINGLE = ("plugin", "skill")  # of which a title names one
_USAGE = (
    "Say `/trust`, or `/trust allow`, `/trust leave` or `/trust revoke` with the KIND and NAME of"
    " what you mean."
)


class TrustOrders:
    """``workspace``: where turns work for whom nobody chose another folder."""

    def __init__(self, cards: TrustCards, workspace: Path) -> None:
        self.cards = cards
        self._workspace = workspace

    async def __call__(self, order: Order) -> str:
        verb, _, rest = order.argument.partition(" ")
        match verb.lower():
            case "":
                return await self._listed(order)
            case "allow" | "leave" if not rest.strip():
                return await self._of_card(order, allow=verb.lower() == "allow")
            case "allow" | "leave" as word:
                return await self._decided(order, *_named(rest), allow=word == "allow")
            case "revoke" if rest.strip():
                return await self._revoked(*_named(rest)[:2])
            case _:
                return _USAGE

    def _folder(self, order: Order) -> Path:
        return Path(order.settings.workspace or self._workspace)

    async def _listed(self, order: Order) -> str:
        desk, plain = self.cards.desk, self.cards.plain
        lines: list[str] = []
        for one in (await desk.waiting(self._folder(order)))[:_MOST]:
            title = titled(one.kind, one.name)
            single = one.kind in _SINGLE
            if one.broken:
                does = "does" if single else "do"
                lines.append(f"- {title} {does} not count: {literal(plain(one.broken))}")
            else:
                wait = "waits: it" if single else "wait; what is there"
                lines.append(f"- {title} {wait} {literal(plain(one.may))}. {_how(one)}")
        trusted: dict[tuple[Kind, str], list[Trust]] = {}
        for row in await desk.trusts():
            if row.revoked_at is None:
                trusted.setdefault((row.kind, row.name), []).append(row)
        for (kind, name), rows in list(trusted.items())[:_MOST]:
            how = code_span(f"/trust revoke {kind} {name}")
            title, verb = titled(kind, name), "is" if kind in _SINGLE else "are"
            contents = " or ".join(f"`{row.digest[:12]}`" for row in rows[:_CONTENTS])
            more = f" or {len(rows) - _CONTENTS} others" if len(rows) > _CONTENTS else ""
            by = literal(", ".join(dict.fromkeys(row.person for row in rows)))
            lines.append(f"- {title} {verb} trusted, content {contents}{more}, by {by}. {how}")
        return "\n".join(lines) or "Nothing waits to be trusted here, and nothing was."

    async def _of_card(self, order: Order, *, allow: bool) -> str:
        """The one they reply to, or the only one here."""
        cards = [] if order.said is None else await self.cards.meant(order.said)
        if not cards:
            return "No card of trust stands open here. `/trust` shows what waits."
        if len(cards) > 1:
            names = ", ".join(titled(card.kind, card.name) for card in cards)
            return (
                f"Several things wait here: {names}. Reply to the card of the one you mean, or say"
                " its name."
            )
        return await self._answered(order, cards[0], allow=allow)

    async def _answered(self, order: Order, card: Card, *, allow: bool) -> str:
        who = f"{order.address.channel}:{order.person}"
        name = order.person
        if order.said is not None:
            name = order.said.person.name or name
        done, text = await self.cards.answer(card.id, who, name, allow=allow)
        return f"{text}: {titled(card.kind, card.name)}." if done else text

    async def _decided(
        self, order: Order, kind: Kind | None, name: str, digest: str, *, allow: bool
    ) -> str:
        """Of something by its name: what its card showed, or the content that is named."""
        desk, folder = self.cards.desk, self._folder(order)
        fitting = [
            one
            for one in await desk.waiting(folder)
            if one.name == name and kind in (None, one.kind) and one.digest.startswith(digest)
        ]
        if len(fitting) != 1:
            there = "; ".join(map(_how, fitting)) or "`/trust` shows what waits and what is trusted"
            which = "Several things of" if fitting else "Nothing of"
            return f"{which} that name and content: {there}."
        (one,) = fitting
        title = titled(one.kind, one.name)
        if one.broken:
            return f"{title}: {literal(self.cards.plain(one.broken))}."
        card = await self.cards.seen(one, order.said)
        if card is not None:
            return await self._answered(order, card, allow=allow)
        if not digest:  # nobody was shown it
            return f"Look at {title} first:\n\n{self.cards.facts(one)}\n\n{_how(one)}"
        who = f"{order.address.channel}:{order.person}"
        if not allow:
            await desk.leave_off(one.kind, one.name, one.digest, who)
            return f"Left off: {title}."
        try:
            await desk.allow(one.kind, one.name, who, folder=folder, digest=one.digest)
        except NothingToTrust as error:
            return literal(self.cards.plain(f"{error}."))
        return f"Trusted: {title}."

    async def _revoked(self, kind: Kind | None, name: str) -> str:
        kinds: set[Kind] = {
            row.kind
            for row in await self.cards.desk.trusts()
            if row.name == name and kind in (None, row.kind) and row.revoked_at is None
        }
        if not kinds and kind == "mcp" and not name.startswith("/"):
            return (
                f"Approved tools of {code_span(name)} are not revoked: take the server out of `mcp`"
                " in config.yaml, or revoke the plugin or project that brings it."
            )
        if len(kinds) != 1:
            which = (
                f"name its kind too: {', '.join(sorted(kinds))}" if kinds else "it is not trusted"
            )
            return f"{code_span(name)}: {which}. `/trust` shows what is."
        (found,) = kinds
        await self.cards.desk.revoke(found, name)
        return f"Revoked: {titled(found, name)} takes no part any more."


def _how(one: Candidate) -> str:
    return code_span(f"/trust allow {one.kind} {one_line(one.name)} {one.digest[:12]}")


def _named(words: str) -> tuple[Kind | None, str, str]:
    """Kind, name and how the content begins, of which only the name has to be said."""
    rest, kind, digest = words.strip(), None, ""
    first, _, more = rest.partition(" ")
    if first in get_args(Kind) and more.strip():
        kind, rest = cast("Kind", first), more.strip()
    before, _, last = rest.rpartition(" ")
    if before.strip() and _DIGEST.fullmatch(last):
        rest, digest = before.strip(), last
    return kind, rest, digest
