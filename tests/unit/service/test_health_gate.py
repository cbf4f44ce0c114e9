"""A daemon whose upgrade was killed shows by itself whether it may stay."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping
from pathlib import Path

import pytest

from ohmo.service.health_gate import CONNECTED_WITHIN, Connection, Trial
from ohmo.service.rollback import SHOWN, Attempt
from ohmo.service.versions import Versions

UP, DOWN = Connection("connected"), Connection("reconnecting", "the platform cannot be reached")


class Stand:
    """A version on trial, and its daemon with these looks at its channels; the last one stays."""

    def __init__(self, folder: Path, *looks: Mapping[str, Connection]) -> None:
        self.home = folder / "home"
        (self.home / "run").mkdir(parents=True)
        self.versions = Versions(folder / "environment")
        self.versions.base.mkdir()
        self.owned = self.versions.own()
        kept, aside = str(self.home / "kept"), str(self.home / "aside")
        attempt = Attempt("new", "", str(self.home), kept, aside, ["slack", "web"])
        attempt.write(self.versions.trial)
        self._looks = list(looks)
        self.time = 0.0
        self.told = list[str]()
        self.shown_at_last = asyncio.Event()
        self.returns = True

    def let_go(self) -> None:
        """Whoever upgrades is killed."""
        assert self.owned is not None
        os.close(self.owned)

    def channels(self) -> Mapping[str, Connection]:
        return self._looks.pop(0) if len(self._looks) > 1 else self._looks[0]

    async def tell(self, line: str) -> None:
        self.told.append(line)
        self.shown_at_last.set()

    async def sleep(self, seconds: float) -> None:
        self.time += seconds
        if self.time == 3.0 and self.owned is not None:
            self.let_go()
        await asyncio.sleep(0)

    def trial(self, home: Path | None = None) -> Trial:
        return Trial(
            self.versions,
            home or self.home,
            self.channels,
            self.tell,
            lambda: self.returns,
            lambda: self.time,
            self.sleep,
        )


async def test_it_stays_when_every_channel_is_connected_again(tmp_path: Path) -> None:
    stand = Stand(
        tmp_path, {}, {"slack": DOWN, "web": UP}, {"slack": UP, "web": UP, "matrix": DOWN}
    )
    failed = asyncio.create_task(stand.trial().failed())
    await asyncio.wait_for(stand.shown_at_last.wait(), 20)
    assert "it stays" in stand.told[0]
    assert stand.time == 5.0  # three seconds watched by whoever upgraded, two looks of its own
    assert not stand.versions.trial.exists()
    assert not (stand.home / "run" / SHOWN).exists()
    assert not failed.done()
    failed.cancel()


@pytest.mark.parametrize(
    ("look", "waited"),
    [
        ({"slack": DOWN, "web": UP}, CONNECTED_WITHIN),
        ({"slack": Connection("failed", "KeyError"), "web": UP}, 0.0),
        ({"web": UP}, 0.0),
    ],
)
async def test_it_gives_way_when_one_does_not_come_back(
    tmp_path: Path, look: Mapping[str, Connection], waited: float
) -> None:
    stand = Stand(tmp_path, look)
    assert "slack was connected before and is not now" in await asyncio.wait_for(
        stand.trial().failed(), 20
    )
    assert stand.time == 3.0 + waited
    assert stand.versions.trial.exists()  # the next start takes it back
    assert "The version of before comes back now" in stand.told[0]


async def test_a_daemon_of_another_home_and_one_that_nobody_upgrades_show_nothing(
    tmp_path: Path,
) -> None:
    stand = Stand(tmp_path, {})
    stand.let_go()
    stand.owned = None
    for trial in (
        stand.trial(tmp_path / "other"),
        Trial(Versions(tmp_path / "nothing"), stand.home, dict, stand.tell, lambda: True),
    ):
        failed = asyncio.create_task(trial.failed())
        _, waits = await asyncio.wait([failed], timeout=0.2)
        assert waits
        failed.cancel()
    assert stand.told == []


async def test_it_stays_up_and_says_what_to_do_when_nobody_here_may_put_the_old_version_back(
    tmp_path: Path,
) -> None:
    stand = Stand(tmp_path, {"slack": Connection("failed", "KeyError"), "web": UP})
    stand.returns = False
    failed = asyncio.create_task(stand.trial().failed())
    await asyncio.wait_for(stand.shown_at_last.wait(), 20)
    _, waits = await asyncio.wait([failed], timeout=0.2)
    assert waits
    failed.cancel()
    assert len(stand.told) == 1
    assert "-m ohmo.service.rollback` as that user" in stand.told[0]


@pytest.mark.parametrize("damage", ["cut", "folder", "other words"])
async def test_a_damaged_record_of_a_trial_ends_nothing(tmp_path: Path, damage: str) -> None:
    stand = Stand(tmp_path, {"slack": UP, "web": UP})
    journal = stand.versions.trial
    whole = journal.read_text()
    journal.unlink()
    if damage == "folder":
        journal.mkdir()
    else:
        journal.write_text(whole[:20] if damage == "cut" else "{}")
    stand.let_go()
    stand.owned = None
    failed = asyncio.create_task(stand.trial().failed())
    _, waits = await asyncio.wait([failed], timeout=0.2)
    assert waits
    failed.cancel()
    assert stand.told == []
