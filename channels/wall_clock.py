"""Times as people read them: by the clock on their wall, with the name of its zone. Pure."""

from __future__ import annotations

from datetime import datetime, tzinfo

MINUTES = "%Y-%m-%d %H:%M"


def wall(at: datetime, zone: tzinfo, form: str = MINUTES) -> str:
    """``2026-11-23 09:00 CET (Europe/Berlin)``; in UTC ``2026-11-23 08:00 UTC``. ``form`` as in
    strftime."""
    local = at.astimezone(zone)
    short, name = f"{local:%Z}", str(zone)
    return f"{local:{form}} {short}" + ("" if name.endswith(short) else f" ({name})")
