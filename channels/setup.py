"""How an account is made on a platform: its own steps and pages, what to ask for, and the texts to
paste there."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from channels.record import record

Known = Mapping[str, str]
"""What was answered so far, by key of the platform's settings; a secret is its value."""


@record
class Ask:
    """One key of the platform's settings. ``page``: where its value is found, exactly. ``default``
    None: it has to be given."""

    key: str
    question: str
    page: str
    secret: bool = False
    default: str | None = None


@record
class Document:
    """A text for the platform's own pages, kept in the home under ``setup/``. ``text`` is made from
    what is known."""

    name: str
    text: Callable[[Known], str]


@record
class Setup:
    """Exported as ``SETUP`` by ``channels.NAME.setup``. ``steps``: lines that may name
    ``{documents}``' files. ``after``: what is done once the keys are there, made from what is known
    (an invite link holds an id)."""

    steps: tuple[str, ...]
    asks: tuple[Ask, ...]
    documents: tuple[Document, ...] = ()
    after: Callable[[Known], tuple[str, ...]] = lambda _: ()
