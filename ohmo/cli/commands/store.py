"""Look at the store, make it small, move it."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import click

from ohmo.cli.show import Group


@click.group("store", cls=Group, help=__doc__)
def COMMAND() -> None:
    pass


@COMMAND.command()
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.pass_context
def check(ctx: click.Context, as_json: bool) -> None:
    """Every page, every index, every rule of the store; exit 1 when something is wrong. May be
    asked while the daemon runs."""
    import sqlite3

    from ohmo.cli.show import as_json_text, clean
    from ohmo.storefile.inspection import broken_laws, counts, problem, reading, version

    path = _file()
    if not path.exists():
        raise click.ClickException(f"{path}: there is no store yet; the first start makes it")
    wrong: list[str] = []
    rows: dict[str, int] = {}
    try:
        if (found := problem(path)) is not None:
            wrong.append(found)
        else:
            version(path)
            with closing(reading(path)) as connection:
                wrong += broken_laws(connection)
                rows = counts(connection)
    except sqlite3.Error as error:
        wrong.append(str(error))
    if as_json:
        click.echo(as_json_text({"path": str(path), "problems": wrong, "rows": rows}))
    else:
        for line in wrong:
            click.echo(f"problem: {clean(line)}")
        told = (
            "nothing is wrong"
            if not wrong
            else (
                f"{len(wrong)} problems; stop ohmo, then ohmo restore the newest backup, or start"
                " it: it salvages"
            )
        )
        click.echo(f"{path}: {sum(rows.values())} rows; {told}")
    ctx.exit(1 if wrong else 0)


@COMMAND.command()
def compact() -> None:
    """Give empty pages back to the disk. Refuses while the daemon runs."""
    from ohmo.cli.home_config import load_config
    from ohmo.storefile.inspection import compact as shrink
    from ohmo.storefile.lock import hold_home

    path = _file()
    if not path.exists():
        raise click.ClickException(f"{path}: there is no store yet; the first start makes it")
    home = load_config().home
    home.refuse_root()
    with hold_home(home.root):
        before, after = shrink(path)
    click.echo(f"{path}: {before} bytes before, {after} after")


@COMMAND.command()
@click.argument("url")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def migrate(url: str, as_json: bool) -> None:
    """Copy every row to URL (sqlite:////path or postgresql://…), which must be empty, and compare
    the counts. Refuses while the daemon runs."""
    from ohmo.cli.home_config import load_config
    from ohmo.cli.show import as_json_text
    from ohmo.storefile.lock import hold_home
    from ohmo.storefile.transfer import transfer

    config = load_config()
    config.home.refuse_root()
    source = config.store_url if config.database is None else f"sqlite:///{config.database}"
    with hold_home(config.home.root):
        rows = transfer(source, url)
    if as_json:
        click.echo(as_json_text({"rows": rows}))
        return
    click.echo(
        f"{sum(rows.values())} rows of {len(rows)} tables copied and counted; the old store is as"
        " it was"
    )
    click.echo(
        "next: set store.url in config.yaml to the new address (a secret may be env:NAME), then"
        " ohmo doctor"
    )


def _file() -> Path:
    from ohmo.cli.home_config import load_config

    found = load_config().database
    if found is None:
        raise click.ClickException(
            "the store is in PostgreSQL: its server cares for that; ohmo inbox audit looks whether"
            " every message has its end"
        )
    return found
