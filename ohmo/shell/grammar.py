"""Reads a shell command with tree-sitter's bash grammar, which lists every simple command as far as
that can be told."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Literal

from tree_sitter import Node

from channels.record import record
from ohmo.shell.misread import (
    Unread,
    cut_elsewhere,
    here_document,
    may_run,
    misread,
    no_program,
    parsed,
)
from ohmo.shell.patterns import ANY, known, word_set
from ohmo.shell.scope import (
    MOST,
    PRINTED,
    PRINTED_BY_GIT,
    Names,
    Scope,
    assigned_below,
    assigned_name,
    changes_folder,
    declared,
    output_of,
    run_builtin,
)
from ohmo.shell.script import Redirect, Simple
from ohmo.shell.words import PRIVATE, Words, lines_of
from ohmo.shell.wrappers import inner_commands

_MOST_DEPTH = 15  # commands inside commands
_VARIABLE = re.compile(r"\$([A-Za-z_]\w*)")  # the grammar takes "$a$b/c" for two words
_MOST_COMMANDS = 20_000
_BLOCKS = word_set(
    """program compound_statement do_group if_statement elif_clause else_clause list subshell
        variable_assignments"""
)
_LOOPS = word_set(
    """while_statement for_statement c_style_for_statement case_statement case_item
        negated_command"""
)
_VALUES = word_set(
    """word variable_name number string raw_string concatenation simple_expansion expansion"""
)
_OF_HEREDOC = word_set("heredoc_start heredoc_body heredoc_end file_descriptor")
_DEFAULTS = re.compile(r"\$\{(\w+)(?:\[[^\]]*\])?:?=")


@record
class _Around:
    """What surrounds a command: redirections of the statement, where its input comes from."""

    redirects: tuple[Redirect, ...] = ()
    stdin: Literal["", "pipe", "text"] = ""
    heredoc: str | None = None


class Reader:
    """Reads one command text. ``commands`` and ``unclear`` are its result."""

    def __init__(self, home: str, cwd: str, names: Names | None = None) -> None:
        self.commands: list[Simple] = []
        self._names = names if names is not None else Names()
        self.unclear = ""
        self._home = home
        self._cwd = cwd
        self._words = Words(self._substitution)
        self._depth = 0
        self._source = b""

    def add(self, simple: Simple) -> None:
        """A command of a plain line, and what it runs."""
        if simple.runs:  # which stands behind it
            self.commands.append(simple)
            return
        stdin = simple.stdin
        if any(redirect.kind == "read" for redirect in simple.redirects):
            stdin = "text"
        at = len(self.commands)
        self._add(simple.words, Scope(self._home, simple.cwds), _Around(simple.redirects, stdin))
        for own in self.commands[at : at + 1]:
            self.commands[at] = replace(own, found=simple.found, listed=simple.listed)

    def read(self, text: str, scope: Scope | None = None) -> None:
        if PRIVATE.search(text):
            self.unclear = "it holds private-use characters"
            return
        if self._depth >= _MOST_DEPTH:
            self.unclear = "commands inside commands too deep"
            return
        self._depth += 1
        around = self._source
        try:
            source = _VARIABLE.sub(r"${\1}", text)
            root = parsed(source)
            self._source = root.text or b""
            if misread(root, source):
                self.unclear = self.unclear or "the shell grammar cannot read it"
            scope = scope or Scope(self._home, (self._cwd,), names=self._names)
            for name in _DEFAULTS.findall(source):
                scope.loosen(name)
            self._node(root, scope, _Around())
        except Unread as why:
            self.unclear = self.unclear or str(why)
        except RecursionError:
            self.unclear = "nested too deep"
        finally:
            self._depth -= 1
            self._source = around

    def _node(self, node: Node, scope: Scope, around: _Around) -> None:
        kind = node.type
        self._whole(node)
        if kind == "command":
            self._command(node, scope, around)
        elif kind == "redirected_statement":
            self._redirected(node, scope, around)
        elif kind == "pipeline":
            for child in node.named_children:
                self._node(child, scope.copy(), around)
                around = replace(around, stdin="pipe")
        elif kind == "variable_assignment":
            self._assignment(node, scope)
            self._add((), scope, around, (assigned_name(node),))
        elif kind == "compound_statement" and (node.text or b"").startswith(b"(("):
            self._words.visit(node, scope)
            self._add((":",), scope, around)
        elif kind in _BLOCKS:
            inside = scope.copy() if kind == "subshell" else scope
            for child in node.named_children:
                self._node(child, inside, around)
        else:
            self._rarer_node(node, scope, around)

    def _whole(self, node: Node) -> None:
        if cut_elsewhere(node, self._source):
            self.unclear = self.unclear or "the grammar cuts its words elsewhere than bash"

    def _rarer_node(self, node: Node, scope: Scope, around: _Around) -> None:
        kind = node.type
        if kind in ("declaration_command", "unset_command"):
            words = [(node.children[0].text or b"").decode("utf-8", "replace")]
            names: list[str] = []
            for child in node.named_children:
                if child.type == "variable_assignment":
                    self._assignment(child, scope)
                    names.append(assigned_name(child))
                else:
                    words += self._words.fields(child, scope)
            declared([*words, *(names if "-" in "".join(words) else ())], scope)
            if words[0] == "unset":
                run_builtin(words, scope)
            self._add(tuple(words), scope, around, tuple(names))
        elif kind == "test_command":
            self._words.visit(node, scope)
            self._add(("test",), scope, around)
        elif kind == "function_definition":
            self._function(node, scope, around)
        elif kind in _LOOPS:
            self._loop(node, scope, around)
        elif kind in ("command_substitution", "process_substitution"):  # case $(...) in
            self._substitution(node, scope)
        elif kind == "file_redirect":  # $(<file)
            redirects = tuple(self._file_redirect(node, scope, []))
            self._add((), scope, replace(around, redirects=redirects))
        elif kind not in ("comment", "heredoc_body"):
            self._words.visit(node, scope)
            if kind in ("ERROR", "coproc"):
                self.unclear = self.unclear or "the shell grammar cannot read it"

    def _loop(self, node: Node, scope: Scope, around: _Around) -> None:
        """Inside, what the body assigns may have any value: it may run again after a later
        assignment."""
        for name in assigned_below(node):
            scope.forget(name)
        if changes_folder(node):
            scope.cwds = (ANY,)
        looped = ""
        if node.type == "for_statement":
            name = node.child_by_field_name("variable")
            values = [
                value
                for each in node.children_by_field_name("value")
                for value in self._words.fields(each, scope)
            ]
            looped = (name.text or b"").decode("utf-8", "replace") if name is not None else ""
            unknown = scope.names.later or looped == "IFS"
            scope.loosen(looped) if unknown else scope.forget(looped)
            if 0 < len(values) <= MOST:
                scope.variables[looped] = tuple(values)
        scope.names.again += 1
        for child in node.named_children:
            if child.type in _VALUES:
                self._words.visit(child, scope)
            else:
                self._node(child, scope, around)
        scope.names.again -= 1
        if looped and scope.names.again:
            scope.forget(looped)

    def _function(self, node: Node, scope: Scope, around: _Around) -> None:
        """A body runs later, with unknown arguments, after anything."""
        inside = scope.unknown()
        body = node.child_by_field_name("body")
        redirects = list(around.redirects)
        for child in node.children_by_field_name("redirect"):
            if child.type == "file_redirect":
                redirects += self._file_redirect(child, inside, [])
            else:
                self._words.visit(child, inside)
        scope.names.later += 1
        if body is not None:
            self._node(body, inside, replace(around, redirects=tuple(redirects)))
        scope.names.later -= 1
        scope.cwds = (ANY,) if changes_folder(node) else scope.cwds
        self._add(("function",), scope, around)

    def _assignment(self, node: Node, scope: Scope) -> None:
        name = assigned_name(node)
        value = node.child_by_field_name("value")
        target = node.child_by_field_name("name")
        if target is not None:
            self._words.visit(target, scope)
        values = self._words.single(value, scope) if value is not None else ("",)
        appended = b"+=" in (node.text or b"").partition(b"=")[0] + b"="
        scope.assign(name, (ANY,) if appended else values)
        if any(map(may_run, values)):
            self.unclear = self.unclear or "bash may run what a variable holds"

    def _redirected(self, node: Node, scope: Scope, around: _Around) -> None:
        redirects = list(around.redirects)
        stdin = around.stdin
        heredoc = around.heredoc
        extra: list[Node] = []
        later: list[Node] = []
        for child in node.children_by_field_name("redirect"):
            if child.type == "file_redirect":
                redirects += self._file_redirect(child, scope, extra)
            elif child.type == "heredoc_redirect":
                stdin, heredoc = "text", self._heredoc(child, scope)
                for inner in child.named_children:
                    if inner.type == "file_redirect":
                        redirects += self._file_redirect(inner, scope, extra)
                    elif inner.type not in _OF_HEREDOC:
                        later.append(inner)
            else:
                stdin, heredoc = "text", self._herestring(child, scope)
        body = node.child_by_field_name("body")
        inside = _Around(tuple(redirects), stdin, heredoc)
        if body is None:
            self._add((), scope, inside)
        elif body.type == "command":
            self._command(body, scope, inside, extra)
        else:
            self._node(body, scope, inside)
        for node_after in later:
            self._node(node_after, scope, replace(around, stdin="pipe"))

    def _file_redirect(self, node: Node, scope: Scope, extra: list[Node]) -> list[Redirect]:
        self._whole(node)
        operator = next((child.type for child in node.children if not child.is_named), ">")
        targets = node.children_by_field_name("destination")
        extra += targets[1:]  # the grammar takes arguments after a redirection for targets
        redirects: list[Redirect] = []
        for value in self._words.single(targets[0], scope) if targets else ():
            target = ANY if PRINTED_BY_GIT in value else value
            if operator in (">&", "<&") and re.fullmatch(r"\d+-?|-", target):
                continue
            redirects.append(Redirect("read" if operator in ("<", "<&") else "write", target))
            if operator == "<>":
                redirects.append(Redirect("read", target))
        return redirects

    def _herestring(self, node: Node, scope: Scope) -> str | None:
        """The text when it is known."""
        self._whole(node)
        values = [each for part in node.named_children for each in self._words.single(part, scope)]
        return values[0] if len(values) == 1 and known(values[0]) else None

    def _heredoc(self, node: Node, scope: Scope) -> str | None:
        """The text when it is the same whatever happens; None when an expansion is in it."""
        found = here_document(node, self._source)
        if found.elsewhere:
            self.unclear = "the grammar ends a here-document elsewhere than bash"
        if found.body is None:
            return None
        self._words.visit(found.body, scope)
        text = (found.body.text or b"").decode("utf-8", "replace")
        if not found.quoted and "`" in text:
            self.unclear = self.unclear or "the grammar reads no backquotes in a here-document"
        return text if found.quoted or not re.search(r"[$`\\]", text) else None

    def _command(
        self, node: Node, scope: Scope, around: _Around, extra: list[Node] | None = None
    ) -> None:
        choices: list[list[list[str]]] = []  # of each word what it may become
        assigned: list[str] = []  # set for this command alone
        redirects = list(around.redirects)
        stdin = around.stdin
        heredoc = around.heredoc
        more: list[Node] = list(extra or [])
        for child in node.children:
            kind = child.type
            if kind in ("word", "command_name", "string", "number"):
                choices.append(self._words.choices(child, scope))
            elif kind == "variable_assignment":
                self._whole(child)
                name = assigned_name(child)
                assigned.append(name)
                self._words.visit(child, scope)
                value = child.child_by_field_name("value")
                unknown = value is not None and (
                    value.type == "command_substitution"
                    or not all(map(known, self._words.single(value, scope)))
                )
                if unknown:  # counts as a variable that changes programs
                    assigned.append("IFS")
                if name == "CDPATH":
                    scope.forget("CDPATH")
            elif kind == "file_redirect":
                redirects += self._file_redirect(child, scope, more)
            elif kind == "herestring_redirect":
                stdin = "text"
                heredoc = self._herestring(child, scope)
            elif child.is_named and kind != "comment":
                choices.append(self._words.choices(child, scope))
            elif kind in ("==", "=~", "$"):
                choices.append([[kind]])
        choices += (self._words.choices(child, scope) for child in more)
        inside = _Around(tuple(redirects), stdin, heredoc)
        for words in lines_of(choices):
            self._add(words, scope, inside, tuple(assigned))
            run_builtin([*words], scope)

    def _add(
        self, words: tuple[str, ...], scope: Scope, around: _Around, assigned: tuple[str, ...] = ()
    ) -> None:
        if len(self.commands) >= _MOST_COMMANDS:
            self.unclear = f"more than {_MOST_COMMANDS} commands"
            return
        inner = inner_commands(words, around.stdin) if words else []
        opaque = next((each.opaque for each in inner if each.opaque), "")
        if words and not known(words[0]):
            opaque = "the program's name is only known when it runs"
        elif words and PRINTED in words[0]:
            opaque = "the program's name is what another prints"
        elif words:
            opaque = no_program(words) or opaque
        shell = words and inner and inner[0].code is None and not inner[0].words
        if shell and around.stdin == "text" and around.heredoc is None:
            opaque = opaque or "a shell reads text that is only known when it runs"
        self.commands.append(
            Simple(words, scope.cwds, assigned, around.redirects, around.stdin, opaque)
        )
        for each in inner:
            if each.words:
                self._depth += 1
                if self._depth > _MOST_DEPTH:
                    self.unclear = "commands inside commands too deep"
                else:
                    self._add(each.words, scope, around, (*assigned, *each.assigned))
                self._depth -= 1
            elif each.code is not None:
                scopes = {"here": scope, "apart": scope.copy(), "later": scope.unknown()}
                later = int(each.when == "later" or scope.names.again > 0)
                scope.names.later += later
                self.read(each.code, scopes[each.when])
                scope.names.later -= later
            elif around.heredoc is not None and not each.opaque:
                self.read(around.heredoc, scope.copy())

    def _substitution(self, node: Node, scope: Scope) -> tuple[str, ...]:
        """Judges what is inside; the output of a few harmless commands is known well enough."""
        before = len(self.commands)
        inside = scope.copy()
        for child in node.named_children:
            self._node(child, inside, _Around())
        own = self.commands[before:]
        if len(own) == 1 and own[0].words == ("cat",) and own[0].stdin == "text":
            heredocs = [
                redirect
                for child in node.named_children
                for redirect in child.children_by_field_name("redirect")
                if redirect.type == "heredoc_redirect"
            ]
            if own[0].opaque or not heredocs:
                return (ANY,)
            text = self._heredoc(heredocs[0], Scope(self._home, (ANY,)))
            return (text,) if text is not None else (ANY,)
        one = [child.type for child in node.named_children] == ["pipeline"]
        return output_of(own, scope, one_pipeline=one)
