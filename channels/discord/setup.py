"""Making a Discord application: where its token is, which intents it needs, and the link that
invites it (docs.discord.com, "OAuth2" and "Permissions")."""

from __future__ import annotations

import base64
import binascii

from channels.registry import Ask, Document, Known, Setup

# Bits of docs.discord.com/developers/topics/permissions
PERMISSIONS = {
    "ADD_REACTIONS": 1 << 6,
    "VIEW_CHANNEL": 1 << 10,
    "SEND_MESSAGES": 1 << 11,
    "EMBED_LINKS": 1 << 14,
    "ATTACH_FILES": 1 << 15,
    "READ_MESSAGE_HISTORY": 1 << 16,
    "USE_APPLICATION_COMMANDS": 1 << 31,
    "CREATE_PUBLIC_THREADS": 1 << 35,
    "SEND_MESSAGES_IN_THREADS": 1 << 38,
}


def application(token: str) -> str | None:
    """The application's id, which is the first part of its bot's token."""
    head = token.partition(".")[0]
    try:
        number = base64.b64decode(
            head + "=" * (-len(head) % 4), altchars=b"-_", validate=True
        ).decode("ascii")
    except (binascii.Error, ValueError):
        return None
    return number if number.isdigit() else None


def invite(known: Known) -> str:
    """The link that adds the bot to a server with exactly the rights it uses."""
    client = application(known.get("token", "")) or "APPLICATION_ID"
    return f"https://discord.com/oauth2/authorize?client_id={client}&scope=bot+applications.commands&permissions={sum(PERMISSIONS.values())}"


SETUP = Setup(
    steps=(
        "https://discord.com/developers/applications → New Application → name it",
        (
            "Bot → Privileged Gateway Intents → Message Content Intent: on (without it messages in"
            " servers arrive empty)"
        ),
        "Bot → Reset Token → copy the token; it is shown once",
    ),
    asks=(
        Ask(
            "token",
            "Bot token",
            "discord.com/developers/applications, your application, Bot, Reset Token",
            secret=True,
        ),
    ),
    documents=(Document("discord-invite.txt", lambda known: invite(known) + "\n"),),
    after=lambda known: (
        f"Invite it: {invite(known)}",
        "In Discord: write it a direct message, or mention it in a channel",
    ),
)
