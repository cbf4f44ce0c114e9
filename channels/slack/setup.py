"""Making a Slack app: the manifest (docs.slack.dev, "App manifest reference") and where its two
tokens are."""

from __future__ import annotations

from channels.registry import Ask, Document, Setup

# Each scope with the method or event that needs it: docs.slack.dev/reference/scopes
SCOPES = (
    "app_mentions:read",  # app_mention
    "assistant:write",  # assistant.threads.setStatus
    *(
        "channels:history",
        "channels:read",
        "groups:history",
        "groups:read",
        "im:history",
        "im:read",
        "mpim:history",
        "mpim:read",
    ),
    "chat:write",  # chat.postMessage
    "commands",  # /ohmo
    *("files:read", "files:write"),  # attachments both ways
    "im:write",  # conversations.open
    "reactions:read",  # reaction_added
    "users:read",  # names
)
EVENTS = (
    *(
        "app_home_opened",
        "app_mention",
        "assistant_thread_context_changed",
        "assistant_thread_started",
    ),
    *(
        "message.channels",
        "message.groups",
        "message.im",
        "message.mpim",
        "reaction_added",
        "reaction_removed",
    ),
)


def manifest() -> str:
    """The YAML to paste under *Create New App*, *From a manifest*."""
    lines = "\n".join
    return f"""\
display_information:
  name: ohmo
  description: A personal agent that is always on
features:
  app_home:
    home_tab_enabled: true
    messages_tab_enabled: true
    messages_tab_read_only_enabled: false
  assistant_view:
    assistant_description: A personal agent that is always on
    suggested_prompts: []
  bot_user:
    display_name: ohmo
    always_online: true
  slash_commands:
    - command: /ohmo
      description: stop, new, status, help
      usage_hint: "stop | new | status | help"
      should_escape: false
oauth_config:
  scopes:
    bot:
{lines(f"      - {scope}" for scope in SCOPES)}
settings:
  event_subscriptions:
    bot_events:
{lines(f"      - {event}" for event in EVENTS)}
  interactivity:
    is_enabled: true
  org_deploy_enabled: false
  socket_mode_enabled: true
  token_rotation_enabled: false
"""


SETUP = Setup(
    steps=(
        (
            "https://api.slack.com/apps → Create New App → From a manifest → your workspace → paste"
            " {slack-manifest.yaml} → Create"
        ),
        (
            "Basic Information → App-Level Tokens → Generate Token and Scopes → scope"
            " connections:write → the token begins with xapp-"
        ),
        "Install App → Install to your workspace → the Bot User OAuth Token begins with xoxb-",
    ),
    asks=(
        Ask(
            "bot_token",
            "Bot User OAuth Token (xoxb-…)",
            "api.slack.com/apps, your app, OAuth & Permissions",
            secret=True,
        ),
        Ask(
            "app_token",
            "App-level token (xapp-…)",
            "api.slack.com/apps, your app, Basic Information, App-Level Tokens",
            secret=True,
        ),
    ),
    documents=(Document("slack-manifest.yaml", lambda _: manifest()),),
    after=lambda _: (
        "In Slack: write the app a direct message, or /invite @ohmo into a channel and mention it",
    ),
)
