"""What a person reads when a call wants permission, and the rule that an answer for longer
stores."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import groupby
from pathlib import Path

from channels.text import code_span, fenced, literal, some
from ohmo.contracts.messages import Json, ToolCall
from ohmo.contracts.tool import CallContext, Footprint
from ohmo.permissions.rules import READERS, Ruling
from ohmo.permissions.wildcard_rules import family
from ohmo.shell.parsing import Shell

# arguments in which each letter counts
_EXACT = ("command", "file_path", "notebook_path", "url", "path", "pattern")
_LONGEST_TITLE = 120
_UNESCAPED = re.compile(r"\[(?=[*?[]\])|(?<=\[[*?[])\]")  # glob.escape


def title_of(call: ToolCall) -> str:
    """One line: the tool and what it is about; what it leaves out is told in numbers."""
    for name in _EXACT:
        value = call.arguments.get(name)
        if value:
            line = title_line(str(value))
            return f"{call.name}: {line}" if str(value).strip() else call.name
    return call.name


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
    left: list[str] = []
    if over > 0:
        left.append(f"{over} characters")
    if more:
        left.append(some(len(more), "line"))
    if not left:
        return line
    return f"{line[:_LONGEST_TITLE]}… (+{', '.join(left)})"


def detail_of(call: ToolCall, context: CallContext, ruling: Ruling) -> str:
    """The arguments as CommonMark, and why somebody is asked."""
    parts: list[str] = []
    for name, value in call.arguments.items():
        if value is None:
            continue
        label = name
        if not re.fullmatch(r"[\w-]+", name, re.ASCII):  # of a server's tool, any text
            label = code_span(visible(" ".join(name.split()), exact=True)) or "(no name)"
        parts.append(argument(label, value))
    why = literal(why_asked(ruling))  # it quotes words of the call
    folder = visible(str(context.cwd), exact=True)
    parts.append(f"in {code_span(folder)}: {why}")
    return "\n".join(parts)


def why_asked(ruling: Ruling) -> str:
    """The reason, and the layer with its rule, in one line."""
    why = f"{ruling.reason} ({ruling.source})" if ruling.reason else ruling.source
    return visible(" ".join(why.split()), exact=True)


def argument(name: str, value: Json) -> str:
    """As CommonMark that nothing in ``value`` can leave, whole: it stays what was asked about,
    whatever it imitates."""
    text = visible(value if isinstance(value, str) else str(value), exact=name in _EXACT)
    if not text:
        return f"{name}: (empty)"  # an Edit that takes something away says so
    if not re.search(r"[\n`]", text) and text == text.strip() and len(text) <= 200:
        return f"{name}: `{text}`"
    return f"{name}:\n{fenced(text)}"


def suggest_rule(call: ToolCall, footprint: Footprint, cwd: Path, shell: Shell) -> str:
    """The narrow rule that "for this session" and "always" store: a command family where that is
    safe, one file, one domain."""
    if footprint.command is not None:
        plain = shell.parse(footprint.command, cwd).plain
        pattern: str | None = None
        if len(plain) == 1 and not plain[0].redirects:
            # ``git push:*`` when all that the command says beside that is known to do no more.
            pattern = family(plain[0])
        return f"Bash({pattern or footprint.command.strip()})"
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
    if folder != pattern:
        what += " everything in"
    return f"{what} {_UNESCAPED.sub('', folder)}"


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


_CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f]")
# What shows nothing and yet is a letter, a mark or a symbol by its category: those that are
# Default_Ignorable_Code_Point (Unicode, DerivedCoreProperties); blank patterns, fillers, and what
# stands for an object that is not there.
_BLANK = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180d\u180f\u3164\ufe00-\ufe0f\uffa0"
    "\U000e0100-\U000e01ef\u2800\ufffc\U00013441\U00013442\U00016fe4\U0001d159]"
)
_MOST_MARKS = 4  # on one letter, and none twice in a row (UTS 39, 5.4)
_OVERLAY = 1  # canonical combining class of marks that cross a letter out
# Scripts, as the names of their letters begin. Apart: nothing in them looks like an ASCII letter,
# and they stand beside such letters in a word. Today: what people write (UAX 31, table 5).
_APART = re.compile(r"(?:CJK|HIRAGANA|KATAKANA|KATAKANA-HIRAGANA|HANGUL|BOPOMOFO|IDEOGRAPHIC) ")
_TODAY = re.compile(
    _APART.pattern + r"|(?:GREEK|CYRILLIC|ARMENIAN|GEORGIAN|HEBREW|ARABIC|THAANA|DEVANAGARI|BENGALI"
    r"|GURMUKHI|GUJARATI|ORIYA|TAMIL|TELUGU|KANNADA|MALAYALAM|SINHALA|THAI|LAO|TIBETAN|MYANMAR"
    r"|ETHIOPIC|KHMER) "
)
_NONE = re.compile(r"(?!)")
# Of Cyrillic, Greek and Armenian, which have words that look like ASCII from end to end.
_LIKE_LETTERS = frozenset(
    "асԁеһіјӏорԛѕхуԝѵАВЕЅІЈКМНОРСТХУӀԚԜѴοανρυικγϲϳΑΒΕΖΗΙΚΜΝΟΡΤΥΧϹͿօոսհցյքԼՏՍՕ"
)
_LIKE_SIGNS = frozenset("‐‑‒–−⁄∕⧸․｡∶꞉ǃǀ‘’‛′ʹʼ“”″‚‹›∣∖⧵⁎∗∼")


def visible(text: str, *, exact: bool = False) -> str:
    """``text`` with what nobody sees, or takes for something else, written out.

    That is: controls but line feed and tab, formats, surrogates, private and unassigned code
    points, all that is Default_Ignorable, every space but U+0020; marks on no letter, or too many
    on one; and in a word that has ASCII letters, letters of scripts that look like them. ``exact``:
    of a command, a path or an address also whole words and signs that look like ASCII."""
    if text.isascii():
        return _CONTROLS.sub(lambda found: _written(found[0]), text)
    pieces: list[str] = []
    before = " "
    for kind, run in groupby(text, _kind):
        characters = list(run)
        if kind == "word":
            pieces += _word(characters, exact=exact)
        elif kind == "hidden":
            pieces += map(_written, characters)
        else:
            wide = unicodedata.east_asian_width(before) == "W"  # then fullwidth signs are its own
            for sign in characters:
                plain = unicodedata.normalize("NFKC", sign)
                ascii_form = not sign.isascii() and len(plain) == 1 and plain.isascii()
                alike = sign in _LIKE_SIGNS or ascii_form
                pieces.append(_written(sign) if exact and not wide and alike else sign)
        before = characters[-1]
    return "".join(pieces)


def _written(character: str) -> str:
    return character.encode("unicode_escape", "surrogatepass").decode()


@lru_cache(maxsize=4096)
def _kind(character: str) -> str:
    category = unicodedata.category(character)[0]
    if character in " \n\t":
        return "sign"
    if category in "CZ" or _BLANK.match(character):
        return "hidden"
    return "word" if category in "LMN" else "sign"


def _word(characters: Sequence[str], *, exact: bool) -> Iterator[str]:
    """Letters, digits and their marks."""
    letters = [character for character in characters if unicodedata.category(character)[0] == "L"]
    scripts: re.Pattern[str] | None = None
    if any(character.isascii() for character in letters):
        scripts = _APART
    elif exact:
        scripts = _NONE if all(character in _LIKE_LETTERS for character in letters) else _TODAY
    letter, marks = "", list[str]()
    for character in characters:
        if unicodedata.category(character)[0] == "M":
            # What follows would stand on the escape.
            overlay = (
                unicodedata.category(character) == "Me"
                or unicodedata.combining(character) == _OVERLAY
            )
            if overlay or character in marks[-1:] or len(marks) >= _MOST_MARKS:
                letter = ""
            yield character if letter else _written(character)
            marks.append(character)
        else:
            letter, marks = character, []
            safe = character.isascii() or scripts is None or _is_of(character, scripts)
            yield character if safe else _written(character)


@lru_cache(maxsize=4096)
def _is_of(letter: str, scripts: re.Pattern[str]) -> bool:
    """Whether a letter or digit is of these scripts, or one of ASCII's with a mark, or of the two
    Latin blocks behind it."""
    kind = unicodedata.category(letter)
    if kind in ("Lu", "Ll", "Lt", "Nl", "Nd") and unicodedata.normalize("NFKC", letter).isascii():
        return False  # another form of the same letter: fullwidth, mathematical, a Roman numeral
    if letter <= "\u017f":
        return letter not in "ıĸ"
    name = unicodedata.name(letter, "")
    if name.startswith("LATIN "):
        return unicodedata.normalize("NFD", letter)[0].isascii()
    return kind == "No" or scripts.match(name) is not None
