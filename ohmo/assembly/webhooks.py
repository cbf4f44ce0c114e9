"""From the webhooks of the configuration to what control needs of them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Protocol

from channels.contract import Address, Outbound
from ohmo.assembly.seams import Seams
from ohmo.config.load import Config
from ohmo.config.values import SecretMissing
from ohmo.contracts.arrivals import Arrival, Wake
from ohmo.contracts.errors import ConfigError
from ohmo.contracts.reports import Reports
from ohmo.contracts.store import Store
from ohmo.contracts.turns import Accepted, ThreadSettings
from ohmo.control.webhooks import Webhook, Webhooks
from ohmo.cron.wakes import DEADLINE


class _Both(Store, Reports, Protocol):
    """The store and its reports."""


def build_hooks(
    config: Config,
    seams: Seams,
    store: _Both,
    publish: Callable[[Wake, ThreadSettings | None], Awaitable[Accepted]],
    resolve: Callable[[str], Address],
) -> Webhooks:
    """Raises ConfigError: a secret is missing."""
    hooks: dict[str, Webhook] = {}
    for name, written in config.webhooks.items():
        try:
            secret = config.vault.reveal(written.secret)
        except SecretMissing as error:
            raise ConfigError(
                str(config.source.problem(("webhooks", name, "secret"), str(error)))
            ) from error
        deadline = DEADLINE if written.deadline is None else written.deadline.total_seconds()
        hooks[name] = Webhook(
            name,
            secret,
            written.style,
            written.prompt,
            written.deliver,
            written.to,
            written.rules,
            written.when,
            written.role,
            deadline,
            written.window.total_seconds(),
        )

    async def wake(one: Wake) -> Accepted:
        return await publish(one, None)

    async def stored(thread: str, seq: int) -> Arrival | None:
        found = await store.arrival(thread, seq)
        return found.arrival if found is not None else None

    async def posted(id: str) -> Outbound | None:
        found = await store.post_row(id)
        return found.row.outbound if found is not None else None

    return Webhooks(
        hooks,
        publish=wake,
        post=store.post,
        stored=stored,
        posted=posted,
        resolve=resolve,
        clock=seams.clock,
    )
