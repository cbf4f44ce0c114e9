"""What ``ohmo init`` tries out: which models an endpoint has, whether the model and the channels
answer, and whether a service would start."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Mapping, Sequence

import click

from channels.contract import Manifest
from ohmo.cli.home_config import service_environment
from ohmo.config.home import Home, environment
from ohmo.config.load import load
from ohmo.config.problems import nearest
from ohmo.contracts.errors import ConfigError
from ohmo.discovery import scan
from ohmo.providers import build
from ohmo.providers.model_list import offered
from ohmo.providers.models import Endpoint
from ohmo.setup import platforms
from ohmo.setup.answers import Answers

_TIMEOUT = 30.0  # seconds
_SHOWN_MODELS = 40


class SetupChecks:
    """``environ``: of whoever sits there; ``manifests``: of the channels that are installed."""

    def __init__(self, environ: Mapping[str, str], manifests: Mapping[str, Manifest]) -> None:
        self._environ = environ
        self._manifests = manifests

    def answer(self, home: Home, answers: Answers) -> bool:
        """Asks the model and the channels as far as that can be done now; each failure says the
        page and the step."""
        try:
            environ = environment(self._environ)
            config = load(environ=environ, manifests=self._manifests)
        except ConfigError as error:
            problems = str(error).splitlines()
            for problem in problems:
                mark = "missing" if "missing secret" in problem else "wrong  "
                click.echo(f"{mark} {problem}")
                for name in answers.channels:
                    if f"channels.{name}." in problem and name in self._manifests:
                        asks = platforms.setup_of(self._manifests[name]).asks
                        prefix = f"channels.{name}."
                        pages = [ask.page for ask in asks if f"{prefix}{ask.key}:" in problem]
                        env_file = home.root / ".env"
                        where = f"{pages[0]}; then put it into {env_file}" if pages else home.config
                        click.echo(f"        {where}")
            return all("missing secret" in problem for problem in problems)
        result = asyncio.run(
            build.try_model(config, environ, config.profile_name, config.profile, limit=_TIMEOUT)
        )
        if result.offline:
            click.echo(
                "model   none yet: set ANTHROPIC_API_KEY or OPENAI_API_KEY, or start a model server"
                " on this machine (docs/models.md)"
            )
        elif result.fine:
            click.echo(f"model   {result.who} answered")
        else:
            click.echo(f"failed  {result.text}\n        {result.next}")
        if not result.fine:
            return False
        from ohmo.doctor.examination import examine, survey

        facts = survey(environ, lambda _: None)
        fine = True
        only = tuple(f"channels.{name}" for name in platforms.NAMES)
        for examined in examine(facts, live=True, only=only):
            name = examined.check.name.partition(".")[2]
            finding = examined.finding
            if finding.state == "ok":
                click.echo(f"channel {name}: connected")
            elif finding.state == "problem":
                fine = False
                click.echo(f"failed  {finding.text}\n        {finding.next}")
        return fine

    def install_service(self, service: bool | None, *, asking: bool) -> bool:
        """Nothing is installed, started or offered that would not start with this configuration;
        False: though ``service`` said so. Raises ClickException."""
        if service is False or (service is None and not asking):
            return True
        try:
            load(environ=service_environment(self._environ), manifests=self._manifests)
        except ConfigError as error:
            problem = str(error).splitlines()[0]
            click.echo(
                f"{'failed' if service else 'note':7} the service is left as it is, because it"
                f" would not start with this configuration: {problem}; mend it, then: ohmo service"
                " install && ohmo service start"
            )
            return not service
        if not service and not click.confirm(
            "Install and start the service, so that ohmo is always on?", default=False
        ):
            return True
        for verb in ("install", "start"):
            command = [sys.executable, "-P", "-m", "ohmo", "service", verb]
            if subprocess.run(command, check=False).returncode != 0:  # noqa: S603
                raise click.ClickException(
                    f"ohmo service {verb} failed; the files stand, ohmo run starts it in the"
                    " foreground"
                )
        return True


def choose_models(environ: Mapping[str, str], endpoint: Endpoint) -> tuple[str, ...]:
    """Shows the endpoint's models and lets one be chosen; empty: the provider's own. ``endpoint``:
    without models; its key may stand in the environment."""
    providers = build.manifests(scan)
    names = asyncio.run(offered(build.settled(endpoint, providers, environment(environ))))
    usual = providers[endpoint.provider].models[-1]
    if not names:
        click.echo("        the endpoint does not say which models it has")
        default = "" if endpoint.base_url else usual
        typed = click.prompt(
            "Model (empty: decide later)", default=default, show_default=bool(default)
        )
        return (typed,) if typed and typed != usual else ()
    names = sorted(names, key=lambda name: (name != usual, name))
    for number, name in enumerate(names[:_SHOWN_MODELS], 1):
        click.echo(f"  {number}) {name}")
    if len(names) > _SHOWN_MODELS:
        click.echo(f"  and {len(names) - _SHOWN_MODELS} more; any can be typed")
    chosen = click.prompt(
        "Model, its number or name",
        default=names[0],
        value_proc=lambda typed: _model_of(names, typed),
    )
    return (chosen,)


def _model_of(names: Sequence[str], typed: str) -> str:
    word = typed.strip()
    count = min(len(names), _SHOWN_MODELS)
    if word.isascii() and word.isdigit() and 1 <= int(word[:6]) <= count:
        return names[int(word) - 1]
    if word not in names:
        close = nearest(word, names)
        hint = f", did you mean {close}?" if close else ""
        raise click.UsageError(f"{word}: the endpoint has no such model{hint}")
    return word
