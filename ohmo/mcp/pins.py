"""Tools as they were approved. The first list of a server is: the owner configured it, or trusts
the file that does. Whatever differs later, a tool that says something else or one that comes new,
is off until the owner's word. What is kept also stands for the server until it is there: a session
that found a tool before a restart is sent the same bytes after it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, cast

from channels.durable import replacing
from channels.record import record
from ohmo.mcp.contract import Definition, ServerFailed


@record
class Pin:
    """``there``: the server had it when it was last asked."""

    definition: Definition
    there: bool = True


class Pins:
    """Of one server, in a file of the home (0600)."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._listed = False  # it told its tools before
        self.pins: Mapping[str, Pin] = {}

    def read(self) -> None:
        """Raises ServerFailed: what was approved is not known, so nothing is."""
        try:
            found: Any = json.loads(self.path.read_text(encoding="utf-8"))
            rows = cast("list[dict[str, Any]]", found["tools"])
            self.pins = {
                str(row["name"]): Pin(
                    Definition(
                        str(row["name"]),
                        str(row["description"]),
                        dict(row["schema"]),
                        bool(row["reads_only"]),
                        row["of"],
                    ),
                    bool(row["there"]),
                )
                for row in rows
            }
            self._listed = True
        except FileNotFoundError:
            return
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            what = f"{self.path} cannot be read; mend it, or remove it to approve all tools anew"
            raise ServerFailed(what) from None

    def take(self, offered: Sequence[Definition], *, approved: bool = False) -> list[Definition]:
        """Pins the first list, and with ``approved`` any; returns what of a later one is not
        approved. Raises OSError."""
        all_of_it = approved or not self._listed
        pins = {name: Pin(pin.definition, there=False) for name, pin in self.pins.items()}
        waiting: list[Definition] = []
        for each in offered:
            pin = self.pins.get(each.name)
            if all_of_it or (pin is not None and pin.definition.digest == each.digest):
                pins[each.name] = Pin(each)
                continue
            waiting.append(each)
            if pin is not None:
                pins[each.name] = Pin(pin.definition)
        if pins != self.pins or not self._listed:
            self._write(pins)
            self.pins = pins
            self._listed = True
        return waiting

    def _write(self, pins: Mapping[str, Pin]) -> None:
        rows = [
            {
                "name": pin.definition.name,
                "description": pin.definition.description,
                "schema": pin.definition.schema,
                "reads_only": pin.definition.reads_only,
                "of": pin.definition.of,
                "there": pin.there,
            }
            for pin in pins.values()
        ]
        self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with replacing(self.path) as file:
            file.write(json.dumps({"tools": rows}).encode())
