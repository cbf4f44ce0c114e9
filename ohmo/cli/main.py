"""``ohmo``: finds the command by its file name, runs it, and turns every failure into one line and
an exit code."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn, cast

import click

from ohmo.contracts.errors import ConfigError, HomeTaken, OhmoError

# Exit codes; 75 and 78: EX_TEMPFAIL and EX_CONFIG of sysexits(3).
FAILED, USAGE, REFUSED, TAKEN, CONFIGURATION, INTERRUPTED = 1, 2, 3, 75, 78, 130
_FOLDER = Path(__file__).parent / "commands"
_PACKAGE = "ohmo.cli.commands"
_SECTIONS = {  # of the help; a command that is not named here stands under "More"
    "Begin": ("init", "config", "run", "service", "login", "upgrade"),
    "Talk": ("chat", "approvals", "cron", "sessions", "memory", "agents", "skills"),
    "Connect": ("channels", "pairing", "permissions", "mcp", "hooks", "plugins"),
    "Look": ("status", "doctor", "logs", "inbox", "outbox", "usage", "security", "trust"),
    "Keep": ("backup", "restore", "store"),
}
_LATER = frozenset({"agents", "backend", "worker"})  # named in the plan, not built yet


class Commands(click.Group):
    """Lists files; imports only the one that is called."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        return _names()

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002 - click's signature
        if cmd_name not in _names():
            return None
        module = importlib.import_module(f"{_PACKAGE}.{cmd_name}")
        return cast("click.Command", module.COMMAND)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        known = _names()
        if args and args[0] not in known and not args[0].startswith("-"):
            import difflib

            if args[0] in _LATER:
                raise click.UsageError(
                    f"'ohmo {args[0]}' comes in a later version; ohmo --help shows what there is"
                    " today"
                )
            close = difflib.get_close_matches(args[0], known, n=1)
            hint = f", did you mean {close[0]}?" if close else ""
            raise click.UsageError(f"there is no command {args[0]!r}{hint}", ctx)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002 - click's signature
        names = _names()
        width = max(map(len, names))
        placed = {name for group in _SECTIONS.values() for name in group}
        rest = tuple(name for name in names if name not in placed)
        for title, group in {**_SECTIONS, "More": rest}.items():
            rows: list[tuple[str, str]] = []
            for name in group:
                if name in names:  # its docstring, read without importing it
                    with (_FOLDER / f"{name}.py").open(encoding="utf-8") as file:
                        first = file.readline().strip().strip('"').rstrip(".")
                    rows.append((name.ljust(width), first))
            if rows:
                with formatter.section(title):
                    formatter.write_dl(rows)


def _names() -> list[str]:
    return sorted(path.stem for path in _FOLDER.glob("*.py") if path.stem != "__init__")


@click.group(
    cls=Commands,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.option(
    "-p",
    "--prompt",
    "text",
    metavar="TEXT",
    help="Say one thing and print the answer ('-': read it from standard input).",
)
@click.option(
    "--output",
    type=click.Choice(["text", "json", "stream-json"]),
    default="text",
    show_default=True,
    help="With -p.",
)
@click.option(
    "--continue",
    "again",
    is_flag=True,
    help="With -p: go on with the latest conversation of this keyboard.",
)
@click.option(
    "--resume",
    metavar="ID",
    help="With -p: go on with this session, or speak into an address such as slack:C123.",
)
@click.option("--model", metavar="M", help="With -p: the model of this conversation.")
@click.option(
    "--permission-mode",
    type=click.Choice(["default", "plan", "full_auto"]),
    help="With -p: the mode of this conversation.",
)
@click.option(
    "--allow",
    metavar="RULE",
    multiple=True,
    help="With -p: what need not be asked, e.g. 'Bash(git status:*)'. Repeatable.",
)
@click.option(
    "--wait", is_flag=True, help="With -p: wait for as long as the model cannot be reached."
)
@click.option(
    "--config",
    type=click.Path(path_type=Path),
    help="With -p and no running daemon: another config.yaml.",
)
@click.option(
    "--remote", metavar="URL", help="With -p: a daemon elsewhere; its token in OHMO_TOKEN."
)
@click.version_option(package_name="ohmo", message="ohmo %(version)s", help="Show the version.")
@click.pass_context
def ohmo(
    ctx: click.Context, text: str | None, remote: str | None, config: Path | None, **options: Any
) -> None:
    """A personal agent that is always on, lives in your chats, and never loses a message. Without a
    command: talk with it here."""
    if ctx.invoked_subcommand is not None:
        if text is not None:
            raise click.UsageError("-p stands alone, without a command")
        return
    if text is None and not (sys.stdin.isatty() and sys.stdout.isatty()):
        click.echo(ctx.get_help())  # nobody is there to talk
        return
    from ohmo.cli.prompt import ConversationOptions, prompt

    if text is None:
        from ohmo.cli.commands.chat import chat

        chat(ConversationOptions(**options), remote, config)
        return

    ctx.exit(prompt(text, ConversationOptions(**options), remote=remote, config=config))


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Never a traceback for what a person can mend; codes as in docs/configuration.md."""
    if sys.platform == "win32":
        line = (
            "ohmo: runs on Linux and macOS; on Windows in WSL 2: `wsl --install`, then install it"
            " there"
        )
        sys.exit(_say(line, FAILED))
    if arguments is None and (Path(sys.prefix) / "versions").is_dir():  # it was upgraded once
        from ohmo.service.versions import enter

        enter("ohmo")
    sys.exit(run(sys.argv[1:] if arguments is None else arguments))


def run(arguments: Sequence[str]) -> int:
    """The exit code."""
    try:
        code = ohmo.main(args=list(arguments), prog_name="ohmo", standalone_mode=False)
        sys.stdout.flush()
    except click.exceptions.NoArgsIsHelpError as error:
        return _say(error.format_message(), USAGE)
    except click.UsageError as error:
        where = f"; {error.ctx.command_path} --help explains" if error.ctx is not None else ""
        line = " ".join(error.format_message().split()).rstrip(".")
        return _say(f"ohmo: {line}{where}", USAGE)
    except click.ClickException as error:
        return _say(f"ohmo: {error.format_message()}", error.exit_code)
    except click.Abort:
        return _say("ohmo: interrupted", INTERRUPTED)
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:  # the reader of our output left, as `| head` does
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except ConfigError as error:
        return _say(str(error), CONFIGURATION)
    except HomeTaken as error:
        return _say(f"ohmo: {error}", TAKEN)
    except OhmoError as error:
        from ohmo.cli.client import Refused

        mistyped = isinstance(error, Refused) and error.status == 400
        return _say(f"ohmo: {error}", USAGE if mistyped else FAILED)
    except OSError as error:
        place = f" ({error.filename})" if error.filename else ""
        return _say(f"ohmo: {error.strerror or error}{place}", FAILED)
    return code if isinstance(code, int) else 0


def _say(line: str, code: int) -> int:
    click.echo(line, err=True)
    return code
