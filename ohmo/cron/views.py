"""A job and its occurrences as the API tells them."""

from __future__ import annotations

from collections.abc import Mapping

from ohmo.contracts.cron import JobRow, OccurrenceRow
from ohmo.contracts.messages import Json
from ohmo.cron.recipes import Recipe
from ohmo.cron.spec import in_utc, span, when_words


def job_view(row: JobRow, last: OccurrenceRow | None) -> Mapping[str, Json]:
    """Secrets by name only."""
    spec = row.body.spec
    return {
        "name": row.name,
        "schedule": spec.schedule,
        "at": spec.at,
        "every": span(spec.every),
        "tz": spec.tz,
        "prompt": spec.prompt,
        "to": spec.to or _place(row),
        "thread": spec.thread,
        "rules": list(spec.rules),
        "secrets": [name for name, _ in spec.secrets],
        "deadline": span(spec.deadline),
        "catch_up": spec.catch_up,
        "overlap": spec.overlap,
        "when": spec.when,
        "jitter": span(spec.jitter or None),
        "retry": spec.retry,
        "expires": spec.expires,
        "recipe": spec.recipe,
        "enabled": row.enabled,
        "source": row.origin if row.origin == "config" else row.person,
        "next": None if row.next_at is None else in_utc(row.next_at),
        "next_local": None if row.next_at is None else when_words(row.next_at, spec.tz),
        "last": None
        if last is None
        else {
            "due": in_utc(last.due),
            "state": last.state,
            "reason": last.reason,
            "turn": last.turn,
        },
    }


def occurrence_view(row: OccurrenceRow) -> Mapping[str, Json]:
    """A run as the API tells it; times are ISO 8601 in UTC."""
    return {
        "due": in_utc(row.due),
        "state": row.state,
        "reason": row.reason,
        "started": None if row.started is None else in_utc(row.started),
        "ended": None if row.ended is None else in_utc(row.ended),
        "turn": row.turn,
        "preview": row.preview,
        "attempts": row.attempts,
    }


def recipe_view(recipe: Recipe) -> Mapping[str, Json]:
    """Its fields still hold their ``{{parameters}}``."""
    parameters: list[Json] = [
        {"name": name, "description": one.description, "default": one.default}
        for name, one in recipe.parameters.items()
    ]
    texts: dict[str, Json] = {
        name: value
        for name in ("schedule", "every", "prompt", "when")
        if isinstance(value := recipe.fields.get(name), str)
    }
    return {"name": recipe.name, "title": recipe.title, "parameters": parameters, **texts}


def _place(row: JobRow) -> str | None:
    place = row.body.place
    return (
        None
        if place is None
        else f"{place.channel}:{place.chat}" + (f"/{place.topic}" if place.topic else "")
    )
