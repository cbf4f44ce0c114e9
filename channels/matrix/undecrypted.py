"""Encrypted messages whose key has not arrived: kept on disk, read when it comes, and spoken of
when it does not."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from datetime import datetime, timedelta

from channels.matrix.inbound import Event
from channels.matrix.keystore import KeyStore, Waiting

PATIENCE = timedelta(seconds=60)  # before a person hears that a message cannot be read
KEPT = timedelta(days=7)  # a key that comes later finds nothing any more


class Undecrypted:
    """Each method is one transaction. ``clock`` gives UTC."""

    def __init__(self, store: KeyStore, clock: Callable[[], datetime]) -> None:
        self._store = store
        self._clock = clock

    def keep(self, room: str, event: Event, session: str, place: str) -> None:
        """On disk when this returns, so that the sync's position may be saved. ``place``: the
        number its arrival shall have."""
        waiting = Waiting(
            str(event["event_id"]),
            room,
            session,
            str(event.get("sender")),
            place,
            json.dumps(dict(event)),
            self._now(),
        )
        with self._store.whole():
            self._store.wait_for(waiting)

    def ready(self, sessions: Iterable[str] | None) -> list[Waiting]:
        """What waits for these sessions, in the order it was said; None: everything."""
        with self._store.whole():
            if sessions is None:
                return self._store.waiting()
            return sorted(
                (one for session in sessions for one in self._store.waiting(session)),
                key=lambda one: one.place,
            )

    def overdue(self) -> list[tuple[Waiting, str]]:
        """What nobody has heard of yet and should, each with the reason; what is too old is
        forgotten."""
        now = self._now()
        with self._store.whole():
            waiting = self._store.waiting()
            self._store.no_longer_waiting(
                [one.event for one in waiting if one.told and now - one.at > _milliseconds(KEPT)]
            )
            late = [
                one for one in waiting if not one.told and now - one.at >= _milliseconds(PATIENCE)
            ]
            for one in late:
                self._store.told(one.event)
            return [(one, self._store.withheld(one.session)) for one in late]

    def done(self, events: Iterable[str]) -> None:
        with self._store.whole():
            self._store.no_longer_waiting(events)

    def _now(self) -> int:
        return int(self._clock().timestamp() * 1000)


def _milliseconds(span: timedelta) -> int:
    return int(span.total_seconds() * 1000)
