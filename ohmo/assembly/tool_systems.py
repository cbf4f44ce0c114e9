"""From the configuration to the systems that tools speak to; what is not configured is not
there."""

from __future__ import annotations

from ohmo.config.load import Config
from ohmo.tools.systems import ImageService, OtherHouse, SearchService, Systems

_SEARCHED = {"brave": "https://api.search.brave.com", "tavily": "https://api.tavily.com"}
_OPENAI = "https://api.openai.com/v1"


def systems_of(config: Config) -> Systems:
    """Raises SecretMissing: a secret that was there when the configuration was read is gone."""
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
    return Systems(search=search, images=_images(config), remotes=remotes)


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
