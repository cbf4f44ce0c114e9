"""What conversations and people are called on the dashboard.

A conversation: as a person named it, else how it begins. A person: as they were let in, else as the
platform named them when they last spoke."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
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
        names = await self._reports.names([one for one in spenders if one.account])
        for row in await self._people.people():
            if row.name:
                names[Spender(row.channel, row.account, row.person)] = row.name
        called = {one: names.get(one) or _only(one, names) for one in spenders}
        labels = _apart(called)
        return [
            (total, Named(labels[whose], _id(whose))) for whose, total in _together(people, totals)
        ]


def _spender(total: UsageTotal) -> Spender:
    """A job runs with the rights of ``CHANNEL:PERSON``, whatever the place of its thread."""
    channel, colon, person = total.person.partition(":")
    if colon and channel.isidentifier():  # "@ada:example.org" is an id of Matrix
        return Spender(channel, total.account if channel == total.channel else "", person)
    return (
        Spender("", "", total.person)
        if total.person in ("", _OWNER)
        else Spender(total.channel, total.account, total.person)
    )


def _together(
    people: Sequence[Spender], totals: Sequence[UsageTotal]
) -> list[tuple[Spender, UsageTotal]]:
    found: dict[tuple[str, str, Spender], UsageTotal] = {}
    for one, total in zip(people, totals, strict=True):
        here = replace(total, channel=one.channel, account=one.account, person=one.person)
        known = found.get(key := (total.day, total.model, one))
        found[key] = (
            here
            if known is None
            else replace(
                known, **{name: getattr(known, name) + getattr(here, name) for name in _NUMBERS}
            )
        )
    return [(one, total) for (_, _, one), total in found.items()]


def _at_home(people: Sequence[Spender]) -> list[Spender]:
    """Who is known to be of one account only is of that one everywhere."""
    accounts: dict[tuple[str, str], set[str]] = {}
    for one in people:
        accounts.setdefault((one.channel, one.person), set()).add(one.account)
    known = {
        key: "".join(found - {""}) for key, found in accounts.items() if len(found - {""}) == 1
    }
    return [
        Spender(one.channel, one.account or known.get((one.channel, one.person), ""), one.person)
        for one in people
    ]


def _only(one: Spender, names: Mapping[Spender, str]) -> str:
    """The name of somebody whose account is not known, when the id is that of one person only."""
    found = [
        name
        for other, name in names.items()
        if (other.channel, other.person) == (one.channel, one.person)
    ]
    return found[0] if len(found) == 1 and not one.account else ""


def _id(one: Spender) -> str:
    return f"{one.channel}:{one.person}" if one.channel else one.person


def _apart(called: Mapping[Spender, str]) -> dict[Spender, str]:
    """With the id where a name is not theirs alone or could be taken for the house or for such a
    label, and with the account where that is not enough either."""
    plain = {one: name or _id(one) or _HOUSE for one, name in called.items()}
    often = Counter(plain.values())
    told = {
        one: f"{name} ({_id(one)})"
        if called[one] and (often[name] > 1 or name in (_HOUSE, _OWNER) or ":" in name)
        else name
        for one, name in plain.items()
    }
    often = Counter(told.values())
    return {
        one: f"{label} in {one.account}" if one.account and often[label] > 1 else label
        for one, label in told.items()
    }
