"""What a person reads when a call wants permission, and the rule that an answer for longer stores."""

from __future__ import annotations

import re
from pathlib import Path

from ohmo.contracts.messages import Json, ToolCall
from ohmo.contracts.tool import CallContext, Footprint
from ohmo.permissions.ruling import Ruling
from ohmo.permissions.shell import Shell
from ohmo.permissions.shell.admitting import family

_MOST = 1500
# Characters that a reader does not see, or that turn round what stands behind them (UAX 9, tag characters, C0 and C1 but for line feed and tab).
_UNSEEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\U000e0000-\U000e007f\ud800-\udfff]"
)


def visible(text: str) -> str:
    """With what nobody sees written out (``\\u202e``): a command has to look as it is, at every door."""
    return _UNSEEN.sub(lambda found: found[0].encode("unicode_escape", "surrogatepass").decode(), text)


def title_of(call: ToolCall) -> str:
    """One line: the tool and what it is about."""
    about = next((str(call.arguments[key]) for key in ("command", "file_path", "url", "path", "pattern") if call.arguments.get(key)), "")
    line = visible(about.strip().split("\n")[0])
    return f"{call.name}: {line[:117] + '...' if len(line) > 120 else line}" if line else call.name


def detail_of(call: ToolCall, context: CallContext, ruling: Ruling) -> str:
    """The arguments as CommonMark, and why somebody is asked."""
    parts: list[str] = []
    for name, value in call.arguments.items():
        if value is None or value is False:
            continue
        parts.append(argument(name, value))
    where = f"in `{context.cwd}`"
    why = f"{ruling.reason} ({ruling.source})" if ruling.reason else ruling.source
    return "\n".join([*parts, f"{where}: {why}"])


def argument(name: str, value: Json) -> str:
    """As CommonMark that nothing in ``value`` can leave: it stays what was asked about, whatever it imitates."""
    text = visible(value if isinstance(value, str) else str(value))
    if not text:
        return f"{name}: (empty)"  # an Edit that takes something away says so
    cut = len(text) - _MOST
    if cut > 0:  # both ends: what matters may stand last
        text = f"{text[: _MOST // 2]}\n[... {cut} characters not shown ...]\n{text[-_MOST // 2 :]}"
    if "\n" not in text and "`" not in text and len(text) <= 200:
        return f"{name}: `{text}`"
    fence = "`" * max(3, 1 + max((len(run) for run in re.findall(r"`+", text)), default=0))
    return f"{name}:\n{fence}\n{text}\n{fence}"


def suggest_rule(call: ToolCall, footprint: Footprint, cwd: Path, shell: Shell) -> str:
    """The narrow rule that "for this session" and "always" store: a command family where that is safe, one file, one domain."""
    if footprint.command is not None:
        return f"Bash({_command_pattern(footprint.command, cwd, shell)})"
    for path in footprint.writes:
        return f"Edit({cwd / path})"
    for host in footprint.hosts:
        return f"WebFetch(domain:{host})"
    for path in footprint.reads:
        return f"Read({cwd / path})"
    return call.name


def _command_pattern(command: str, cwd: Path, shell: Shell) -> str:
    """``git push:*`` when all that the command says beside that is known to do no more."""
    plain = shell.parse(command, cwd).plain
    known = family(plain[0]) if len(plain) == 1 and not plain[0].redirects else None
    return known or command.strip()
