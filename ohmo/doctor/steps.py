"""The platforms' own pages where a token is made: the exact place for each."""

from __future__ import annotations

_PAGES = {
    "slack": (
        "api.slack.com/apps, your app: OAuth & Permissions (xoxb-) and Basic Information, App-Level"
        " Tokens (xapp-, connections:write)"
    ),
    "discord": (
        "discord.com/developers/applications, your application, Bot: Reset Token; Message Content"
        " Intent on"
    ),
    "telegram": "@BotFather: /token shows it, /revoke makes a new one",
    "feishu": (
        "open.feishu.cn/app (open.larksuite.com/app), your app, Credentials & Basic Info: App ID"
        " and App Secret"
    ),
    "matrix": (
        "log the bot in once more (Element: Settings, Help & About, Access Token) and keep that"
        " device for ohmo alone"
    ),
}


def credentials(channel: str) -> str:
    """One line: where this platform's credentials come from."""
    return _PAGES.get(channel, f"put valid credentials under channels.{channel}")
