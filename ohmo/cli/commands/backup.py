"""Copy the home into one verified archive, while the daemon goes on working."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import click


@click.command("backup", help=__doc__)
@click.argument("path", required=False, type=click.Path(path_type=Path))
@click.option("--media", is_flag=True, help="Also the files people sent.")
@click.option(
    "--keep", type=click.IntRange(1), help="Then delete all but the newest so many of that folder."
)
@click.option(
    "--list", "listing", is_flag=True, help="Show the backups of the folder, and make none."
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def COMMAND(path: Path | None, media: bool, keep: int | None, listing: bool, as_json: bool) -> None:
    import ohmo
    from channels.text import some
    from ohmo.cli.home_config import load_config
    from ohmo.cli.show import as_json_text
    from ohmo.storefile.archive import backups, make_backup, prune

    config, now = load_config(), datetime.now(UTC)
    target = (path or config.backups.folder or config.home.backups).expanduser().absolute()
    if listing:
        rows = [
            {"path": str(one.path), "made": one.made.isoformat(), "size": one.path.stat().st_size}
            for one in backups(target, now)
        ]
        click.echo(
            as_json_text(rows)
            if as_json
            else "\n".join(f"{row['made']}  {row['size']:>12}  {row['path']}" for row in rows)
            or "no backup yet"
        )
        return
    if not config.home.root.is_dir():
        raise click.ClickException(
            f"{config.home.root}: there is nothing to copy yet; ohmo init makes a home"
        )
    config.home.refuse_root()
    made = make_backup(
        config.home.root, config.database, target, now, media=media, ohmo=ohmo.__version__
    )
    gone = prune(made.path.parent, keep, now) if keep is not None else []
    if as_json:
        click.echo(
            as_json_text(
                {
                    "path": str(made.path),
                    "files": made.files,
                    "rows": dict(made.rows),
                    "size": made.size,
                    "deleted": list(map(str, gone)),
                }
            )
        )
        return
    click.echo(
        f"{made.path}: {some(made.files, 'file')}, {sum(made.rows.values())} rows, {made.size}"
        " bytes; unpacked and compared"
    )
    if config.database is None:
        click.echo("the store is in PostgreSQL and not in it: use pg_dump beside this")
    click.echo("it holds your secrets and keys: keep it as private as the home")
