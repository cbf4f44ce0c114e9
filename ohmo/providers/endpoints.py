"""A profile of the configuration as an endpoint, its key looked up."""

from __future__ import annotations

from ohmo.config.load import Config, key_is_optional
from ohmo.config.models import Profile
from ohmo.providers.cover import Endpoint


def endpoint_of(name: str, profile: Profile, config: Config) -> Endpoint:
    """A profile with its key looked up. Raises SecretMissing when the key is needed and not
    there."""
    key = (
        config.vault.find(profile.api_key)
        if key_is_optional(profile)
        else _revealed(profile, config)
    )
    return Endpoint(profile.provider, profile.models, profile.base_url, key, name)


def _revealed(profile: Profile, config: Config) -> str | None:
    return config.vault.reveal(profile.api_key) if profile.api_key is not None else None
