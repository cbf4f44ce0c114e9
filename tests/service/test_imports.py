"""What a process imports is memory and time of every start: a daemon with one channel, and commands
that ask it something, bring the packages of ``imports.toml`` and no others."""

from __future__ import annotations

import asyncio
import json
import sys
import tomllib
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.faults.daemon import Daemon, until
from tests.platforms.model.server import ModelServer, serving
from tests.platforms.telegram.server import Server
from tests.programs import environ, python, run_process

BUDGETS = Path(__file__).with_name("imports.toml")
# ``ohmo`` as it is typed, and at its end what it has imported
TOLD = """
import atexit, json, pathlib, sys
told = pathlib.Path(sys.argv.pop(1))
atexit.register(lambda: told.write_text(json.dumps(sorted(sys.modules))))
from ohmo.cli.main import main
main()
"""


def told(path: Path, *words: str) -> tuple[str, ...]:
    return (sys.executable, "-c", TOLD, str(path), *words)


def foreign(modules: list[str]) -> Mapping[str, int]:
    """How many modules of each package that is neither ours, nor Python's own, nor brought by this
    environment to every process."""
    bare = json.loads(python("import json, sys; print(json.dumps(sorted(sys.modules)))"))
    own = {"ohmo", "channels", *sys.stdlib_module_names, *bare}
    tops = Counter(name.partition(".")[0] for name in modules)
    return {top: count for top, count in tops.items() if top not in own and top[0] != "_"}


def judge(process: str, modules: list[str]) -> None:
    allowed: dict[str, int] = tomllib.loads(BUDGETS.read_text())[process]
    found = foreign(modules)
    more = [
        f"{top}: {count} modules, {allowed.get(top, 0)} are allowed"
        for top, count in sorted(found.items())
        if count > allowed.get(top, 0)
    ]
    assert not more, (
        f"{process} imports more than it did: {more}. `python -X importtime -m ohmo …`"
        " shows who brings it (children stand above their parents). Unused: import it where it is"
        " used, or keep it out (channels/platform_calls.py, ohmo/providers/lazy_provider.py,"
        " ohmo/cli/connect.py show how). Needed at every start: `python -m benchmarks.start` says"
        f" what it costs; then it belongs into {BUDGETS.name}, with its reason."
    )


@pytest.mark.needs("linux")
async def test_a_daemon_with_one_channel_and_what_asks_it_import_what_is_written_down(
    tmp_path: Path,
) -> None:
    home, model, telegram = tmp_path / "home", ModelServer(), Server()
    home.mkdir(mode=0o700)
    async with telegram.running(), serving(model):
        profile = {"provider": "anthropic", "base_url": model.url, "models": ["claude-sonnet-5-5"]}
        channel = {"enabled": True, "token": telegram.token, "api_url": telegram.url, "dm": "open"}
        written = {
            "workspace": str(tmp_path / "work"),
            "control": {"listen": "127.0.0.1:0"},
            "profiles": {"default": {**profile, "api_key": "sk-ant-test"}},
            "channels": {"telegram": channel},
        }
        config = home / "config.yaml"
        config.touch(mode=0o600)
        config.write_text(json.dumps(written))
        daemon = Daemon(home, ["telegram"], told(tmp_path / "daemon", "run"))
        await daemon.start()
        telegram.world.says("hello", "dm:20001")

        async def answered() -> bool:
            return any(call.method == "sendMessage" for call in telegram.calls)

        await until("the first answer is there", answered)
        for words in (["status"], ["sessions", "list"], ["cron", "list"], ["--help"]):
            name = words[0].strip("-")
            await asyncio.to_thread(
                run_process, *told(tmp_path / name, *words), env=environ(home), code=0
            )
        await daemon.stop()
    for name in ("daemon", "status", "sessions", "cron", "help"):
        judge(name, json.loads((tmp_path / name).read_text()))
