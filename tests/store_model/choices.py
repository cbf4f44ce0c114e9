"""The model's threads: what was chosen for one."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from datetime import datetime

from ohmo.contracts.trust import Kind, Trust
from ohmo.contracts.turns import Checkpoint, ThreadSettings
from tests.store_model.tables import Model


class ModelChoices(Model):
    async def keep_checkpoint(self, row: Checkpoint) -> None:
        with self.transaction() as tables:
            tables.checkpoints.setdefault(row.id, row)

    async def checkpoints(self, thread: str | None = None) -> list[Checkpoint]:
        found = [one for one in self.tables.checkpoints.values() if thread in (None, one.thread)]
        return sorted(found, key=lambda one: (one.at, one.id))

    async def session_turns(self, thread: str) -> set[str]:
        row = self.tables.threads.get(thread)
        first: dict[str, int] = {}
        for (of, seq), logged in sorted(self.tables.steps.items()):
            if row is not None and of == thread and seq >= row.session_seq:
                first.setdefault(logged.turn, seq)
        holds = ThreadSettings().holds if row is None else row.settings.holds
        session = 0 if row is None else row.session_seq
        return {turn for turn, seq in first.items() if holds(session, seq)}

    async def drop_checkpoints(self, ids: Collection[str]) -> None:
        with self.transaction() as tables:
            tables.checkpoints = {
                key: one for key, one in tables.checkpoints.items() if key not in ids
            }

    async def trusted(self, kind: Kind, name: str, digest: str) -> bool:
        row = self.tables.trusts.get((kind, name, digest))
        return row is not None and row.revoked_at is None

    async def allow(self, kind: Kind, name: str, digest: str, person: str) -> None:
        if not await self.trusted(kind, name, digest):
            with self.transaction() as tables:
                key = (kind, name, digest)
                tables.trusts[key] = Trust(kind, name, digest, person, self.now)

    async def leave_off(self, kind: Kind, name: str, digest: str, person: str) -> None:
        if not await self.trusted(kind, name, digest):
            with self.transaction() as tables:
                row = Trust(kind, name, digest, person, self.now, self.now)
                tables.trusts[kind, name, digest] = row

    async def revoke(self, kind: Kind, name: str) -> int:
        with self.transaction() as tables:
            there = [
                key
                for key, row in tables.trusts.items()
                if key[:2] == (kind, name) and row.revoked_at is None
            ]
            for key in there:
                tables.trusts[key] = replace(tables.trusts[key], revoked_at=self.now)
        return len(there)

    async def trusts(self) -> list[Trust]:
        rows = sorted(self.tables.trusts.values(), key=lambda row: (row.kind, row.name, row.digest))
        return sorted(rows, key=lambda row: row.at, reverse=True)

    async def choose(self, thread: str, settings: ThreadSettings) -> bool:
        if (row := self.tables.threads.get(thread)) is None:
            return False
        with self.transaction():
            self.change(thread, settings=settings.over(row.settings))
            self.anything()
        return True

    async def end_free(self, thread: str, until: datetime) -> bool:
        row = self.tables.threads.get(thread)
        if row is None or row.settings.free_until != until:
            return False
        with self.transaction():
            self.change(thread, settings=replace(row.settings, mode=None, free_until=None))
            self.anything()
        return True
