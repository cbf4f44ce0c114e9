"""Making a Feishu or Lark app: scopes to import, events to subscribe (open.feishu.cn, "Permission list" and "Event list")."""

from __future__ import annotations

import json

from channels.setup import Ask, Document, Setup

SCOPES = (
    "cardkit:card:write",  # streaming cards
    "contact:user.base:readonly",  # names
    *("im:chat:readonly", "im:message", "im:message.group_at_msg:readonly", "im:message.group_msg", "im:message.p2p_msg:readonly"),
    *("im:message.reactions:read", "im:message:send_as_bot", "im:message:update", "im:resource"),
)
EVENTS = ("im.message.receive_v1", "im.message.recalled_v1", "im.message.reaction.created_v1", "im.message.reaction.deleted_v1")
CALLBACKS = ("card.action.trigger",)


def scopes() -> str:
    """What *Permissions & Scopes*, *Batch import/export scopes* takes."""
    return json.dumps({"scopes": {"tenant": list(SCOPES), "user": []}}, indent=2) + "\n"


SETUP = Setup(
    steps=(
        "https://open.feishu.cn/app (Lark: https://open.larksuite.com/app) → Create Custom App",
        "Add Features → Bot → Add",
        "Permissions & Scopes → Batch import/export scopes → paste {feishu-scopes.json} → Next",
        "Events & Callbacks → Event Configuration → Subscription mode: Receive events through persistent connection (start ohmo first, the page looks for it)",
        f"Events & Callbacks → Add Events: {', '.join(EVENTS)}; Callback Configuration, same mode: {', '.join(CALLBACKS)}",
        "Version Management & Release → Create a version → Apply for release (an administrator approves)",
    ),
    asks=(
        Ask("app_id", "App ID (cli_…)", "open.feishu.cn/app, your app, Credentials & Basic Info", secret=True),
        Ask("app_secret", "App Secret", "open.feishu.cn/app, your app, Credentials & Basic Info", secret=True),
        Ask("domain", "Domain (https://open.larksuite.com for Lark)", "where your app was made", default="https://open.feishu.cn"),
    ),
    documents=(Document("feishu-scopes.json", lambda _: scopes()),),
    after=lambda _: ("In Feishu: search for the bot and write to it, or add it to a group and mention it",),
)
