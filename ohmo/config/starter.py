"""The first files of a home: a short ``config.yaml`` and the three pages the agent reads."""

from __future__ import annotations

CHANNELS = {  # a remark for each that init offers
    "slack": "socket mode",
    "discord": "message content intent on",
    "telegram": "@BotFather gives the token",
    "feishu": "Lark too: domain: https://open.larksuite.com",
    "matrix": "any homeserver",
    "web": "the chat in the browser",
}
HEAD = """\
# ohmo reads this file at start. Every key with its default: config.example.yaml; what it means: docs/configuration.md
# Check it with: ohmo config check
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
