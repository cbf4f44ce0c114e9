"""A home from when libolm kept the keys of its Matrix device, under today's daemon: the same device
for the homeserver, and the one-to-one session with Ada's device goes on. What the home holds:
tests/unit/channels/matrix/before_vodozemac."""

from __future__ import annotations

import json
import shutil
import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from channels.matrix.device import Device
from channels.matrix.keystore import KeyStore
from tests import warm
from tests.faults.scene import scene
from tests.platforms.matrix.rig import MatrixRig, encrypted_rig
from tests.platforms.matrix.synapse import Account

if TYPE_CHECKING:
    from tests.platforms.matrix.person import Person

pytestmark = [pytest.mark.needs("synapse"), pytest.mark.needs("libolm")]
BEFORE = Path(__file__).parents[1] / "unit" / "channels" / "matrix" / "before_vodozemac"
TOLD: dict[str, Any] = json.loads((BEFORE / "told.json").read_text())


def _keys(folder: Path) -> Path:
    folder.mkdir(mode=0o700, parents=True)
    for name in ("BOT.db", "pickle.key"):
        shutil.copy(BEFORE / name, folder / name)
        (folder / name).chmod(0o600)
    return folder


async def _signed_in(rig: MatrixRig, account: Account, device: str) -> Account:
    user = {"type": "m.id.user", "user": account.user}
    content = {
        "type": "m.login.password",
        "identifier": user,
        "password": account.password,
        "device_id": device,
    }
    made = await rig.call("ada", "POST", "/login", content)
    return replace(account, token=made["access_token"], device=device)


async def _before(rig: MatrixRig, folder: Path) -> Person:
    """The bot is signed in as the device of the old home, whose keys the homeserver has; Ada's
    client is where it was then."""
    rig.bot = await _signed_in(rig, rig.bot, "BOT")
    with closing(KeyStore.open(_keys(folder), "BOT")) as store:
        identity = Device(store, rig.bot.user, "BOT").identity()
    await rig.call("bot", "POST", "/keys/upload", {"device_keys": identity})
    rig.people["ada"] = await _signed_in(rig, rig.people["ada"], "ADA")
    from tests.platforms.matrix.person import Person

    ada = Person(rig.synapse.url, rig.people["ada"])
    await ada.was(**TOLD["ada"], curve=TOLD["curve"])
    await ada.open()
    rig.clients["ada"] = ada
    return ada


async def test_a_home_from_before_is_the_same_device_and_goes_on_with_the_sessions_it_had(
    home: Path, work: Path, tmp_path: Path
) -> None:
    async with scene(home, {"matrix": encrypted_rig}, start=warm.start) as room:
        rig: MatrixRig = room.rigs["matrix"]
        ada = await _before(rig, tmp_path / "what the homeserver knew")
        keys = _keys(home / "state" / "matrix" / "keys")
        config = json.loads((home / "config.yaml").read_text())
        config["channels"]["matrix"]["access_token"] = rig.bot.token
        (home / "config.yaml").write_text(json.dumps(config))
        await room.daemon.start()
        await room.says("over the session there was", on="matrix")
        await room.answered()
        assert len(await ada.keys.get_sessions(TOLD["curve"])) == 1, (
            "another session was begun: the old one was of no use"
        )
        found = await rig.call(
            "ada", "POST", "/keys/query", {"device_keys": {rig.bot.user: ["BOT"]}}
        )
        assert found["device_keys"][rig.bot.user]["BOT"]["keys"] == {
            "curve25519:BOT": TOLD["curve"],
            "ed25519:BOT": TOLD["ed"],
        }
        assert "is new to the homeserver" not in room.daemon.said
        with closing(sqlite3.connect(keys / "BOT.db")) as store:
            assert store.execute("PRAGMA user_version").fetchone() == (2,)
        await room.daemon.kill()
        await room.says("and after another restart", on="matrix")
        await room.daemon.start()
        await room.check()
