"""``python -m ohmo`` is the same as ``ohmo``."""

from __future__ import annotations

import importlib

if __name__ == "__main__":
    importlib.import_module("ohmo.cli.main").main()  # by name: both stand on the topmost floor
