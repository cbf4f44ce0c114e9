"""``ohmo init``, step by step: what no flag says is asked for at a terminal, and left as it is in a
script."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import click

from channels.contract import Manifest
from channels.record import record
from channels.registry import Ask, Setup
from ohmo.cli.connect import connect
from ohmo.cli.setup_checks import SetupChecks, choose_models
from ohmo.config.home import Home, environment, find_home
from ohmo.config.problems import nearest
from ohmo.config.values import Secret
from ohmo.contracts.errors import ConfigError
from ohmo.providers.models import Endpoint
from ohmo.setup import openharness, platforms
from ohmo.setup.answers import Answers, Done, Value, earlier, furnish, lay_out, merged, variable


@record
class InitFlags:
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
    """``manifests``: of the channels that are installed; ``asking``: somebody sits there."""

    def __init__(
        self,
        environ: Mapping[str, str],
        manifests: Mapping[str, Manifest],
        checks: SetupChecks,
        *,
        asking: bool,
    ) -> None:
        self._environ = environ
        self._manifests = manifests
        self._checks = checks
        self._asking = asking

    def run(self, flags: InitFlags, *, test: bool, service: bool | None, deaf: bool = False) -> int:
        """0; 1 when the files stand but a test failed, or the service that was asked for would not
        start. ``deaf``: nobody can be asked, though nothing says that nothing should be."""
        home = find_home(self._environ)
        imported = self._import(home, flags)
        answers = earlier(home)
        if imported is not None:
            answers = merged(answers, imported.answers)
        answers = merged(answers, self._model(flags, answers, home))
        answers = merged(answers, self._channels(flags, answers))
        answers = merged(answers, self._owner(flags, answers))
        if "web" not in answers.channels:
            answers = replace(answers, channels={**answers.channels, "web": {}})
        documents, next_steps = self._documents(answers)
        if imported is None:
            files = furnish(home, answers, {}, {}, documents)
        else:
            files = furnish(
                home,
                answers,
                imported.pages,
                imported.notes,
                documents,
                beside=True,
                imported=imported.answers.secrets,
            )
        self._report(files, flagged=flags != InitFlags())
        if deaf and flags == InitFlags():
            click.echo(
                "note    standard input is no terminal, so nothing was asked and nothing read from"
                " it; every step has a flag: ohmo init --help"
            )
        for line in imported.notices if imported is not None else ():
            click.echo(f"note    {line}")
        fine = self._checks.answer(home, answers) if test else True
        fine = self._checks.install_service(service, asking=self._asking) and fine
        environ = environment(self._environ)
        variables = [
            value.removeprefix("env:")
            for settings in answers.channels.values()
            for value in settings.values()
            if isinstance(value, str) and value.startswith("env:")
        ]
        if missing := [name for name in variables if not environ.get(name)]:
            click.echo(
                f"next    put {', '.join(missing)} into {home.root / '.env'} (NAME=value lines,"
                " chmod 600) or into the environment"
            )
        for line in next_steps:
            click.echo(f"next    {line}")
        if connect(None, self._environ).probe("/healthz"):
            click.echo("next    ohmo status (it runs, and takes this over within seconds)")
        else:
            click.echo("next    ohmo config check, then ohmo run")
        return 0 if fine else 1

    def _import(self, home: Home, flags: InitFlags) -> openharness.Found | None:
        """What another program left, when it shall be taken over. Raises UsageError,
        ConfigError."""
        if flags.source_kind is None:
            if flags.source is not None:
                raise click.UsageError("--source goes with --from openharness")
            if home.foreign():
                raise ConfigError(
                    f"{home.root} belongs to another program (it holds gateway.json); ohmo init"
                    " --from openharness takes it over and leaves its files as they are, or set"
                    " OHMO_HOME to a folder of its own"
                )
            return None
        user = Path(self._environ.get("HOME", "~")).expanduser()
        usual = home.root if home.foreign() else user / ".ohmo"
        data = Path(self._environ.get("OPENHARNESS_DATA_DIR") or user / ".openharness" / "data")
        return openharness.read((flags.source or usual).expanduser().absolute(), data)

    # the model
    def _model(self, flags: InitFlags, old: Answers, home: Home) -> Answers:
        provider, base_url, models = flags.provider or "", flags.base_url or "", flags.models
        if self._asking and flags.provider is None and not home.config.exists():
            provider = click.prompt(
                "Model provider",
                default="auto",
                type=click.Choice(["auto", "anthropic", "openai", "offline"]),
            )
            if provider in ("anthropic", "openai") and flags.base_url is None:
                base_url = click.prompt(
                    "Address of the endpoint (empty: the maker's own)",
                    default="",
                    show_default=False,
                    value_proc=_address,
                )
        # The key: a reference, and the secret behind it when it was given here.
        maker = provider or old.provider
        variable_of_key = {"openai": "OPENAI_API_KEY"}.get(maker, "ANTHROPIC_API_KEY")
        key = flags.api_key or ""
        missing = not environment(self._environ).get(variable_of_key)
        if flags.api_key is None and self._asking and maker in ("anthropic", "openai") and missing:
            key = click.prompt(
                f"API key (goes to .env as {variable_of_key}; empty: later)",
                default="",
                hide_input=True,
                show_default=False,
            )
        if key == "-":
            key = sys.stdin.readline().strip()
        secrets: dict[str, str] = {}
        if key and Secret(key).kind == "literal":
            secrets[variable_of_key] = key
            key = f"env:{variable_of_key}"
        if self._asking and not models and provider in ("anthropic", "openai"):
            models = choose_models(
                self._environ,
                Endpoint(provider, (), base_url or None, secrets.get(key.removeprefix("env:"))),
            )
        return Answers(
            provider=provider or "auto",
            base_url=base_url,
            models=models,
            api_key=key,
            preset=flags.preset or "balanced",
            workspace=flags.workspace or "",
            secrets=secrets,
        )

    # channels
    def _channels(self, flags: InitFlags, old: Answers) -> Answers:
        names = list(flags.channels)
        given: dict[str, dict[str, str]] = {}  # by channel and key
        for text in flags.values:
            path, equals, value = text.partition("=")
            name, _, key = path.partition(".")
            if not equals or not name or not key or not value:
                raise click.UsageError(
                    f"--set {path}: expected CHANNEL.KEY=VALUE, for example"
                    " telegram.token=123456:ABC"
                )
            given.setdefault(name, {})[key] = value
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
            former = old.channels.get(name, {})
            channels[name], new = self._channel(manifest, given.get(name, {}), former)
            secrets |= new
        return Answers(channels=channels, secrets=secrets)

    def _channel(
        self, manifest: Manifest, given: Mapping[str, str], old: Mapping[str, Value]
    ) -> tuple[dict[str, Value], dict[str, str]]:
        setup = platforms.setup_of(manifest)
        click.echo(f"{manifest.title}:")
        folder = find_home(self._environ).root / "setup"
        for number, step in enumerate(setup.steps, 1):
            for document in setup.documents:
                step = step.replace("{" + document.name + "}", str(folder / document.name))  # noqa: PLW2901
            click.echo(f"  {number}. {step}")
        fields = {*platforms.keys(manifest), "dm", "groups", "mention", "account"}
        settings: dict[str, Value] = {}
        secrets: dict[str, str] = {}
        for key in given:
            if key not in fields:
                close = nearest(key, sorted(fields))
                hint = f"did you mean {close}?" if close else f"known: {', '.join(sorted(fields))}"
                raise click.UsageError(f"--set {manifest.name}.{key}: unknown key, {hint}")
        asks = {ask.key: ask for ask in setup.asks}
        self._write_documents(setup, old)
        for key in dict.fromkeys((*asks, *given)):
            ask = asks.get(key, Ask(key, key, "", secret=key in manifest.secrets))
            name = variable(manifest.name, key)
            value = given.get(key) or None
            is_set = key in old or (ask.secret and environment(self._environ).get(name))
            if value is None and self._asking and not is_set:
                click.echo(f"        ({ask.page})")
                typed = click.prompt(
                    f"{manifest.title}: {ask.question}",
                    default=ask.default or "",
                    hide_input=ask.secret,
                    show_default=bool(ask.default),
                )
                value = typed.strip() or None
            if value is None:
                if ask.secret and key not in old:
                    settings[key] = f"env:{name}"
            elif ask.secret and Secret(value).kind == "literal":
                secrets[name] = value
                settings[key] = f"env:{name}"
            else:
                settings[key] = value
                # the next step may paste a text that holds it
                self._write_documents(setup, {**old, **settings})
        return settings, secrets

    def _write_documents(self, setup: Setup, settings: Mapping[str, Value]) -> None:
        """What a step says to paste is there when somebody sits before it."""
        if self._asking and setup.documents:
            known = self._known(settings, {})
            texts = {document.name: document.text(known) for document in setup.documents}
            lay_out(find_home(self._environ), texts)

    def _known(
        self, settings: Mapping[str, Value], secrets: Mapping[str, str]
    ) -> Mapping[str, str]:
        """The texts among the settings, with the values of variables they name."""
        environ = {**environment(self._environ), **secrets}
        return {
            key: environ.get(value[4:], "") if value.startswith("env:") else value
            for key, value in settings.items()
            if isinstance(value, str)
        }

    def _documents(self, answers: Answers) -> tuple[dict[str, str], list[str]]:
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
    def _owner(self, flags: InitFlags, old: Answers) -> Answers:
        for owner in flags.owner:
            if not _is_owner(owner):
                raise click.UsageError(
                    f"--owner {owner!r}: expected CHANNEL:ID, for example slack:U123"
                )
        if (
            flags.owner
            or old.owner
            or not self._asking
            or not [name for name in old.channels if name != "web"]
        ):
            return Answers(owner=flags.owner)
        click.echo(
            "Owner: who hears of trouble and may do everything. Not known yet? Write to the bot: it"
            " answers with a code for ohmo pairing approve; /whoami shows the id."
        )
        owner = click.prompt(
            "Owner, as CHANNEL:ID (empty: later)", default="", show_default=False, value_proc=_owner
        )
        return Answers(owner=(owner,) if owner else ())

    def _report(self, files: list[Done], *, flagged: bool) -> None:
        for file in files:
            rest = f": {file.wanted}" if file.path.name == ".env" and file.wanted else ""
            click.echo(f"{file.what:7} {file.path}{rest}")
            if file.what == "kept" and file.wanted and flagged and file.path.suffix == ".yaml":
                click.echo(
                    f"        you edited {file.path.name}, so it stays; with what was asked for it"
                    " would read:"
                )
                for line in file.wanted.splitlines():
                    click.echo(f"        | {line}")


def _some_of(offered: Sequence[str], typed: str) -> list[str]:
    """A name that is none is asked for again, not left out."""
    names = [name.lower() for name in typed.replace(",", " ").split()]
    for name in names:
        if name not in offered:
            close = nearest(name, offered)
            hint = f", did you mean {close}?" if close else ""
            raise click.UsageError(f"{name}: there is no such platform{hint}")
    return names


def _address(typed: str) -> str:
    """``http://…`` or ``https://…``, or nothing."""
    typed = typed.strip()
    if typed and not typed.lower().startswith(("http://", "https://")):
        raise click.UsageError(
            f"{typed!r}: expected an address that begins with http:// or https://"
        )
    return typed


def _owner(typed: str) -> str:
    """``CHANNEL:ID``, or nothing."""
    typed = typed.strip()
    if typed and not _is_owner(typed):
        raise click.UsageError(f"{typed!r}: expected CHANNEL:ID, for example slack:U123")
    return typed


def _is_owner(text: str) -> bool:
    channel, _, person = text.partition(":")
    return bool(channel and person) and not any(c in text for c in '"\\\n')
