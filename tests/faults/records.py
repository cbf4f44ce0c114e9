"""What a long campaign has done so far, so that it goes on where it was interrupted; and the page
that tells it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any


class Records:
    """One JSON object per finished piece, appended to a file."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def all(self) -> list[dict[str, Any]]:
        return (
            [json.loads(line) for line in self._path.read_text().splitlines()]
            if self._path.exists()
            else []
        )

    def add(self, **facts: Any) -> None:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        with self._path.open("a") as file:
            file.write(json.dumps(facts) + "\n")

    def forget(self) -> None:
        self._path.unlink(missing_ok=True)


def table(head: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """Markdown; numbers stand to the right."""
    right = [
        all(isinstance(row[column], int | float) for row in rows) for column in range(len(head))
    ]
    lines = [head, ["--:" if one else "---" for one in right], *rows]
    return "\n".join("| " + " | ".join(map(str, line)) + " |" for line in lines)


def section(page: Path, title: str, text: str) -> None:
    """Puts ``text`` under ``## title`` in place of what stood there; the other sections stay."""
    parts = page.read_text().split("\n## ") if page.exists() else ["# The long campaigns\n"]
    ours = f"{title}\n\n{text.strip()}\n"
    heads = [part.partition("\n")[0] for part in parts]
    if title in heads[1:]:
        parts[heads.index(title, 1)] = ours
    else:
        parts.append(ours)
    page.write_text("\n## ".join(parts))


def spread(seconds: Sequence[float]) -> str:
    """Middle, 99th percentile and most."""
    if not seconds:
        return "-"
    ordered = sorted(seconds)
    return (
        f"{ordered[len(ordered) // 2]:.2f} /"
        f" {ordered[min(len(ordered) - 1, int(0.99 * len(ordered)))]:.2f} / {ordered[-1]:.2f}"
    )
