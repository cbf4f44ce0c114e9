"""What can be typed behind a slash in a conversation: the commands, and what may stand behind
each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache

from ohmo.cli.client import Client
from ohmo.contracts.errors import OhmoError

_ARGUMENTS = {
    "approve": ("session", "workspace", "always"),
    "mode": ("default", "plan", "full_auto"),
    "cron": ("history", "pause", "resume", "remove"),
    "permissions": ("revoke",),
}


@cache
def commands() -> Mapping[str, str]:
    """Name and summary, of the house and of this keyboard, in order of use. Brings the commands'
    rooms, so only when somebody types a slash."""
    from ohmo.commands.contract import listed
    from ohmo.discovery import scan

    known = {
        name: f"{one.usage} {one.summary}".strip()
        for name, one in listed(scan("ohmo.commands", "COMMAND")).items()
    }
    return known | {"exit": "leave; the daemon goes on"}


class Arguments:
    """Asks the daemon for what only it knows; one that does not answer completes nothing."""

    def __init__(self, client: Client) -> None:
        self._client = client

    def __call__(self, name: str, words: str) -> Sequence[str]:
        """Everything that may stand behind ``/name``, where ``words`` stand now."""
        verb, space, _ = words.partition(" ")
        try:
            if name == "model":
                return (*self._client.get("/api/v1/status")["models"], "default")
            if name == "cron" and space and verb in _ARGUMENTS["cron"]:
                return [f"{verb} {job['name']}" for job in self._client.get("/api/v1/cron")["jobs"]]
            if name == "permissions" and space and verb == "revoke":
                return [
                    f"{verb} {grant['id']}"
                    for grant in self._client.get("/api/v1/permissions")["permissions"]
                ]
        except OhmoError:
            return ()
        return _ARGUMENTS.get(name, ())
