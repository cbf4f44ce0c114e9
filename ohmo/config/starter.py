"""The first files of a home: a short ``config.yaml`` and the three pages the agent reads."""

from __future__ import annotations

from collections.abc import Collection

_CHANNELS = {
    "slack": "slack:\n    enabled: {on}        # socket mode\n    bot_token: env:SLACK_BOT_TOKEN\n    app_token: env:SLACK_APP_TOKEN",
    "telegram": "telegram:\n    enabled: {on}        # @BotFather gives the token\n    token: env:TELEGRAM_TOKEN",
    "matrix": 'matrix:\n    enabled: {on}\n    homeserver: https://matrix.org\n    user: "@ohmo:matrix.org"\n    access_token: env:MATRIX_TOKEN',
    "web": "web:\n    enabled: {on}        # the chat in the browser",
}
CHANNELS = tuple(_CHANNELS)
_CONFIG = """\
# ohmo reads this file at start. Every key with its default: config.example.yaml; what it means: docs/configuration.md
# Check it with: ohmo config check
profiles:
  default:
    provider: {provider}        # auto | anthropic | openai | offline
permissions:
  preset: {preset}        # safe | balanced | full
owner: [{owner}]        # who hears of trouble, for example slack:U123
channels:
{channels}
"""
SOUL = """\
# Who you are

You are ohmo, a personal agent. You are calm, exact and brief. You say what you did, what you did not do, and what you are not sure of.
You ask before you do what cannot be undone.
"""
USER = """\
# Who you work for

Write here what the agent should know about you: name, time zone, languages, how you like to be answered.
"""
AGENTS = """\
# How to work here

Write here the rules of your projects and machines: what may be touched, what may not, how to test, whom to tell.
"""


def config(*, provider: str = "auto", preset: str = "balanced", owner: str = "", enabled: Collection[str] = ("web",)) -> str:
    """The text of a first ``config.yaml``."""
    blocks = ["  " + body.format(on="true" if name in enabled else "false") for name, body in _CHANNELS.items()]
    return _CONFIG.format(provider=provider, preset=preset, owner=f'"{owner}"' if owner else "", channels="\n".join(blocks))
