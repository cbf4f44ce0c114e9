"""Slack through Socket Mode and the Web API; this cover imports no SDK."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from channels.contract import Manifest


def _starts_with(prefix: str, where: str) -> AfterValidator:
    def check(token: str) -> str:
        token = token.strip()
        if not token.startswith(prefix):
            raise ValueError(
                f"is not such a token: it starts with {prefix}, see api.slack.com/apps, your app,"
                f" {where}"
            )
        return token

    return AfterValidator(check)


def _http(url: str) -> str:
    if not url.startswith(("https://", "http://")):
        raise ValueError("is not a web address; leave it out to speak to Slack itself")
    return url if url.endswith("/") else url + "/"


class Settings(BaseModel):
    """What stands under ``channels.slack``."""

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)

    bot_token: Annotated[str, _starts_with("xoxb-", "OAuth & Permissions")] = Field(repr=False)
    app_token: Annotated[str, _starts_with("xapp-", "Basic Information, App-Level Tokens")] = Field(
        repr=False
    )
    api_url: Annotated[str, AfterValidator(_http)] = "https://slack.com/api/"


MANIFEST = Manifest(
    name="slack",
    title="Slack",
    settings=Settings,
    adapter="channels.slack.adapter:Slack",
    extra="slack",
    secrets=("bot_token", "app_token"),
)
