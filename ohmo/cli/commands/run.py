"""Start the daemon in the foreground."""

from __future__ import annotations

from pathlib import Path

import click


@click.command("run", help=__doc__)
@click.option("--config", "file", type=click.Path(path_type=Path), help="Another config.yaml.")
@click.option("--profile", metavar="NAME", help="Another profile of the file.")
@click.option("--safe", is_flag=True, help="Without plugins, hooks and cron.")
@click.pass_context
def COMMAND(ctx: click.Context, file: Path | None, profile: str | None, safe: bool) -> None:  # noqa: N802 - the name every command file exports
    import gc

    from ohmo.cli.house import settings

    gc.disable()  # thousands of classes are made now and none of them goes: the daemon switches it on when it is warm
    config = settings(file, profile)  # before the daemon is imported: a mistake in the file is said at once
    from ohmo.daemon import serve

    ctx.exit(serve(config, safe=safe))
