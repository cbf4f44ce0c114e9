"""Start the daemon in the foreground."""

from __future__ import annotations

from pathlib import Path

import click


@click.command("run", help=__doc__)
@click.option("--config", "file", type=click.Path(path_type=Path), help="Another config.yaml.")
@click.option("--profile", metavar="NAME", help="Another profile of the file.")
@click.option("--safe", is_flag=True, help="Without plugins, hooks and cron.")
@click.pass_context
def COMMAND(ctx: click.Context, file: Path | None, profile: str | None, safe: bool) -> None:
    import gc
    import importlib
    import threading
    import time

    from ohmo.heap import share_one_heap

    share_one_heap()
    # Reading the certificates of this machine takes OpenSSL a tenth of a second; Python goes on
    # importing meanwhile.
    threading.Thread(
        target=importlib.import_module, args=("aiohttp",), name="aiohttp", daemon=True
    ).start()
    from ohmo.cli.connect import import_structlog_alone
    from ohmo.cli.home_config import installed_manifests, load_config, process_environment
    from ohmo.config.load import boot, load, remember

    # thousands of classes are made now and none of them goes: the daemon switches it on when it is
    # warm
    gc.disable()
    since = time.time_ns()
    environ, known = process_environment(), installed_manifests()
    if environ.get(
        "OHMO_SERVICE"
    ):  # nobody reads what we say now: better the configuration that worked than none
        config, note = boot(file, environ=environ, profile=profile, manifests=known)
    else:
        # Before the daemon is imported: a mistake is said at once.
        config, note = load(file, environ=environ, profile=profile, manifests=known), ""
    import_structlog_alone()
    from ohmo.daemon.serving import Order, serve

    order = Order(
        reread=lambda: load_config(file, profile),
        since=since,
        environ=environ,
        safe=safe,
        note=note,
        good=lambda found: remember(found, environ, known),
    )
    ctx.exit(serve(config, order))
