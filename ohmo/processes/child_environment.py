"""What a child process may know of the daemon's environment: a short list, never a secret."""

from __future__ import annotations

from collections.abc import Mapping

_KEPT = frozenset(
    {
        "PATH",
        "HOME",
        "USER",
        "LOGNAME",
        "SHELL",
        "LANG",
        "LANGUAGE",
        "TZ",
        "TMPDIR",
        "XDG_RUNTIME_DIR",
        "SSL_CERT_FILE",
        "SSL_CERT_DIR",
        "OHMO_HOME",
    }
)
_QUIET = {  # nobody sits at a keyboard: ask nothing, page nothing, colour nothing, open no editor
    "TERM": "dumb",
    "NO_COLOR": "1",
    "PAGER": "cat",
    "GIT_PAGER": "cat",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_MERGE_AUTOEDIT": "no",
    "GIT_EDITOR": "false",
    "EDITOR": "false",
    "VISUAL": "false",
    "DEBIAN_FRONTEND": "noninteractive",
    "PIP_NO_INPUT": "1",
    "PIP_DISABLE_PIP_VERSION_CHECK": "1",
    "SYSTEMD_PAGER": "cat",
}


def child_environment(
    environ: Mapping[str, str], extra: Mapping[str, str] | None = None
) -> dict[str, str]:
    """The few variables a command needs from ``environ``, settings that keep programs from asking,
    and ``extra`` on top."""
    kept = {
        name: value for name, value in environ.items() if name in _KEPT or name.startswith("LC_")
    }
    return {
        "PATH": "/usr/local/bin:/usr/bin:/bin",
        "LANG": "C.UTF-8",
        **kept,
        **_QUIET,
        **(extra or {}),
    }
