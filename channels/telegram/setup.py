"""Making a Telegram bot: what to say to @BotFather (core.telegram.org/bots/features,
"BotFather")."""

from __future__ import annotations

from channels.registry import Ask, Setup

SETUP = Setup(
    steps=(
        (
            "In Telegram open https://t.me/BotFather and send /newbot; choose a name and a user"
            " name that ends with bot; it answers with the token"
        ),
        (
            "For groups: /setprivacy → your bot → Disable, if it should see more than mentions,"
            " replies and commands; a group it is in already counts only after the bot was taken"
            " out and added again (core.telegram.org/bots/features#privacy-mode)"
        ),
        (
            "For groups: /setjoingroups → your bot → Enable; to hear reactions make the bot an"
            " administrator"
        ),
    ),
    asks=(Ask("token", "Bot token (123456:ABC-DEF…)", "@BotFather, /token", secret=True),),
    after=lambda _: ("In Telegram: open your bot (t.me/ and its user name) and press Start",),
)
