"""What a person reads when a call wants permission, and the rule that an answer for longer
stores."""

from __future__ import annotations

import re
from pathlib import Path

from channels.text import code_span, literal
from ohmo.contracts.messages import Json, ToolCall
from ohmo.contracts.tool import CallContext, Footprint
from ohmo.permissions.rules import READERS, Ruling
from ohmo.permissions.visible_text import visible
from ohmo.permissions.wildcard_rules import family
from ohmo.shell.parsing import Shell

_EXACT = ("command", "file_path", "url", "path", "pattern")  # arguments in which each letter counts
_LONGEST_TITLE = 120
_UNESCAPED = re.compile(r"\[(?=[*?[]\])|(?<=\[[*?[])\]")  # glob.escape


def title_of(call: ToolCall) -> str:
    """One line: the tool and what it is about; what it leaves out is told in numbers."""
    about = next((str(call.arguments[key]) for key in _EXACT if call.arguments.get(key)), "")
    return f"{call.name}: {title_line(about)}" if about.strip() else call.name


def about(call: ToolCall) -> str:
    """The argument whose value the title shows whole, letter for letter and on one line; "" for
    none."""
    name = next((key for key in _EXACT if call.arguments.get(key)), "")
    value = str(call.arguments.get(name, ""))
    return name if value and "`" not in value and title_line(value) == value else ""


def title_line(text: str) -> str:
    """The first line of a command, path or address, shortened, and how much more of it follows."""
    first, *more = text.strip().split("\n")
    line = visible(first, exact=True)
    over = len(line) - _LONGEST_TITLE
    left = [f"{over} characters"] if over > 0 else []
    left += [f"{len(more)} line{'s' if len(more) > 1 else ''}"] if more else []
    return f"{line[:_LONGEST_TITLE]}… (+{', '.join(left)})" if left else line


def detail_of(call: ToolCall, context: CallContext, ruling: Ruling) -> str:
    """The arguments as CommonMark, and why somebody is asked."""
    given = call.arguments.items()
    parts = [argument(_plain_name(name), value) for name, value in given if value is not None]
    why = f"{ruling.reason} ({ruling.source})" if ruling.reason else ruling.source
    why = literal(visible(" ".join(why.split()), exact=True))  # it quotes words of the call
    return "\n".join([*parts, f"in {code_span(visible(str(context.cwd), exact=True))}: {why}"])


def _plain_name(name: str) -> str:
    """A tool of a server may take arguments of any name."""
    if re.fullmatch(r"[\w-]+", name, re.ASCII):
        return name
    return code_span(visible(" ".join(name.split()), exact=True)) or "(no name)"


def argument(name: str, value: Json) -> str:
    """As CommonMark that nothing in ``value`` can leave, whole: it stays what was asked about,
    whatever it imitates."""
    text = visible(value if isinstance(value, str) else str(value), exact=name in _EXACT)
    if not text:
        return f"{name}: (empty)"  # an Edit that takes something away says so
    if not re.search(r"[\n`]", text) and text == text.strip() and len(text) <= 200:
        return f"{name}: `{text}`"
    fence = "`" * max(3, 1 + max((len(run) for run in re.findall(r"`+", text)), default=0))
    return f"{name}:\n{fence}\n{text}\n{fence}"


def suggest_rule(call: ToolCall, footprint: Footprint, cwd: Path, shell: Shell) -> str:
    """The narrow rule that "for this session" and "always" store: a command family where that is
    safe, one file, one domain."""
    if footprint.command is not None:
        return f"Bash({_command_pattern(footprint.command, cwd, shell)})"
    for path in footprint.writes:
        return f"Edit({cwd / path})"
    for host in footprint.hosts:
        return f"WebFetch(domain:{host})"
    for path in footprint.reads:
        return f"Read({cwd / path})"
    return call.name


def in_words(rule: str) -> str:
    """What a permission that was remembered allows; plain text."""
    tool, _, pattern = rule.removesuffix(")").partition("(")
    folder = pattern.removesuffix("/**")
    if not pattern:
        return f"every call of {tool}"
    if tool == "Bash":
        family = pattern.endswith(":*")
        return f"{pattern[:-2]} with any of its usual options" if family else "exactly this command"
    if tool == "WebFetch":
        return f"pages of {pattern.removeprefix('domain:')}"
    what = "reading" if tool in READERS else "changes to"
    return f"{what} {'everything in ' if folder != pattern else ''}{_UNESCAPED.sub('', folder)}"


def offered(rule: str, wider: str) -> str:
    """The permissions that a card offers to remember, CommonMark. An exact command stands on it
    already."""
    plain = visible(rule, exact=True)
    exact = plain.startswith("Bash(") and not plain.endswith(":*)")
    shown = "" if exact else f" ({code_span(plain)})"
    lines = [f"*For this session* and *always* allow: {literal(in_words(plain))}{shown}"]
    if wider:
        plain = visible(wider, exact=True)
        lines.append(f"*All edits in this workspace*, for this session: {code_span(plain)}")
    return "\n".join(lines)


def _command_pattern(command: str, cwd: Path, shell: Shell) -> str:
    """``git push:*`` when all that the command says beside that is known to do no more."""
    plain = shell.parse(command, cwd).plain
    known = family(plain[0]) if len(plain) == 1 and not plain[0].redirects else None
    return known or command.strip()
