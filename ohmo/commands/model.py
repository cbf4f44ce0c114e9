"""``/model [NAME|default]``: which of the configured models answers in this thread."""

from __future__ import annotations

from dataclasses import replace
from difflib import get_close_matches

from ohmo.commands.contract import Choose, Command, Desk, Effect, Order, Reply


async def run(order: Order, desk: Desk) -> Effect:
    models, choice = desk.models(), order.argument
    if not choice:
        # what was chosen by other means than this command is named, too
        present = order.settings.model or models[-1]
        lines = ["Models, small to large:", ""]
        for name in models:
            default = " (default)" if name == models[-1] else ""
            here = " ← here" if name == present else ""
            lines.append(f"- `{name}`{default}{here}")
        if present not in models:
            lines.append(f"- `{present}` ← here")
        if order.standing != "guest":
            lines += ["", "Say `/model NAME`, or `/model default`."]
        return Reply("\n".join(lines))
    if order.standing == "guest":
        return Reply("A guest cannot choose the model.")
    if choice.lower() == "default":
        return Choose(
            f"This conversation uses the default model now: `{models[-1]}`.",
            replace(order.settings, model=None),
        )
    model = next((name for name in models if name.lower() == choice.lower()), None)
    if model is None:
        close = get_close_matches(choice, models, n=1)
        meant = f" Did you mean `{close[0]}`?" if close else ""
        return Reply(
            f"`{choice[:100]}` is not configured.{meant} Say `/model` to see which are; they stand"
            " under `models` of the profile."
        )
    return Choose(f"This conversation uses `{model}` now.", replace(order.settings, model=model))


COMMAND = Command(
    "model",
    "which model answers here; another one, or `default`",
    run,
    usage="[NAME|default]",
    place=40,
)
