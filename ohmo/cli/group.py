"""A command of commands whose help shows the whole first sentence of each."""

from __future__ import annotations

import click


class Group(click.Group):
    """Like click's own, which cuts a sentence that does not fit into one line."""

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        rows = [
            (name, command.get_short_help_str(limit=1000))
            for name in self.list_commands(ctx)
            if (command := self.get_command(ctx, name))
        ]
        with formatter.section("Commands"):
            formatter.write_dl([(name, text.rstrip(".")) for name, text in rows])
