"""Making a Feishu or Lark app: the scopes to paste, the events to subscribe to, and where its id
and secret are."""

from __future__ import annotations

import json

from channels.feishu import FEISHU, LARK
from channels.registry import Ask, Document, Known, Setup

# Each scope with what needs it: "Scope list" of the Developer Console.
SCOPES = (
    "im:message",  # read and send messages, Get the content of a specified message
    "im:message:send_as_bot",  # Send message, Reply message
    "im:message:update",  # Update message card
    "im:message:recall",  # Recall message
    "im:message.p2p_msg:readonly",  # what people write to the bot
    "im:message.group_at_msg:readonly",  # what mentions it
    # what else is said in its groups: context, threads without a mention, catch-up
    "im:message.group_msg",
    "im:message:readonly",  # Get chat history
    "im:message.reactions:read",  # reactions
    "im:message.reactions:write_only",  # the typing reaction
    "im:resource",  # files both ways
    "im:chat:readonly",  # the groups it is in
    "cardkit:card:write",  # streaming cards
    "contact:user.base:readonly",  # names
)
EVENTS = (
    "im.message.receive_v1",
    "im.message.recalled_v1",
    "im.message.reaction.created_v1",
    "im.message.reaction.deleted_v1",
)


def scopes() -> str:
    """The JSON to paste under *Permissions & Scopes*, *Batch import/export scopes*."""
    return json.dumps({"scopes": {"tenant": list(SCOPES), "user": []}}, indent=2) + "\n"


def _after(known: Known) -> tuple[str, ...]:
    # the app's own page would name its id, which counts as a secret here
    console = f"{known.get('domain') or FEISHU}/app"
    return (
        (
            f"Start ohmo (the console looks for its connection), then in {console} → your app →"
            " Events & Callbacks: subscription mode *persistent connection*, in Event"
            " Configuration and in Callback Configuration"
        ),
        (
            f"Event Configuration: add {', '.join(EVENTS)}; Callback Configuration: add"
            " card.action.trigger (without it buttons answer 200340)"
        ),
        (
            "Version Management & Release → create a version and publish it (an administrator may"
            " have to approve): nothing before it counts"
        ),
        "In Feishu: find the bot by its name and write to it, or add it to a group and mention it",
    )


SETUP = Setup(
    steps=(
        f"{FEISHU}/app (Lark: {LARK}/app) → Create Custom App",
        "Add Features → Bot → Add",
        "Permissions & Scopes → Batch import/export scopes → paste {feishu-scopes.json} → Next",
        "Credentials & Basic Info → App ID begins with cli_, App Secret beside it",
    ),
    asks=(
        Ask(
            "app_id",
            "App ID (cli_…)",
            "Developer Console, your app, Credentials & Basic Info",
            secret=True,
        ),
        Ask(
            "app_secret",
            "App Secret",
            "Developer Console, your app, Credentials & Basic Info",
            secret=True,
        ),
        Ask(
            "domain",
            f"Domain ({FEISHU}, or {LARK} for Lark)",
            "the address of your Developer Console",
            default=FEISHU,
        ),
    ),
    documents=(Document("feishu-scopes.json", lambda _: scopes()),),
    after=_after,
)
