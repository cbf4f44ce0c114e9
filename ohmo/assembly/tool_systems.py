"""From the configuration to the systems that tools speak to; what is not configured is not
there."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from functools import cache
from typing import cast

from channels.contract import Manifest
from channels.registry import discover
from ohmo.config.load import Config
from ohmo.contracts.messages import Image, Text, UserStep
from ohmo.contracts.provider import AskOnce, ModelRequest, Payer, Section
from ohmo.discovery import load
from ohmo.providers.models import sees
from ohmo.tools.systems import ImageService, OtherHouse, SearchService, See, Settings, Systems

_SEARCHED = {"brave": "https://api.search.brave.com", "tavily": "https://api.tavily.com"}
_OPENAI = "https://api.openai.com/v1"
_LOOK = Section("role", "You look at one picture and answer one question about it, shortly.")
_ANSWER = 1_000  # tokens
_Make = Callable[[Config, Mapping[str, str], Mapping[str, Manifest]], Settings]


def systems_of(config: Config, models: tuple[str, ...], ask: AskOnce) -> Systems:
    """``models``: of the profile, small to large. Raises SecretMissing: a secret that was there
    when the configuration was read is gone."""
    remotes = {
        name: OtherHouse(house.url, config.vault.reveal(house.secret))
        for name, house in config.written.remotes.items()
    }
    search: SearchService | None = None
    wanted = config.web_search
    if wanted.provider is not None:
        url = wanted.url or _SEARCHED[wanted.provider]
        key = config.vault.reveal(wanted.key) if wanted.key is not None else ""
        search = SearchService(wanted.provider, url, key)

    @cache
    def settings() -> Settings:
        """Imported late: few conversations are about the configuration."""
        make = cast("_Make", load("ohmo.setup.single_keys:SingleKeys"))
        return make(config, os.environ, discover().manifests)

    seeing = next(filter(sees, models), None)
    see = _see(seeing, ask) if seeing is not None else None
    return Systems(search, _images(config), remotes, settings, see)


def _images(config: Config) -> ImageService | None:
    """An endpoint of its own has a key of its own: the profile's is not sent elsewhere."""
    wanted = config.written.images
    if wanted.model is None:
        return None
    profile = config.profile
    secret = wanted.api_key
    url = wanted.base_url
    if url is None:
        url = profile.base_url or _OPENAI
        secret = secret or profile.api_key
    key = config.vault.find(secret) or ""
    cost = round(wanted.usd * 1e6) if wanted.usd is not None else None
    return ImageService(url, wanted.model, key, cost)


def _see(model: str, ask: AskOnce) -> See:
    async def see(image: Image, question: str, payer: Payer) -> str:
        step = UserStep((image, Text(question)), payer.person, "message")
        request = ModelRequest(
            model=model,
            system=(_LOOK,),
            tools=(),
            steps=(step,),
            max_output=_ANSWER,
            effort=None,
            purpose="image",
            payer=payer,
        )
        reply = await ask(request)
        return "".join(block.text for block in reply.step.blocks if isinstance(block, Text))

    return see
