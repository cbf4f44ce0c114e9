"""Talk with ohmo in this terminal."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import click


@click.command("chat", help=__doc__)
@click.option(
    "--continue", "again", is_flag=True, help="Go on with the latest conversation of this keyboard."
)
@click.option(
    "--resume", metavar="ID", help="Go on with this session, as `ohmo sessions list` shows it."
)
@click.option("--model", metavar="M", help="The model of this conversation.")
@click.option(
    "--permission-mode",
    type=click.Choice(["default", "plan", "full_auto"]),
    help="The mode of this conversation.",
)
@click.option(
    "--config",
    type=click.Path(path_type=Path),
    help="Without a running daemon: another config.yaml.",
)
@click.option("--remote", metavar="URL", help="A daemon elsewhere; its token in OHMO_TOKEN.")
def COMMAND(remote: str | None, config: Path | None, **wishes: Any) -> None:  # noqa: N802 - the name every command file exports
    from ohmo.cli.prompt import Wishes

    chat(Wishes(**wishes), remote, config)


def chat(wishes: Any, remote: str | None, config: Path | None) -> None:
    """Attached to the daemon; without one, ohmo runs in this process for as long as the
    conversation lasts."""
    from ohmo.cli.prompt import house_for
    from ohmo.cli.screen import Plain, paints
    from ohmo.cli.talk import Talk, thread_of

    with house_for(remote, config) as client:
        thread = thread_of(client, wishes)
        if paints():
            from ohmo.cli.editor import Editor, history_in
            from ohmo.cli.painted import Painted
            from ohmo.cli.words import Arguments, commands
            from ohmo.config.home import environment, find_home

            history = history_in(find_home(os.environ).root / "state", environment(os.environ))
            screen = Painted(Editor(history, commands, Arguments(client)))
        else:
            screen = Plain()
        try:
            Talk(client, screen, wishes, thread).run()
        finally:
            screen.close()
