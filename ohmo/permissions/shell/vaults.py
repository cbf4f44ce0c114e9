"""Commands that give secrets away without naming a path: keyrings, credential helpers, other
processes' memory and environment."""

from __future__ import annotations

import re

from ohmo.permissions.shell.script import Simple

_TELLS: dict[str, str] = {  # program: what its arguments, joined by spaces, look like when it does
    "getent": r".*\bg?shadow\b.*",
    "unshadow": r".*",
    "gpg": r".*--(export-secret|export-ssh|decrypt).*|.*-d( .*)?",
    "gpg2": r".*--(export-secret|export-ssh|decrypt).*",
    "secret-tool": r"(lookup|search).*",
    "keyring": r"get.*",
    "kwallet-query": r".*",
    "security": r"(find-|dump-keychain|export).*",
    "pass": r"(show.*|(?!ls|list|git|insert|init|version|help)\S.*)",
    "gopass": r"(show|cat|env).*",
    "op": r"(read|item get|run|inject).*",
    "bw": r"(get|list|export).*",
    "vault": r"(read|kv get|print token).*",
    "gh": r"auth (token|status .*(-t|--show-token)).*",
    "glab": r"auth status .*(-t|--show-token).*",
    "gcloud": r"(auth|config config-helper).*(print-|config-helper|credential).*",
    "az": r"account get-access-token.*",
    "aws": r"(configure (get|export-credentials)|sts get-session-token|ecr get-login-password).*",
    "kubectl": r".*(config view.*--raw|(get|describe)\b.*\bsecrets?\b|create token).*",
    "docker": r".*\bsecret inspect.*",
    "ssh-keygen": r".*-y\b.*",
    "gcore": r".*",
    "gdb": r".*(-p|--pid|attach).*",
    "strace": r".*(-p|--attach).*",
    "ltrace": r".*-p.*",
    "ps": r"(?!-)\w*e\w*( .*)?|.*\benviron\b.*|.* (?!-)[a-z]*e[a-z]*w*|-E.*",
    "pargs": r".*-e.*",
    "ohmo": (
        r".*\b(approvals (approve|deny)|pairing (approve|revoke)|config"
        r" (show|edit)|backup|restore|store|service (stop|un)|init)\b.*"
    ),
    "systemctl": r".*show-environment.*",
    "debugfs": r".*",
    "xfs_db": r".*",
}
_PATTERNS = {name: re.compile(form, re.DOTALL) for name, form in _TELLS.items()}


def gives_secrets(simple: Simple) -> bool:
    """Whether the command is made to show secrets."""
    name = simple.name.casefold()
    if name.startswith(("docker-credential-", "git-credential-")):
        return True
    words = simple.words[1:]
    if name.startswith("python") and words[:2] == ("-m", "ohmo"):
        name, words = "ohmo", words[2:]
    if name == "git":
        return "credential" in words or any(word.startswith("credential-") for word in words)
    form = _PATTERNS.get(name)
    return form is not None and form.fullmatch(" ".join(words)) is not None
