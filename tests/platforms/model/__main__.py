"""``python -m tests.platforms.model --port 0``: prints its port, then serves until it is ended."""

from __future__ import annotations

import argparse
import asyncio
import contextlib

from tests.platforms.model.server import run

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--port", type=int, default=0)
parser.add_argument(
    "--script", help='a JSON list of turns, e.g. [{"status": 529}, {"text": "hello"}]'
)
options = parser.parse_args()
with contextlib.suppress(KeyboardInterrupt):
    asyncio.run(run(options.port, options.script))
