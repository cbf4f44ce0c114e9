"""What conversations and people are called on the dashboard.

A conversation: as a person named it, else how it begins. A person: as they were let in, else as the
platform named them when they last spoke."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import fields, replace

from channels.record import record
from ohmo.contracts.reports import Reports, Spender, Spent, ThreadInfo, UsageTotal
from ohmo.control.ports import People

_HOUSE, _OWNER = "ohmo itself", "owner"
_NUMBERS = [field.name for field in fields(Spent)]
NOTICES = "notices"  # the owner reads there what nobody asked for (ohmo/gateway/notices.py)


@record
class Named:
    """``who``: what tells these people apart, the name alone where that does. ``id``:
    ``CHANNEL:PERSON``, empty for the house."""

    who: str
    id: str


def title_of(info: ThreadInfo) -> str:
    """Empty while nothing was said."""
    place = info.address
    if info.title:
        return info.title
    if place.chat == NOTICES and place.channel in ("web", "house"):
        return "Notices"
    kind, colon, name = place.chat.partition(":")
    if place.channel == "house" and colon and kind in ("cron", "hook"):
        return name.partition(":")[0]  # where nobody sits: the job or the webhook that speaks there
    if place.channel == "web" and not info.beginning.words:
        return place.chat  # only reported into: as whoever sends reports there wrote it
    return info.beginning.words


class Names:
    """Of those who spent something."""

    def __init__(self, reports: Reports, people: People) -> None:
        self._reports = reports
        self._people = people

    async def of(self, totals: Sequence[UsageTotal]) -> list[tuple[UsageTotal, Named]]:
        """What one person spent in several places is one sum."""
        people = _at_home([_spender(total) for total in totals])
        spenders = dict.fromkeys(people)
        names = await self._reports.names([spender for spender in spenders if spender.account])
        for row in await self._people.people():
            if row.name:
                names[Spender(row.channel, row.account, row.person)] = row.name
        called: dict[Spender, str] = {}
        for spender in spenders:
            called[spender] = names.get(spender, "")
            if not called[spender] and not spender.account:
                # The account is not known: the name counts when the id is that of one person only.
                person = (spender.channel, spender.person)
                same = [
                    name for other, name in names.items() if (other.channel, other.person) == person
                ]
                called[spender] = same[0] if len(same) == 1 else ""
        # With the id where a name is not theirs alone or could be taken for the house or for such a
        # label, and with the account where that is not enough either.
        plain = {spender: name or _id(spender) or _HOUSE for spender, name in called.items()}
        often = Counter(plain.values())
        labels: dict[Spender, str] = {}
        for spender, name in plain.items():
            unclear = often[name] > 1 or name in (_HOUSE, _OWNER) or ":" in name
            labels[spender] = f"{name} ({_id(spender)})" if called[spender] and unclear else name
        often = Counter(labels.values())
        for spender, label in labels.items():
            if spender.account and often[label] > 1:
                labels[spender] = f"{label} in {spender.account}"
        sums: dict[tuple[str, str, Spender], UsageTotal] = {}
        for spender, total in zip(people, totals, strict=True):
            key = (total.day, total.model, spender)
            before = sums.get(key)
            numbers = {name: getattr(total, name) for name in _NUMBERS}
            if before is not None:
                numbers = {name: getattr(before, name) + numbers[name] for name in _NUMBERS}
            sums[key] = replace(
                total,
                channel=spender.channel,
                account=spender.account,
                person=spender.person,
                **numbers,
            )
        return [
            (total, Named(labels[spender], _id(spender))) for (_, _, spender), total in sums.items()
        ]


def _spender(total: UsageTotal) -> Spender:
    """A job runs with the rights of ``CHANNEL:PERSON``, whatever the place of its thread."""
    channel, colon, person = total.person.partition(":")
    if colon and channel.isidentifier():  # "@ada:example.org" is an id of Matrix
        return Spender(channel, total.account if channel == total.channel else "", person)
    if total.person in ("", _OWNER):
        return Spender("", "", total.person)
    return Spender(total.channel, total.account, total.person)


def _at_home(people: Sequence[Spender]) -> list[Spender]:
    """Who is known to be of one account only is of that one everywhere."""
    accounts: dict[tuple[str, str], set[str]] = {}
    for spender in people:
        known = accounts.setdefault((spender.channel, spender.person), set())
        if spender.account:
            known.add(spender.account)
    placed: list[Spender] = []
    for spender in people:
        known = accounts[spender.channel, spender.person]
        if not spender.account and len(known) == 1:
            placed.append(replace(spender, account=next(iter(known))))
        else:
            placed.append(spender)
    return placed


def _id(spender: Spender) -> str:
    return f"{spender.channel}:{spender.person}" if spender.channel else spender.person
