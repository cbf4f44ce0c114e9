"""structlog without rich, which it brings along wherever that is installed, for tracebacks on a
screen that no daemon has."""

from __future__ import annotations

import importlib
import sys


def structlog_alone() -> None:
    """Before the house is imported: 5 MB and a tenth of a second less. Whoever wants rich can
    import it afterwards."""
    if "structlog" in sys.modules or "rich" in sys.modules:
        return
    sys.modules["rich"] = None  # pyright: ignore[reportArgumentType] - the import system's own sign for "there is none"
    try:
        importlib.import_module("structlog")
    finally:
        del sys.modules["rich"]
