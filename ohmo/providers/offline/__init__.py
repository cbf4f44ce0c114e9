"""No model: says so, says how to get one, and runs a named tool on request so that permissions can
be tried."""

from __future__ import annotations

from ohmo.providers.cover import Cover

MANIFEST = Cover(
    name="offline",
    title="Offline",
    models=("offline",),
    key_environment=None,
    client="ohmo.providers.offline.client:OfflineClient",
    heavy=False,
)
