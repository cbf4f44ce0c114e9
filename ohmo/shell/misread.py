"""Whether tree-sitter's bash grammar takes for plain text what bash takes for something else,
and which text bash runs as it counts. What the grammar cannot be trusted with is given up."""

from __future__ import annotations

import itertools
import re
import time
from collections.abc import Sequence

import tree_sitter_bash
from tree_sitter import Language, Node, Parser

from channels.record import record
from ohmo.shell.patterns import word_set

_LANGUAGE = Language(tree_sitter_bash.language())
# Of this thread's processor time, so that a busy machine changes no verdict; and as long again
# until the tree can be read. A thousand words with ``?`` take the square of their number.
_SECONDS = 0.08
_CHUNK = 1 << 16  # bytes of source handed over at once
_SHORT = 1000  # bytes of source that cannot take long
_EASY = re.compile(r"[\w\s./;:,@%+-]*")  # nothing the parser could try in two ways


class Unread(Exception):
    """Why the grammar is not to be trusted with this text."""


def parsed(source: str) -> Node:
    """The syntax tree. Raises Unread: some texts make the parser try again and again."""
    data = source.encode("utf-8", "surrogatepass")
    parser = Parser(_LANGUAGE)
    if len(data) <= _SHORT or _EASY.fullmatch(source):
        return parser.parse(data).root_node
    # Only a source that is read piece by piece can be given up.
    deadline = time.thread_time() + _SECONDS
    try:
        tree = parser.parse(
            lambda at, _: data[at : at + _CHUNK],
            progress_callback=lambda _at, _error: time.thread_time() > deadline,
        )
    except ValueError as error:
        raise Unread("the shell grammar takes too long to read it") from error
    return parser.parse(data, tree).root_node  # the same tree, with nodes that are quick to read


_RUNS = re.compile(rb"`|\$\(|\$\[|\$\{|[<>]\(")
_RUNS_QUOTED = re.compile(rb"`|\$\(|\$\[|\$\{")  # in double quotes
_ESCAPED = re.compile(rb"\\.", re.DOTALL)
# Names of elements are evaluated as bash counts, also those in the value of a variable (bash(1),
# "ARITHMETIC EVALUATION"); so are prompts.
_COUNTED = re.compile(rb"\w\[[^\]]*(?:`|\$\(|\$\{|\\[$`xuU0-7])")
_COLOUR = re.compile(rb"\\(?:033|e|E|x1[bB])\[[0-9;?]*[A-Za-z]")  # of a terminal, and no element
_PROMPT = re.compile(rb"@P\}$|^PS[04]\+?=")
_TEXT = frozenset({"raw_string", "ansi_c_string", "comment", "heredoc_body", "heredoc_end"})
_COUNTS = frozenset({"raw_string", "ansi_c_string", "string_content"})
_PIECES = word_set(
    """word string raw_string ansi_c_string translated_string concatenation simple_expansion
        expansion command_substitution process_substitution number brace_expression
        arithmetic_expansion command_name $"""
)
_ENDING = _PIECES | word_set("file_redirect herestring_redirect variable_assignment")
_BLANKS = re.compile(r"[^\S \t\n]")  # for the grammar, and for bash letters
_COMMENTED = re.compile(rb"(?:^|[;&|()<>`]|(?<!\\)[ \t\n])$")  # before a comment
_DELIMITER = re.compile(rb"\\?[\w.-]+|'[\w .-]+'|\"[\w .-]+\"")
_JOINS = re.compile(rb"\\|\$\"")
_BROKEN = re.compile(rb"\s")  # how no word begins
_APART = re.compile(rb"\\|\n")  # what stands between no two words of a command
_RESERVED = word_set(  # bash(1), "RESERVED WORDS", where a command begins: ``time { ...; }``
    "{ } ! ( ) (( [[ if then elif else fi for in until while do done case esac select coproc"
)
_TAKES_NAMES = word_set("test [ printf read let unset declare typeset export readonly local wait")
_NAMED = re.compile(r"\w\[.*(?:`|\$[({])", re.DOTALL)


def misread(root: Node, source: str) -> bool:
    """Whether the grammar cannot read the source, or takes for blanks or comments what bash takes
    for words, or for text what bash runs."""
    if root.has_error or _BLANKS.search(source):
        return True
    nodes = [(root, False)]  # and whether it stands in double quotes
    data = root.text or b""
    while nodes:
        node, quoted = nodes.pop()
        kind = node.type
        if kind == "comment":
            before = data[max(0, node.start_byte - 2) : node.start_byte]
            if _COMMENTED.search(before) is None:
                return True
        elif _runs(node, quoted=quoted):
            return True
        if kind in ("string", "translated_string"):
            quoted = True
        elif kind in ("command_substitution", "process_substitution"):
            quoted = False
        nodes += ((child, quoted) for child in node.children)
    return False


def _runs(node: Node, *, quoted: bool) -> bool:
    text = node.text or b""
    if node.type in ("expansion", "variable_assignment") and _PROMPT.search(text) is not None:
        return True
    if node.type in _COUNTS and _COUNTED.search(_COLOUR.sub(b" ", text)) is not None:
        return True
    if node.type == "command_substitution":  # in backquotes a backslash hides others
        return text.startswith(b"`") and b"\\" in text
    if node.children or not node.is_named:
        return False
    if node.type in _TEXT:  # which single quotes are not in "${a:-'...'}"
        return quoted and node.type == "raw_string" and _RUNS_QUOTED.search(text) is not None
    form = _RUNS_QUOTED if quoted or node.type == "heredoc_content" else _RUNS
    return form.search(_ESCAPED.sub(b"", text)) is not None


def cut_elsewhere(node: Node, source: bytes) -> bool:
    """Whether the words of a node are others for bash: the grammar takes ``'a'\\b``,
    ``'a'\\ b`` and ``$"a"b`` for two, and a line that begins with a backslash for a word of the one
    before."""
    if not _JOINS.search(node.text or b""):
        return False
    children = node.children
    if any(_BROKEN.match(child.text or b"") for child in children if child.type == "word"):
        return True
    for one, other in itertools.pairwise(children):
        between = source[one.end_byte : other.start_byte].replace(b"\\\n", b"")
        touches = one.type in _ENDING and not between
        if other.type in _PIECES and (touches or _APART.search(between)):
            return True
    return False


@record
class HereDocument:
    """``elsewhere``: bash may end it at another line."""

    body: Node | None
    quoted: bool
    elsewhere: bool


def here_document(node: Node, source: bytes) -> HereDocument:
    """Of a redirection; bash ends it at the first line that is its word."""
    parts = {child.type: child for child in node.named_children}
    start, end, body = (parts.get(f"heredoc_{part}") for part in ("start", "end", "body"))
    word = (start.text if start is not None else None) or b""
    quoted = re.search(rb"['\"\\]", word) is not None
    if end is None or not _DELIMITER.fullmatch(word):
        return HereDocument(body, quoted, elsewhere=True)
    line = source.rfind(b"\n", 0, end.start_byte) + 1
    before, after = source[line : end.start_byte], source[end.end_byte :]
    text = body.text or b"" if body is not None else b""
    if not quoted:  # bash joins its lines first
        before = b"\\" + before if text.endswith(b"\\\n") else before
        text += b"\n" + text.replace(b"\\\n", b"")
    head = source[start.end_byte : (body or end).start_byte] if start is not None else b""
    lines = text.split(b"\n")
    earlier = word.strip(b"'\"\\") in (each.strip(b"\t") for each in lines)
    stands_alone = not before.strip(b"\t") and (not after or after.startswith(b"\n"))
    continued = b"\\\n" in head
    return HereDocument(body, quoted, earlier or continued or not stands_alone)


def may_run(value: str) -> bool:
    """Whether bash runs what stands in a value that it evaluates: ``a[$(program)]``."""
    return _NAMED.search(value) is not None


def no_program(words: Sequence[str]) -> str:
    """Why the first word is not all that runs there; "" when it is."""
    if words[0] in _TAKES_NAMES and any(map(may_run, words)):
        return f"{words[0]} runs what stands in the name of an element"
    return f"the grammar takes {words[0]!r} for a program" if words[0] in _RESERVED else ""
