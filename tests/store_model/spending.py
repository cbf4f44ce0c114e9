"""The model's books: who spent what, where, and what they are called."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import UTC, datetime, timedelta
from typing import Literal

from ohmo.contracts.messages import Usage
from ohmo.contracts.provider import Payer
from ohmo.contracts.reports import Share, Spender, ThreadTotal, TurnUsage, UsageTotal
from ohmo.contracts.spending import Scope, Total
from tests.store_model.tables import Model, Paid


class ModelSpending(Model):
    async def usage(self, *, days: int = 30, by_person: bool = False) -> list[UsageTotal]:
        def key(paid: Paid) -> tuple[str, str, str, str, str]:
            one = self._spender(paid) if by_person else Spender("", "", "")
            return paid.day, paid.usage.model, one.person, one.channel, one.account

        return [
            UsageTotal(
                *total, day=day, model=model, person=person, channel=channel, account=account
            )
            for (day, model, person, channel, account), total in sorted(
                self.spending(self._first_day(days), key).items()
            )
        ]

    async def usage_by(
        self, what: Literal["day", "purpose", "job"], *, days: int = 30
    ) -> list[Share]:
        def key(paid: Paid) -> str:
            return {"day": paid.day, "purpose": paid.usage.purpose, "job": paid.payer.job}[what]

        totals = self.spending(self._first_day(days), key)
        shares = [Share(*total, name=name) for name, total in sorted(totals.items())]
        if what == "day":
            return shares
        return sorted(shares, key=lambda share: (-share.micro_usd, -share.tokens))

    async def spend(self, payer: Payer, usage: Usage) -> None:
        with self.transaction():
            self.book(payer, usage)

    async def spent(self, payer: Payer) -> Mapping[Scope, Total]:
        today = self.now.date().isoformat()
        everything = list(self.tables.usage.values())
        borne: dict[Scope, list[Paid]] = {
            "turn": [
                paid
                for paid in everything
                if paid.payer.turn == payer.turn and payer.turn in self.tables.turns
            ],
            "thread": [
                paid for paid in everything if paid.payer.conversation == payer.conversation
            ],
            "person": [
                paid
                for paid in everything
                if (paid.payer.spender, paid.day) == (payer.spender, today)
            ],
            "job": [
                paid for paid in everything if (paid.payer.job, paid.day) == (payer.job, today)
            ],
            "day": [paid for paid in everything if paid.day == today],
        }
        return {
            scope: Total(
                sum(paid.usage.tokens for paid in rows),
                sum(paid.usage.micro_usd or 0 for paid in rows),
            )
            for scope, rows in borne.items()
            if scope == "day" or getattr(payer, scope)
        }

    async def names(self, wanted: Collection[Spender]) -> dict[Spender, str]:
        known = self.tables.speakers
        keys = {one: (one.channel, one.account, one.person) for one in wanted}
        return {one: known[key].name for one, key in keys.items() if key in known}

    async def thread_totals(self, *, days: int = 30, limit: int = 50) -> list[ThreadTotal]:
        totals = self.spending(self._first_day(days), lambda paid: paid.thread)
        found = [ThreadTotal(*total, thread=thread) for thread, total in totals.items()]
        return sorted(found, key=lambda one: (-one.micro_usd, -one.tokens, one.thread))[:limit]

    async def thread_usage(self, thread: str, *, since: datetime | None = None) -> list[TurnUsage]:
        first = "" if since is None else since.astimezone(UTC).date().isoformat()
        totals = self.spending(first, lambda paid: (paid.thread, paid.turn, paid.usage.model))
        return [
            TurnUsage(*total, turn=turn, model=model)
            for (where, turn, model), total in sorted(totals.items())
            if where == thread and turn
        ]

    def _spender(self, paid: Paid) -> Spender:
        thread = self.tables.threads.get(paid.thread)
        if thread is None:
            return Spender("", "", paid.person)
        place = thread.address
        return Spender(place.channel, place.account, paid.person)

    def _first_day(self, days: int) -> str:
        return (self.now.astimezone(UTC) - timedelta(days=days - 1)).date().isoformat()
