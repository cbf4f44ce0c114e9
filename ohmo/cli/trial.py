"""What ``ohmo init`` tries when the files stand: whether the model and the channels answer, and
whether a service would start."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Mapping

import click

from channels.contract import Manifest
from ohmo.cli.house import of_a_service
from ohmo.config.home import Home, environment
from ohmo.config.load import Config, load
from ohmo.contracts.errors import ConfigError
from ohmo.setup import platforms
from ohmo.setup.answers import Answers

TRIAL = 30.0  # seconds


class Trial:
    """``environ``: of whoever sits there; ``manifests``: of the channels that are installed."""

    def __init__(self, environ: Mapping[str, str], manifests: Mapping[str, Manifest]) -> None:
        self._environ = environ
        self._manifests = manifests

    def tests(self, home: Home, answers: Answers) -> bool:
        """Every test that can be made now; each failure says the page and the step."""
        try:
            surroundings = environment(self._environ)
            config = load(environ=surroundings, manifests=self._manifests)
        except ConfigError as error:
            lines = str(error).splitlines()
            for line in lines:
                click.echo(f"{'missing' if 'missing secret' in line else 'wrong  '} {line}")
                for name in answers.channels:
                    if f"channels.{name}." in line and name in self._manifests:
                        asks = platforms.setup_of(self._manifests[name]).asks
                        page = next(
                            (ask.page for ask in asks if f"channels.{name}.{ask.key}:" in line), ""
                        )
                        click.echo(
                            f"        {page}; then put it into {home.root / '.env'}"
                            if page
                            else f"        {home.config}"
                        )
            return all("missing secret" in line for line in lines)
        return self._model_answers(config, surroundings) and self._channels_connect(surroundings)

    def _model_answers(self, config: Config, surroundings: Mapping[str, str]) -> bool:
        from ohmo.providers.trial import try_model

        found = asyncio.run(
            try_model(config, surroundings, config.profile_name, config.profile, limit=TRIAL)
        )
        if found.offline:
            click.echo(
                "model   none yet: set ANTHROPIC_API_KEY or OPENAI_API_KEY, or start a model server"
                " on this machine (docs/models.md)"
            )
        elif found.fine:
            click.echo(f"model   {found.who} answered")
        else:
            click.echo(f"failed  {found.text}\n        {found.next}")
        return found.fine

    def _channels_connect(self, surroundings: Mapping[str, str]) -> bool:
        from ohmo.doctor.examination import examine, survey

        facts = survey(surroundings, lambda _: None)
        fine = True
        for one in examine(
            facts, live=True, only=tuple(f"channels.{name}" for name in platforms.NAMES)
        ):
            name = one.check.name.partition(".")[2]
            if one.finding.state == "ok":
                click.echo(f"channel {name}: connected")
            elif one.finding.state == "problem":
                fine = False
                click.echo(f"failed  {one.finding.text}\n        {one.finding.next}")
        return fine

    def serves(self, wanted: bool | None, *, asking: bool) -> bool:
        """Nothing is installed, started or offered that would not start with this configuration;
        False: though it was wanted."""
        if wanted is False or (wanted is None and not asking):
            return True
        if hindered := self._hindered():
            mark, then = (
                "failed" if wanted else "note",
                "mend it, then: ohmo service install && ohmo service start",
            )
            click.echo(
                f"{mark:7} the service is left as it is, because it would not start with this"
                f" configuration: {hindered}; {then}"
            )
            return not wanted
        if wanted or click.confirm(
            "Install and start the service, so that ohmo is always on?", default=False
        ):
            self._serve()
        return True

    def _hindered(self) -> str:
        """Why a service would not start with this configuration, the first reason; empty: it
        would."""
        try:
            load(environ=of_a_service(self._environ), manifests=self._manifests)
        except ConfigError as error:
            return str(error).partition("\n")[0]
        return ""

    def _serve(self) -> None:
        for verb in ("install", "start"):
            done = subprocess.run(  # noqa: S603
                [sys.executable, "-P", "-m", "ohmo", "service", verb], check=False
            )
            if done.returncode != 0:
                raise click.ClickException(
                    f"ohmo service {verb} failed; the files stand, ohmo run starts it in the"
                    " foreground"
                )
