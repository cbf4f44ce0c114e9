"""Permission rules as people write them, ``Bash(git status:*)``, ``Read(${WORKSPACE}/**)``,
``WebFetch(domain:example.org)``, ``mcp__server__tool``, and the ruling that a call gets by them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Literal

from channels.record import record
from ohmo.config.rules import form_of
from ohmo.contracts.tool import CallContext
from ohmo.shell.patterns import SOME, known, overlap, path_matcher
from ohmo.shell.script import Simple
from ohmo.shell.wrappers import tails

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
        if not (self.tool.startswith("mcp__") and tool.startswith("mcp__")):
            return False
        if self.tool.endswith("*") and tool.startswith(self.tool[:-1]):
            return True
        stem = self.tool.removesuffix("*").removesuffix("__")
        return self.tool.count("__") == 1 and tool.startswith(stem + "__")


@record
class RuleSet:
    """The configured rules, each list in its order."""

    allow: tuple[Rule, ...] = ()
    ask: tuple[Rule, ...] = ()
    deny: tuple[Rule, ...] = ()


def parse_rule(text: str, places: Mapping[str, str] | None = None) -> Rule:
    """``places`` fills ``${WORKSPACE}``, ``${HOME}``, ``${OHMO_HOME}``. Raises ValueError with one
    line."""
    tool, pattern = form_of(text)
    if pattern is not None:
        for name, value in (places or {}).items():
            pattern = pattern.replace("${" + name + "}", value)
        pattern = pattern.strip()
    if pattern is not None and tool in PATH_TOOLS:
        # ``//x`` and ``/x`` are absolute, ``~/x`` the home, ``./x`` and ``x/y`` the workspace, a
        # bare name any folder.
        places = places or {}
        if pattern.startswith("//"):
            pattern = pattern[1:]
        elif pattern == "~" or pattern.startswith("~/"):
            pattern = places.get("HOME", str(Path.home())) + pattern[1:]
        elif pattern.startswith("./") or ("/" in pattern.rstrip("/") and pattern[0] != "/"):
            pattern = places.get("WORKSPACE", "**") + "/" + pattern.removeprefix("./")
        elif not pattern.startswith("/"):
            pattern = "**/" + pattern
    return Rule(tool, pattern, text.strip())


def rule_set(
    allow: Iterable[str],
    ask: Iterable[str],
    deny: Iterable[str],
    places: Mapping[str, str] | None = None,
) -> RuleSet:
    """Raises ValueError with one line for the first rule that cannot be read."""
    return RuleSet(
        tuple(parse_rule(text, places) for text in allow),
        tuple(parse_rule(text, places) for text in ask),
        tuple(parse_rule(text, places) for text in deny),
    )


@lru_cache(maxsize=8192)
def _resolved_pattern(pattern: str) -> str:
    """The part before the first wildcard, through symlinks: call paths are resolved too."""
    fixed = re.match(r"[^*?\[]*/", pattern)
    if fixed is None or pattern.startswith("**"):
        return pattern
    folder = Path(fixed[0].rstrip("/") or "/").resolve()
    start = str(folder).rstrip("/")
    return f"{start}/{pattern[fixed.end() :]}"


def path_matches(rule: Rule, kind: Literal["read", "write"], tool: str, path: str) -> bool:
    """``path`` absolute and resolved. Read rules cover all that reads, Edit and Write rules all
    that writes."""
    family = READERS if kind == "read" else WRITERS
    whole_family = rule.tool in family and rule.tool in ("Read", "Write", "Edit")
    if not rule.names(tool) and (rule.pattern is None or not whole_family):
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
    start = fixed[0].rstrip("/") if fixed is not None else ""
    return Forbidden(every=False, form=form, fixed=start)


@lru_cache(maxsize=8192)
def _glob(pattern: str) -> re.Pattern[str]:
    body = ".*".join(re.escape(part) for part in pattern.split("*"))
    return re.compile(body, re.DOTALL | re.IGNORECASE)


def command_matches(rule: Rule, text: str) -> bool:
    """For rules that forbid or ask, in any case of letters: ``git status:*`` is a prefix that ends
    at a word; ``*`` inside a pattern is anything; otherwise the whole command. What a rule lets
    through is decided by its words (``wildcard_rules.py``)."""
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


def host_matches(rule: Rule, tool: str, host: str) -> bool:
    """Whether the rule is about this tool, or about a domain that the host is or lies below."""
    if rule.pattern is None:
        return rule.names(tool)
    if rule.tool != "WebFetch":
        return False
    domain = rule.pattern.removeprefix("domain:").removeprefix("*.").casefold().rstrip(".")
    host = host.casefold().rstrip(".")
    return host == domain or host.endswith("." + domain) or domain == "*"


Layer = Literal[
    "sensitive",
    "role",
    "deny",
    "ask",
    "protected",
    "taint",
    "sandbox",
    "shell",
    "allow",
    "grant",
    "mode",
    "hook",
]


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


_WILD = re.compile(r"[*?]")  # of a word of the plain language
_LETTERS = re.compile(r"(?<!\S)-([A-Za-z]{2,})(?=\s|:\*$|$)")
_OPTION = re.compile(r"(?<!\S)-{1,2}[A-Za-z][\w-]*")
_MOST_TEXTS = 42  # spellings of a command before those inside wrappers


def spellings(simple: Simple) -> tuple[str, ...]:
    """The command as rules that forbid may mean it: with and without its folder, its options before
    the verb, the letters of its short options in order, and what a wrapper runs."""
    if not simple.words:
        return ()
    program, dash, verb = simple.name.partition("-")
    bare = (simple.name, *simple.words[1:])
    if program == "git" and dash:  # git-push is git push
        bare = (program, verb, *simple.words[1:])
    texts = [simple.text, " ".join(bare)]
    # ``git -C x push`` and ``git --no-pager push`` as ``git push``: options before the verb left
    # out, with and without a value each.
    at = 1
    while at < len(bare) - 1 and bare[at].startswith("-") and len(texts) < _MOST_TEXTS:
        texts.append(" ".join((bare[0], *bare[at + 1 :])))
        texts.append(" ".join((bare[0], *bare[at + 2 :])))
        at += 1 if bare[at + 1].startswith("-") else 2
    texts += [" ".join(words) for words in tails(simple.words)]
    return tuple(dict.fromkeys((*texts, *map(_in_order, texts))))


def covers(rule: Rule, texts: Sequence[str]) -> bool:
    """``texts``: the spellings of a command; in any case of letters."""
    if rule.pattern is None:
        return True
    ordered = Rule(rule.tool, _in_order(rule.pattern), rule.text)
    return any(command_matches(each, text) for each in (rule, ordered) for text in texts)


def _in_order(text: str) -> str:
    """``rm -fr x`` and ``rm -rf x`` alike."""
    return _LETTERS.sub(lambda match: "-" + "".join(sorted(set(match[1]))), text)


class CommandRules:
    """Rules about Bash that forbid or ask, in their order."""

    def __init__(self, rules: Sequence[Rule]) -> None:
        self._rules = tuple(rule for rule in rules if rule.tool == "Bash")
        plain = {
            rule: rule.pattern
            for rule in self._rules
            if rule.pattern is not None and "*" not in rule.pattern.removesuffix(":*")
        }
        patterns = {
            form.casefold() for pattern in plain.values() for form in (pattern, _in_order(pattern))
        }
        self._beginnings = tuple(
            f"{pattern[:-2]} " for pattern in patterns if pattern.endswith(":*")
        )
        self._whole = frozenset(pattern for pattern in patterns if not pattern.endswith(":*"))
        self._others = tuple(rule for rule in self._rules if rule not in plain)

    def __bool__(self) -> bool:
        return bool(self._rules)

    def first(self, texts: Sequence[str]) -> Rule | None:
        """The first rule that covers a command."""
        for text in texts:
            folded = text.casefold()
            if folded in self._whole or f"{folded} ".startswith(self._beginnings):
                break
        else:
            return next((rule for rule in self._others if covers(rule, texts)), None)
        return next((rule for rule in self._rules if covers(rule, texts)), None)

    def perhaps(self, simple: Simple) -> Rule | None:
        """The first rule that covers a command if a wildcard becomes one of the words that it
        begins with: ``git p?sh`` where there is, or will be, a file of that name."""
        wild = set(simple.found)
        for at, word in enumerate(simple.words):
            if not known(word) or (simple.listed and _WILD.search(word)):
                wild.add(at)
        words = [
            SOME if at in simple.found else _WILD.sub(SOME, word) if at in wild else word
            for at, word in enumerate(simple.words)
        ]
        rest = [word for word in words[1:] if not word.startswith("-")]
        values = 3 if len(rest) < len(words) - 1 else 0  # of options, which may stand before it
        for rule in self._rules if wild else ():
            fixed = (rule.pattern or "").removesuffix(":*").partition("*")[0].split()
            if len(fixed) < 2 or fixed[0] != simple.name or " -" in " ".join(fixed):
                continue
            for at in range(values + 1):
                begins = rest[at : at + len(fixed) - 1]
                if len(begins) == len(fixed) - 1 and all(map(overlap, begins, fixed[1:])):
                    return rule
        return None

    def mentioned(self, text: str) -> Rule | None:
        """The first rule whose words stand in ``text``, in their order, each as a word or as the
        end of a path: for a question about what no grammar was sure of."""
        if not self._rules:
            return None
        options: list[str] = _OPTION.findall(text)
        long = any(option.startswith("--") for option in options)
        letters = set("".join(option[1:] for option in options))
        for rule in self._rules:
            pattern = rule.pattern or ""
            words = [word for word in pattern.removesuffix(":*").split() if "*" not in word]
            at = 0
            for word in words:
                if word.startswith("-"):
                    continue
                form = rf"(?<![\w.-]){re.escape(word.rpartition('/')[2])}(?![\w-])"
                match = re.compile(form, re.IGNORECASE).search(text, at)
                if match is None:
                    break
                at = match.end()
            else:
                short = (set(word[1:]) for word in words if _LETTERS.fullmatch(word))
                if at > 0 and (long or all(each <= letters for each in short)):
                    return rule
        return None


class PathRules:
    """Rules that forbid paths, asked for many of them."""

    def __init__(self, rules: Sequence[Rule]) -> None:
        self._rules = tuple(rule for rule in rules if rule.tool in PATH_TOOLS)

    def __bool__(self) -> bool:
        return bool(self._rules)

    @cached_property
    def _places(self) -> list[tuple[Rule, Forbidden]]:
        return [(rule, forbidden(rule)) for rule in self._rules]

    def hit(self, path: str) -> tuple[Rule | None, Rule | None]:
        """``path`` absolute and resolved: the first rule about the path itself, and the first
        before it about something below it."""
        lower: Rule | None = None
        folder = path.rstrip("/") + "/"
        for rule, forbids in self._places:
            if forbids.every or (
                forbids.form is not None and forbids.form.fullmatch(path) is not None
            ):
                return rule, lower
            if lower is None and forbids.fixed.startswith(folder):
                lower = rule
        return None, lower
