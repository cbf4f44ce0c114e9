"""What the model is saying just now: kept, when its turn is cut off before a step has it."""

from __future__ import annotations

from dataclasses import replace

from channels.record import record
from ohmo.contracts.events import Event, ModelDone, TextDelta, TextReset
from ohmo.contracts.messages import ModelStep, Text, UserStep
from ohmo.sessions import words


@record
class Saying:
    """``text``: the newest words, of ``model``. ``kept``: a step has them. ``over``: what comes
    next begins anew."""

    model: str = ""
    text: str = ""
    kept: bool = True
    over: bool = False

    def after(self, event: Event, *, kept: bool) -> Saying:
        """``kept``: what a model call that ended with this event said is written."""
        match event:
            case TextDelta(_, text):
                return replace(
                    self, text=text if self.over else self.text + text, kept=False, over=False
                )
            case ModelDone(_, text):
                return replace(self, text=text, kept=kept, over=True)
            case TextReset():
                return replace(self, text="", kept=True, over=False)
            case _:
                return self

    def steps(self) -> tuple[ModelStep | UserStep, ...]:
        """For the next request: what was said and is not written, and that it was stopped."""
        said = (
            ()
            if self.kept or not self.text.strip()
            else (ModelStep((Text(self.text.strip()),), self.model, "end"),)
        )
        return (*said, UserStep((Text(words.CUT_OFF),), "house", "notice"))
