"""Options by which an allowed command would do more than the rule that allows it says."""

from __future__ import annotations

import re

from ohmo.permissions.patterns import word_set
from ohmo.permissions.shell.git import git_goes_further
from ohmo.permissions.shell.script import Simple

_OPTIONS: dict[str, re.Pattern[str]] = {
    "make": re.compile(r"-[fCIE].*|--(f|di|e|inc|mak|c).*|(SHELL|MAKEFLAGS|\.SHELLFLAGS|MAKEFILES)=.*"),
    "cargo": re.compile(r"--config.*|-Z.*"),
    "go": re.compile(r"-(exec|toolexec|overlay|modfile|vettool)\b.*"),
    "npm": re.compile(r"--(script-shell|prefix|globalconfig|userconfig|node-options|scripts-prepend).*|-C.*"),
    "pnpm": re.compile(r"--(script-shell|prefix|dir|shell-emulator|node-options).*|-C.*"),
    "yarn": re.compile(r"--(cwd|script-shell|use-yarnrc|node-options).*"),
    "tar": re.compile(r"--(to-c|checkpoint|use-c|rsh|info-s|new-vol|abs).*|-\w*[IFP].*"),
    "rsync": re.compile(r"-\w*e.*|--(rsh|rsync-path).*"),
    "find": re.compile(r"-(exec|execdir|ok|okdir|delete|fprint.*|fls)"),
    "pytest": re.compile(r"-[pc].*|--(rootdir|confcutdir|pyargs|override-ini|basetemp).*|-o"),
}
# verbs that run what the next word names: only the whole command is remembered
RUNNERS = word_set(
    """run run-script exec x dlx eval config alias api create rebase bisect submodule filter-branch difftool mergetool debug cp apply
        ssh tool shell init start attach compose plugin extension completion edit replace patch proxy link submodule daemon remote
        explore publish set-env edit-env add-on"""
)


def goes_further(simple: Simple) -> bool:
    """Asked for rules that end in a wildcard and say more than a program's name."""
    words = simple.words[1:]
    if simple.name == "git":
        return git_goes_further(words)
    form = _OPTIONS.get(simple.name)
    return form is not None and any(form.fullmatch(word) for word in words)
