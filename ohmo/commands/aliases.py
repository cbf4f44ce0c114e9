"""What people type who come from another agent: the same under our name, or one line that says what
there is instead. ``docs/commands.md`` has a row for each; a command of ours with the same name goes
first."""

from __future__ import annotations

from collections.abc import Mapping

SAME: Mapping[str, str] = {
    "abort": "stop",
    "about": "status",
    "cancel": "stop",
    "clear": "new",
    "commands": "help",
    "continue": "resume",
    "cost": "usage",
    "id": "whoami",
    "load": "resume",
    "menu": "help",
    "models": "model",
    "reasoning": "effort",
    "reset": "new",
    "rewind": "rollback",
    "session": "resume",
    "sessions": "resume",
    "stats": "usage",
    "think": "effort",
    "tokens": "usage",
}

_LATER = "`/{}` comes in a later version. `/help` shows what there is."
_ASK = (
    "There is no `/{}` here: ask for it in your own words. Before something is changed, you are"
    " asked."
)
_GOES_ON = (
    "There is no `/{}` here, and none is needed: a conversation goes on by itself, also after a"
    " restart. `/resume` lists the earlier ones."
)
_CONFIG = (
    "There is no `/{}` here: `/model` and `/mode` change this conversation, the rest is the owner's"
    " to set."
)
_PROFILE = (
    "There is no `/{}` here: `/model` shows the models there are, and `/model NAME` takes another"
    " one."
)
_VENDOR = "There is no `/{}` here: no account of a vendor stands behind this conversation."
_NO = "There is no `/{}` here. `/help` shows what there is."

_LINES: Mapping[str, str] = {
    _LATER: (
        "agents autopilot doctor dream hooks keybindings mcp output-style"
        " skills subagents summary tasks upgrade vim"
    ),
    _ASK: (
        "branch bug commit files history image issue pr_comments pr-comments review search"
        " ship todos"
    ),
    _GOES_ON: "save",
    _CONFIG: "config init language privacy-settings settings turns",
    _PROFILE: "fast provider",
    _VENDOR: "feedback login logout onboarding passes",
    _NO: "bridge tag theme verbose voice",
    "There is no `/{}` here: close the window, or simply stop writing. `/stop` ends what runs.": (
        "exit quit"
    ),
    "There is no `/{}` here: copy what you see.": "copy",
    "There is no `/{}` here: `ohmo plugins list` shows them, and what you trust counts at once.": (
        "plugin reload-plugins"
    ),
    "There is no `/{}` here: `/export` gives you this conversation as a file.": "share",
    "There is no `/{}` here: waits are obeyed, and whoever waits is told.": "rate-limit-options",
    "There is no `/{}` here: what changed stands in CHANGELOG.md.": "release-notes",
}
INSTEAD: Mapping[str, str] = {
    name: line.format(name) for line, names in _LINES.items() for name in names.split()
}
