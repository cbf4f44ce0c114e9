"""Making a Matrix account and logging it in (spec.matrix.org, Client-Server API, "Login")."""

from __future__ import annotations

import json

from channels.registry import Ask, Document, Known, Setup


def login(known: Known) -> str:
    """The request that gives a token of a device of its own."""
    server = known.get("homeserver", "https://matrix.example.org").rstrip("/")
    name = known.get("user", "@ohmo:example.org").removeprefix("@").partition(":")[0]
    body = {
        "type": "m.login.password",
        "identifier": {"type": "m.id.user", "user": name},
        "password": "PASSWORD",
        "device_id": "OHMO",
        "initial_device_display_name": "ohmo",
    }
    return (
        f"curl -s {server}/_matrix/client/v3/login -d '{json.dumps(body)}'\n# the access_token of"
        " the answer belongs to the device OHMO: keep it for ohmo alone\n"
    )


SETUP = Setup(
    steps=(
        (
            "Register an account for the bot on your homeserver (Element → Create account, or its"
            " administrator makes one)"
        ),
        (
            "Log it in once for a device of its own: {matrix-login.sh}, with its password; take"
            " access_token from the answer"
        ),
    ),
    asks=(
        Ask(
            "homeserver",
            "Client address of the homeserver",
            "https://SERVER/.well-known/matrix/client, m.homeserver.base_url",
            default="https://matrix.org",
        ),
        Ask("user", "Full id of the account (@ohmo:example.org)", "Element, Settings, Account"),
        Ask(
            "access_token",
            "Access token",
            "the answer to the login, or Element, Settings, Help & About, Advanced",
            secret=True,
        ),
    ),
    documents=(Document("matrix-login.sh", login),),
    after=lambda known: (
        (
            "Rooms that Element makes for two are encrypted: write encryption: true below matrix in"
            " config.yaml for those"
        ),
        f"In Matrix: invite {known.get('user', 'the account')} into a room and say hello",
    ),
)
