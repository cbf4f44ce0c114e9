"""Who we are for the homeserver: the token of the configuration, or one device of our own, made
with the password once and kept.

Source: Matrix Client-Server API, "Login" (``device_id``), "Soft logout"."""

from __future__ import annotations

import json
import logging
import secrets
from pathlib import Path

from channels.durable import write_whole
from channels.errors import AuthFailed
from channels.matrix import MatrixSettings
from channels.matrix.client import MatrixClient
from channels.matrix.client_wire import SignedOut
from channels.matrix.keystore_file import private
from channels.record import record

DEVICE = "OHMO"
log = logging.getLogger("channels.matrix")


@record
class Kept:
    """What ``session.json`` holds: the device is written before the first login, so that a crash
    makes no second one."""

    device: str
    token: str = ""

    @classmethod
    def read(cls, path: Path, whose: str) -> Kept | None:
        """None: nothing is kept for this account. Raises AuthFailed: others can read the file, or
        nobody can."""
        if not path.exists():
            return None
        private(path)
        try:
            saved = json.loads(path.read_text())
            return (
                cls(str(saved["device"]), str(saved["token"])) if saved["whose"] == whose else None
            )
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise AuthFailed(
                f"{path} is damaged: put it back from a backup, or move it away to log in as a new"
                " device"
            ) from error

    def write(self, path: Path, whose: str) -> None:
        try:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            write_whole(
                path, json.dumps({"whose": whose, "device": self.device, "token": self.token})
            )
        except OSError as error:
            raise AuthFailed(
                f"{path} cannot be written ({error.strerror}); it holds the device we are logged"
                " in as"
            ) from error


async def sign_in(
    client: MatrixClient, settings: MatrixSettings, folder: Path | None
) -> tuple[str, str]:
    """User and device. Raises ChannelError. ``folder`` None: a new device, which nobody keeps;
    ``logout`` when done with it."""
    if settings.access_token:
        return await client.whoami()
    password = settings.password or ""
    if folder is None:
        await client.login(settings.user, password, f"{DEVICE}{secrets.token_hex(4).upper()}")
        return await client.whoami()
    path, whose = folder / "session.json", f"{settings.user} at {settings.homeserver}"
    kept = Kept.read(path, whose)
    if kept is None:
        # A device has one set of keys for ever, so one that encrypts gets a name nobody ever used.
        kept = Kept(f"{DEVICE}{secrets.token_hex(4).upper()}" if settings.encryption else DEVICE)
        kept.write(path, whose)
    if kept.token:
        client.use(kept.token)
        try:
            return await client.whoami()
        except SignedOut as out:
            log.warning(
                "%s: the device %s was signed out%s; logging in again",
                settings.user,
                kept.device,
                " softly" if out.soft else "",
            )
    await client.login(settings.user, password, kept.device)
    found = await client.whoami()
    Kept(kept.device, client.token).write(path, whose)
    return found
