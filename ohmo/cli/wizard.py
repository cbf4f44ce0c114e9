"""The steps of ``ohmo init``, each with its flag: what was not said is asked for at a terminal, and
left as it is in a script."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import click

from channels.contract import Manifest
from channels.record import record
from channels.registry import Ask, Setup, discover
from ohmo.cli.choosing import models_chosen
from ohmo.cli.client import connect
from ohmo.cli.trial import Trial
from ohmo.config.home import Home, environment, find_home
from ohmo.config.problems import nearest
from ohmo.config.secrets import Secret
from ohmo.contracts.errors import ConfigError
from ohmo.providers.manifest import Endpoint
from ohmo.setup import openharness, platforms
from ohmo.setup.answers import Answers, Value, merged, variable
from ohmo.setup.furnish import Done, earlier, furnish, lay_out


@record
class Wishes:
    """What the flags say; empty: nothing."""

    provider: str | None = None
    base_url: str | None = None
    models: tuple[str, ...] = ()
    api_key: str | None = None
    preset: str | None = None
    workspace: str | None = None
    channels: tuple[str, ...] = ()
    values: tuple[str, ...] = ()
    owner: tuple[str, ...] = ()
    source_kind: str | None = None
    source: Path | None = None


class Wizard:
    """``asking``: somebody sits there."""

    def __init__(self, environ: Mapping[str, str], *, asking: bool) -> None:
        self._environ = environ
        self._asking = asking
        self._manifests: Mapping[str, Manifest] = discover().manifests

    def run(self, wishes: Wishes, *, test: bool, service: bool | None, deaf: bool = False) -> int:
        """0; 1 when the files stand but a test failed, or the service that was asked for would not
        start. ``deaf``: nobody can be asked, though nothing says that nothing should be."""
        home = find_home(self._environ)
        taken = self._taken_over(home, wishes)
        self._refuse_foreign(home, taken)
        answers = merged(earlier(home), taken.answers) if taken is not None else earlier(home)
        answers = merged(answers, self._model(wishes, answers, home))
        answers = merged(answers, self._channels(wishes, answers))
        answers = self._defaults(merged(answers, self._owner(wishes, answers)))
        texts, after = self._texts(answers)
        if taken is None:
            done = furnish(home, answers, {}, {}, texts)
        else:
            done = furnish(
                home,
                answers,
                taken.pages,
                taken.notes,
                texts,
                beside=True,
                imported=taken.answers.secrets,
            )
        self._report(done, said=wishes != Wishes())
        if deaf and wishes == Wishes():
            click.echo(
                "note    standard input is no terminal, so nothing was asked and nothing read from"
                " it; every step has a flag: ohmo init --help"
            )
        for line in taken.told if taken is not None else ():
            click.echo(f"note    {line}")
        trial = Trial(self._environ, self._manifests)
        fine = trial.tests(home, answers) if test else True
        fine = trial.serves(service, asking=self._asking) and fine
        if absent := self._absent(answers):
            click.echo(
                f"next    put {', '.join(absent)} into {home.root / '.env'} (NAME=value lines,"
                " chmod 600) or into the environment"
            )
        for line in after:
            click.echo(f"next    {line}")
        runs = connect(None, self._environ).probe("/healthz")
        click.echo(
            "next    ohmo status (it runs, and takes this over within seconds)"
            if runs
            else "next    ohmo config check, then ohmo run"
        )
        return 0 if fine else 1

    def _absent(self, answers: Answers) -> list[str]:
        """Variables that enabled channels name and nobody has set."""
        known = environment(self._environ)
        named = [
            value
            for settings in answers.channels.values()
            for value in settings.values()
            if isinstance(value, str)
        ]
        return [
            name
            for value in named
            if value.startswith("env:") and not known.get(name := value.removeprefix("env:"))
        ]

    # taking over
    def _taken_over(self, home: Home, wishes: Wishes) -> openharness.Found | None:
        if wishes.source_kind is None:
            if wishes.source is not None:
                raise click.UsageError("--source goes with --from openharness")
            return None
        user = Path(self._environ.get("HOME", "~")).expanduser()
        usual = home.root if home.foreign() else user / ".ohmo"
        data = Path(self._environ.get("OPENHARNESS_DATA_DIR") or user / ".openharness" / "data")
        return openharness.read((wishes.source or usual).expanduser().absolute(), data)

    def _refuse_foreign(self, home: Home, taken: openharness.Found | None) -> None:
        if home.foreign() and taken is None:
            raise ConfigError(
                f"{home.root} belongs to another program (it holds gateway.json); ohmo init --from"
                " openharness takes it over and leaves its files as they are, or set OHMO_HOME to"
                " a folder of its own"
            )

    # the model
    def _model(self, wishes: Wishes, old: Answers, home: Home) -> Answers:
        provider, base_url, models = wishes.provider or "", wishes.base_url or "", wishes.models
        if self._asking and wishes.provider is None and not home.config.exists():
            provider = click.prompt(
                "Model provider",
                default="auto",
                type=click.Choice(["auto", "anthropic", "openai", "offline"]),
            )
            if provider in ("anthropic", "openai") and wishes.base_url is None:
                base_url = click.prompt(
                    "Address of the endpoint (empty: the maker's own)",
                    default="",
                    show_default=False,
                    value_proc=_address,
                )
        key, secrets = self._key(wishes, provider or old.provider)
        if self._asking and not models and provider in ("anthropic", "openai"):
            models = models_chosen(
                self._environ,
                Endpoint(provider, (), base_url or None, secrets.get(key.removeprefix("env:"))),
            )
        return Answers(
            provider=provider or "auto",
            base_url=base_url,
            models=models,
            api_key=key,
            preset=wishes.preset or "balanced",
            workspace=wishes.workspace or "",
            secrets=secrets,
        )

    def _key(self, wishes: Wishes, provider: str) -> tuple[str, dict[str, str]]:
        """A reference, and the secret behind it when it was given here."""
        name = {"openai": "OPENAI_API_KEY"}.get(provider, "ANTHROPIC_API_KEY")
        written = wishes.api_key
        if (
            written is None
            and self._asking
            and provider in ("anthropic", "openai")
            and not environment(self._environ).get(name)
        ):
            written = click.prompt(
                f"API key (goes to .env as {name}; empty: later)",
                default="",
                hide_input=True,
                show_default=False,
            )
        if not written:
            return "", {}
        if written == "-":
            written = sys.stdin.readline().strip()
        if Secret(written).kind != "literal":
            return written, {}
        return f"env:{name}", {name: written}

    # channels
    def _channels(self, wishes: Wishes, old: Answers) -> Answers:
        names = list(wishes.channels)
        given = _values(wishes.values)
        names += [name for name in given if name not in names]
        if self._asking and not names and not [name for name in old.channels if name != "web"]:
            offered = [name for name in platforms.NAMES if name in self._manifests]
            names = click.prompt(
                f"Chat platforms, with spaces between ({' '.join(offered)}; empty: only the"
                " browser)",
                default="",
                show_default=False,
                value_proc=partial(_some_of, offered),
            )
        channels: dict[str, Mapping[str, Value]] = {}
        secrets: dict[str, str] = {}
        for name in names:
            manifest = self._manifests.get(name)
            if manifest is None:
                raise click.ClickException(
                    f"{name}: this channel is not installed; there are {', '.join(self._manifests)}"
                )
            settings, found = self._channel(
                manifest, given.get(name, {}), old.channels.get(name, {})
            )
            channels[name] = settings
            secrets |= found
        return Answers(channels=channels, secrets=secrets)

    def _channel(
        self, manifest: Manifest, given: Mapping[str, str], old: Mapping[str, Value]
    ) -> tuple[dict[str, Value], dict[str, str]]:
        setup = platforms.setup_of(manifest)
        self._steps(manifest, setup)
        fields = {*platforms.keys(manifest), "dm", "groups", "mention", "account"}
        settings: dict[str, Value] = {}
        secrets: dict[str, str] = {}
        for key in given:
            if key not in fields:
                close = nearest(key, sorted(fields))
                raise click.UsageError(
                    f"--set {manifest.name}.{key}: unknown key, "
                    + (f"did you mean {close}?" if close else f"known: {', '.join(sorted(fields))}")
                )
        asks = {ask.key: ask for ask in setup.asks}
        self._lay_out(setup, old)
        for key in dict.fromkeys((*asks, *given)):
            ask = asks.get(key, Ask(key, key, "", secret=key in manifest.secrets))
            value = given.get(key) or self._asked(manifest, ask, old)
            if value is None:
                settings |= (
                    {key: f"env:{variable(manifest.name, key)}"}
                    if ask.secret and key not in old
                    else {}
                )
            elif ask.secret and Secret(value).kind == "literal":
                secrets[variable(manifest.name, key)] = value
                settings[key] = f"env:{variable(manifest.name, key)}"
            else:
                settings[key] = value
                self._lay_out(
                    setup, {**old, **settings}
                )  # the next step may paste a text that holds it
        return settings, secrets

    def _lay_out(self, setup: Setup, settings: Mapping[str, Value]) -> None:
        """What a step says to paste is there when somebody sits before it."""
        if self._asking and setup.documents:
            lay_out(
                find_home(self._environ),
                {
                    document.name: document.text(self._known(settings, {}))
                    for document in setup.documents
                },
            )

    def _known(
        self, settings: Mapping[str, Value], secrets: Mapping[str, str]
    ) -> Mapping[str, str]:
        surroundings = {**environment(self._environ), **secrets}
        return {
            key: surroundings.get(value[4:], "") if value.startswith("env:") else value
            for key, value in settings.items()
            if isinstance(value, str)
        }

    def _asked(self, manifest: Manifest, ask: Ask, old: Mapping[str, Value]) -> str | None:
        if (
            not self._asking
            or ask.key in old
            or (ask.secret and environment(self._environ).get(variable(manifest.name, ask.key)))
        ):
            return None
        click.echo(f"        ({ask.page})")
        found = click.prompt(
            f"{manifest.title}: {ask.question}",
            default=ask.default or "",
            hide_input=ask.secret,
            show_default=bool(ask.default),
        )
        return found.strip() or None

    def _steps(self, manifest: Manifest, setup: Setup) -> None:
        click.echo(f"{manifest.title}:")
        folder = find_home(self._environ).root / "setup"
        for number, step in enumerate(setup.steps, 1):
            for document in setup.documents:
                step = step.replace("{" + document.name + "}", str(folder / document.name))  # noqa: PLW2901
            click.echo(f"  {number}. {step}")

    def _texts(self, answers: Answers) -> tuple[dict[str, str], list[str]]:
        """The platforms' documents, and what is left to do there."""
        texts: dict[str, str] = {}
        after: list[str] = []
        for name, settings in answers.channels.items():
            manifest = self._manifests.get(name)
            if manifest is None or name == "web":
                continue
            known = self._known(settings, answers.secrets)
            setup = platforms.setup_of(manifest)
            texts |= {document.name: document.text(known) for document in setup.documents}
            after += setup.after(known)
        return texts, after

    # the owner
    def _owner(self, wishes: Wishes, old: Answers) -> Answers:
        for owner in wishes.owner:
            if not _is_owner(owner):
                raise click.UsageError(
                    f"--owner {owner!r}: expected CHANNEL:ID, for example slack:U123"
                )
        if (
            wishes.owner
            or old.owner
            or not self._asking
            or not [name for name in old.channels if name != "web"]
        ):
            return Answers(owner=wishes.owner)
        click.echo(
            "Owner: who hears of trouble and may do everything. Not known yet? Write to the bot: it"
            " answers with a code for ohmo pairing approve; /whoami shows the id."
        )
        said = click.prompt(
            "Owner, as CHANNEL:ID (empty: later)", default="", show_default=False, value_proc=_owner
        )
        return Answers(owner=(said,) if said else ())

    def _defaults(self, answers: Answers) -> Answers:
        return (
            answers
            if "web" in answers.channels
            else replace(answers, channels={**answers.channels, "web": {}})
        )

    def _report(self, done: list[Done], *, said: bool) -> None:
        for one in done:
            words = f": {one.wanted}" if one.path.name == ".env" and one.wanted else ""
            click.echo(f"{one.what:7} {one.path}{words}")
            if one.what == "kept" and one.wanted and said and one.path.suffix == ".yaml":
                click.echo(
                    f"        you edited {one.path.name}, so it stays; with what was asked for it"
                    " would read:"
                )
                click.echo(
                    "".join(f"        | {line}\n" for line in one.wanted.splitlines()), nl=False
                )


def _some_of(offered: Sequence[str], said: str) -> list[str]:
    """What somebody typed; a name that is none is asked for again, not left out."""
    names = [name.lower() for name in said.replace(",", " ").split()]
    for name in names:
        if name not in offered:
            close = nearest(name, offered)
            raise click.UsageError(
                f"{name}: there is no such platform" + (f", did you mean {close}?" if close else "")
            )
    return names


def _address(said: str) -> str:
    """``http://…`` or ``https://…``, or nothing."""
    if (said := said.strip()) and not said.lower().startswith(("http://", "https://")):
        raise click.UsageError(
            f"{said!r}: expected an address that begins with http:// or https://"
        )
    return said


def _owner(said: str) -> str:
    """``CHANNEL:ID``, or nothing."""
    if (said := said.strip()) and not _is_owner(said):
        raise click.UsageError(f"{said!r}: expected CHANNEL:ID, for example slack:U123")
    return said


def _is_owner(said: str) -> bool:
    channel, _, who = said.partition(":")
    return bool(channel and who) and not any(c in said for c in '"\\\n')


def _values(written: tuple[str, ...]) -> dict[str, dict[str, str]]:
    """``CHANNEL.KEY=VALUE`` by channel and key."""
    found: dict[str, dict[str, str]] = {}
    for one in written:
        path, equals, value = one.partition("=")
        name, dot, key = path.partition(".")
        if not equals or not dot or not name or not key or not value:
            raise click.UsageError(
                f"--set {path}: expected CHANNEL.KEY=VALUE, for example telegram.token=123456:ABC"
            )
        found.setdefault(name, {})[key] = value
    return found
