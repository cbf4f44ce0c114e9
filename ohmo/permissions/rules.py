"""Permission rules as people write them, ``Bash(git status:*)``, ``Read(${WORKSPACE}/**)``,
``WebFetch(domain:example.org)``, ``mcp__server__tool``, and the ruling that a call gets by them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Literal

from channels.record import record
from ohmo.contracts.tool import CallContext
from ohmo.shell.patterns import path_matcher

_FORM = re.compile(r"(?P<tool>[A-Za-z][\w-]*|mcp__[\w*-]+)(?:\((?P<pattern>.*)\))?", re.DOTALL)
READERS = frozenset({"Read", "Glob", "Grep"})
WRITERS = frozenset({"Write", "Edit", "MultiEdit", "NotebookEdit"})
PATH_TOOLS = READERS | WRITERS


@record
class Rule:
    """One line of ``permissions.allow``, ``ask`` or ``deny``."""

    tool: str  # its name, or ``mcp__server__*``
    pattern: str | None  # None: every call of the tool
    text: str  # as it was written

    def names(self, tool: str) -> bool:
        """Whether the rule is about this tool at all. ``mcp__server`` and ``mcp__server__*`` name
        all tools of a server."""
        if self.tool == tool:
            return True
        if self.tool.startswith("mcp__") and tool.startswith("mcp__"):
            stem = self.tool.removesuffix("*").removesuffix("__")
            return (self.tool.count("__") == 1 and tool.startswith(stem + "__")) or (
                self.tool.endswith("*") and tool.startswith(self.tool[:-1])
            )
        return False


@record
class RuleSet:
    """The configured rules, each list in its order."""

    allow: tuple[Rule, ...] = ()
    ask: tuple[Rule, ...] = ()
    deny: tuple[Rule, ...] = ()


def parse_rule(text: str, places: Mapping[str, str] | None = None) -> Rule:
    """``places`` fills ``${WORKSPACE}``, ``${HOME}``, ``${OHMO_HOME}``. Raises ValueError with one
    line."""
    match = _FORM.fullmatch(text.strip())
    if match is None:
        raise ValueError(
            f"{text!r} is no rule; write Tool or Tool(pattern), for example Bash(git status:*) or"
            " Read(${WORKSPACE}/**)"
        )
    pattern = match["pattern"]
    if pattern is not None:
        for name, value in (places or {}).items():
            pattern = pattern.replace("${" + name + "}", value)
        pattern = pattern.strip()
        if pattern in ("", "*", "**"):
            pattern = None
    if pattern is not None and match["tool"] == "WebFetch" and not pattern.startswith("domain:"):
        raise ValueError(
            f"{text!r}: WebFetch takes domain:HOST, for example WebFetch(domain:example.org)"
        )
    if pattern is not None and match["tool"] in PATH_TOOLS:
        pattern = _anchored(pattern, places or {})
    return Rule(match["tool"], pattern, text.strip())


def rule_set(
    allow: Iterable[str],
    ask: Iterable[str],
    deny: Iterable[str],
    places: Mapping[str, str] | None = None,
) -> RuleSet:
    """Raises ValueError with one line for the first rule that cannot be read."""
    allowed, asked, denied = (
        tuple(parse_rule(text, places) for text in texts) for texts in (allow, ask, deny)
    )
    return RuleSet(allowed, asked, denied)


def _anchored(pattern: str, places: Mapping[str, str]) -> str:
    """``//x`` and ``/x`` are absolute, ``~/x`` the home, ``./x`` and ``x/y`` the workspace, a bare
    name any folder."""
    if pattern.startswith("//"):
        return pattern[1:]
    if pattern == "~" or pattern.startswith("~/"):
        return places.get("HOME", str(Path.home())) + pattern[1:]
    if pattern.startswith("/"):
        return pattern
    if pattern.startswith("./") or "/" in pattern.rstrip("/"):
        return places.get("WORKSPACE", "**") + "/" + pattern.removeprefix("./")
    return "**/" + pattern


@lru_cache(maxsize=8192)
def _resolved_pattern(pattern: str) -> str:
    """The part before the first wildcard, through symlinks: call paths are resolved too."""
    fixed = re.match(r"[^*?\[]*/", pattern)
    if fixed is None or pattern.startswith("**"):
        return pattern
    folder = fixed[0].rstrip("/")
    return str(Path(folder or "/").resolve()).rstrip("/") + "/" + pattern[fixed.end() :]


def path_matches(rule: Rule, kind: Literal["read", "write"], tool: str, path: str) -> bool:
    """``path`` absolute and resolved. Read rules cover all that reads, Edit and Write rules all
    that writes."""
    family = READERS if kind == "read" else WRITERS
    about = rule.names(tool) or (
        rule.pattern is not None
        and rule.tool in family
        and (rule.tool in ("Read", "Write", "Edit"))
    )
    if not about:
        return False
    if rule.pattern is None:
        return True
    return path_matcher(_resolved_pattern(rule.pattern)).fullmatch(path) is not None


@record
class Forbidden:
    """What a rule about paths forbids to a command."""

    every: bool  # all paths
    form: re.Pattern[str] | None  # a path whole
    fixed: str  # the place up to its first wildcard


def forbidden(rule: Rule) -> Forbidden:
    """``path_matches`` (for what reads and for what writes), for many paths."""
    if rule.pattern is None:
        return Forbidden(rule.tool in ("Read", "Write"), None, "")
    pattern = _resolved_pattern(rule.pattern)
    fixed = re.match(r"[^*?\[]*", pattern)
    form = path_matcher(pattern) if rule.tool in ("Read", "Write", "Edit") else None
    return Forbidden(
        every=False, form=form, fixed=fixed[0].rstrip("/") if fixed is not None else ""
    )


@lru_cache(maxsize=8192)
def _glob(pattern: str) -> re.Pattern[str]:
    body = ".*".join(re.escape(part) for part in pattern.split("*"))
    return re.compile(body, re.DOTALL | re.IGNORECASE)


def command_matches(rule: Rule, text: str) -> bool:
    """For rules that forbid or ask, in any case of letters: ``git status:*`` is a prefix that ends
    at a word; ``*`` inside a pattern is anything; otherwise the whole command. What a rule lets
    through is decided by its words (``shell/admitting.py``)."""
    if rule.tool != "Bash":
        return False
    pattern = rule.pattern
    if pattern is None:
        return True
    left = text.casefold()
    if pattern.endswith(":*"):
        prefix = pattern[:-2]
        if "*" in prefix:
            return _glob(prefix).match(text) is not None
        right = prefix.casefold()
        return left == right or left.startswith(right + " ")
    if "*" in pattern:
        whole = pattern.endswith(" *") and left == pattern[:-2].casefold()
        return whole or _glob(pattern).fullmatch(text) is not None
    return left == pattern.casefold()


def host_matches(rule: Rule, host: str) -> bool:
    """The domain and everything below it."""
    if rule.tool != "WebFetch":
        return False
    if rule.pattern is None:
        return True
    domain = rule.pattern.removeprefix("domain:").removeprefix("*.").casefold().rstrip(".")
    host = host.casefold().rstrip(".")
    return host == domain or host.endswith("." + domain) or domain == "*"


Layer = Literal["sensitive", "role", "deny", "ask", "protected", "shell", "allow", "grant", "mode"]


@record
class Ruling:
    """What the policy says about a call."""

    verdict: Literal["allow", "deny", "ask"]
    layer: Layer  # the one that decided
    rule: str = ""  # of that layer
    reason: str = ""  # for the person or the model
    remember: bool = True  # whether an answer for longer would change anything next time
    suggests: str = ""  # the rule such an answer stores; "": the one that covers the call itself

    @property
    def source(self) -> str:
        """The layer and its rule, as people read it."""
        return f"{self.layer}: {self.rule}" if self.rule else self.layer


def by_mode(context: CallContext, what: str = "it may change something") -> Ruling:
    """The last layer, for a call that is not known to be harmless and about which nothing else
    spoke."""
    if context.mode == "plan":
        reason = (
            f"plan mode: {what}. Only read, search and think, then show the plan; the person leaves"
            " plan mode with /mode default"
        )
        return Ruling("deny", "mode", "plan", reason, remember=False)
    if context.mode == "full_auto" and context.role in ("owner", "admin"):
        return Ruling("allow", "mode", "full_auto")
    return Ruling("ask", "mode", context.mode, what or "it may change something")
