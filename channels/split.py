"""Cuts CommonMark to a platform's size, so that every piece means what it meant in the whole."""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_right
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from channels.record import record
from channels.text import outline

if TYPE_CHECKING:
    from markdown_it.token import Token

ZWJ = "\u200d"
FIRST_GUESS = 4096  # characters; most messages fit at the first question
SMALLEST_SHARE = 4  # a better boundary counts only when the piece keeps a quarter of what would fit

_TABLE_RULE = re.compile(r"\s*\|?\s*:?-+:?\s*(\|\s*:?-+:?\s*)*\|?\s*")
_SENTENCE_END = re.compile(r"[.!?…]['\")\]»”]*\s+|[。！？]")
_STARTS_A_BLOCK = re.compile(
    r"[ \t]*(#{1,6}(\s|$)|[-+*](\s|$)|\d{1,9}[.)](\s|$)|>|```|~~~|[-=_*]{2,}\s*$|\|)", re.MULTILINE
)


@record
class _Wrap:
    """What a cut inside a fence or a table has to close and to open again. Lines ``body`` to
    ``last`` can stand in another piece."""

    first: int
    body: int
    last: int  # exclusive; the closing line of a fence comes after it
    opener: str
    closer: str
    indent: int  # of its first line, inside a list


@record
class _Cuts:
    """Where a source may be cut: offsets of line starts, the ranks of some, and the wraps by
    line."""

    text: str
    end: int  # behind it there is only white space
    lines: list[int]
    blocks: list[int]
    items: list[int]
    wraps: dict[int, _Wrap]
    raw: set[int]  # lines of indented code

    def wrap_at(self, offset: int) -> _Wrap | None:
        """The fence or table that a cut at ``offset`` would tear."""
        if offset >= self.end:
            return None
        return self.wraps.get(bisect_right(self.lines, offset) - 1)

    def is_useful(self, offset: int) -> bool:
        """Whether neither side of a cut at this line start is an empty fence or a table without
        rows."""
        line = bisect_right(self.lines, offset) - 1
        wrap = self.wraps.get(line)
        return wrap is None or line > wrap.body


def split_markdown(text: str, fits: Callable[[str], bool]) -> list[str]:
    """Cuts CommonMark source into pieces that all fit: between blocks, else items, lines,
    sentences, words, characters.

    A torn code fence is closed and opened again with its info string, a torn table repeats its
    head. Only white space at the cuts is dropped. ``fits`` is asked about pieces, never about much
    more than fits, so that the whole takes n log n. Blank text gives no piece. A visible character
    that does not fit alone is torn, and a code point that does not fit is a piece all the same:
    nothing is ever lost here.
    """
    if not text.strip():
        return []
    whole = text.rstrip()
    if len(whole) <= FIRST_GUESS and fits(whole):  # nobody needs to know where it could be cut
        return [whole]
    cuts = _find_cuts(text)
    pieces: list[str] = []
    start = 0
    guess = FIRST_GUESS
    end = cuts.end
    while start < end:
        reach = _reach(cuts, start, end, guess, fits)
        cut = end if reach == end else _best_cut(cuts, start, reach, fits)
        piece = _piece(cuts, start, cut)
        if not fits(piece):  # even bare the closing and opening lines may be too much
            piece = text[start:cut].strip("\n")
        if piece.strip():
            pieces.append(piece)
        guess = max(16, reach - start)
        start = cut
        if cuts.wrap_at(cut) is not None:
            continue
        # White space at a cut belongs to neither side; inside a fence, and at the head of a line,
        # it means something.
        if _closing_line(cuts, cut):  # the piece before has closed the fence already
            line = bisect_right(cuts.lines, cut)
            start = cuts.lines[line] if line < len(cuts.lines) else end
        at_line_start = start == 0 or text[start - 1] in "\r\n"
        blank = "\r\n" if at_line_start else " \t\r\n"
        while start < end and text[start] in blank:
            start += 1
    return pieces


def _find_cuts(text: str) -> _Cuts:
    ends = [match.end() for match in re.finditer(r"\n|\r\n?", text)]
    lines = [0, *ends]
    source = re.split(r"\n|\r\n?", text)
    blocks: set[int] = set()
    items: set[int] = set()
    wraps: dict[int, _Wrap] = {}
    raw: set[int] = set()
    for token in outline().parse(text):
        if token.map is None or token.nesting < 0 or token.map[0] >= len(lines):
            continue
        first, last = token.map
        if token.level > 0:
            items.add(lines[first])
        else:
            blocks.add(lines[first])
        if token.type == "code_block" and token.level == 0:
            raw.update(range(first, last))
        wrap = _wrap_of(token, source, first, last)
        if wrap is not None:
            for line in range(wrap.body, wrap.last):
                wraps[line] = wrap
    end = len(text.rstrip())
    return _Cuts(text, end, lines, sorted(blocks), sorted(items), wraps, raw)


def _wrap_of(token: Token, source: list[str], first: int, last: int) -> _Wrap | None:
    head = source[first]
    if token.type == "fence":
        fence = token.markup
        quote = re.match(r"(?:[ \t]*>)+", head)
        prefix = f"{quote.group()} " if quote is not None else ""
        end = source[last - 1].strip(" \t>")
        is_closed = last - first > 1 and end.startswith(fence)
        indent = 0 if prefix else max(0, head.find(fence))
        opener = f"{prefix}{fence}{token.info}\n"
        closer = f"\n{prefix}{fence}"
        return _Wrap(first, first + 1, last - is_closed, opener, closer, indent)
    is_paragraph = token.type == "paragraph_open" and token.level == 0
    if not is_paragraph or last - first <= 2 or "|" not in head:
        return None
    rule = source[first + 1]
    if not _TABLE_RULE.fullmatch(rule):
        return None
    opener = f"{head}\n{rule}\n"
    return _Wrap(first, first + 2, last, opener, "", 0)


def _piece(cuts: _Cuts, start: int, end: int) -> str:
    body = cuts.text[start:end]
    before = cuts.wrap_at(start)
    if before is not None:
        body = before.opener + _outdent(body, before.indent)
    elif start > 0 and body[:1] == " " and bisect_right(cuts.lines, start) - 1 not in cuts.raw:
        first = cuts.text[start : start + 64]
        body = _outdent(body, len(first) - len(first.lstrip(" ")))
    # What the end tears is closed, also when its closing line comes right there.
    after = cuts.wrap_at(end)
    if after is None and _closing_line(cuts, end):
        after = cuts.wrap_at(end - 1)
    if after is None or not after.closer:
        return body.rstrip()
    closer = after.closer
    if after is not before:
        closer = closer.replace("\n", "\n" + " " * after.indent)
    return body.removesuffix("\n") + closer


def _outdent(body: str, indent: int) -> str:
    """A piece that begins inside a list item stands at the margin, down to the first line that
    leaves the item."""
    if indent == 0:
        return body
    lines = body.split("\n")
    margin = " " * indent
    for number, line in enumerate(lines):
        if line.strip() and not line.startswith(margin):
            break
        if line.startswith(margin):
            lines[number] = line[indent:]
        else:
            lines[number] = line.lstrip(" ")
    return "\n".join(lines)


def _closing_line(cuts: _Cuts, at: int) -> bool:
    """Whether the closing line of a fence begins at ``at``."""
    line = bisect_right(cuts.lines, at) - 1
    wrap = cuts.wraps.get(line - 1)
    if wrap is None or wrap.closer == "" or line != wrap.last:
        return False
    return at == cuts.lines[line] and at < cuts.end


def _reach(cuts: _Cuts, start: int, end: int, guess: int, fits: Callable[[str], bool]) -> int:
    """About the farthest offset up to which the text still fits; at least one character on."""
    low = start
    high = start + guess
    while high < end and fits(_piece(cuts, start, high)):
        low = high
        share = 4 if start else 1  # later pieces are guessed well
        high += max(16, (high - start) // share)
    if high >= end:
        if fits(_piece(cuts, start, end)):
            return end
        high = end
    while high - low > max(1, (low - start) // 16):
        middle = (low + high) // 2
        if fits(_piece(cuts, start, middle)):
            low = middle
        else:
            high = middle
    return max(low, start + 1)


def _best_cut(cuts: _Cuts, start: int, reach: int, fits: Callable[[str], bool]) -> int:
    least = start + max(1, (reach - start) // SMALLEST_SHARE)
    for candidate in _candidates(cuts, start, least, reach):
        if fits(_piece(cuts, start, candidate)):
            return candidate
    cut = between_characters(cuts.text, start, reach)
    while not fits(_piece(cuts, start, cut)):
        half = (cut - start) // 2
        shorter = between_characters(cuts.text, start, start + half)
        if shorter >= cut:  # one visible character alone is too much: by code points then
            return max(start + 1, min(reach, cut))
        cut = shorter
    return cut


def _candidates(cuts: _Cuts, start: int, least: int, reach: int) -> Iterator[int]:
    for offsets in (cuts.blocks, cuts.items, cuts.lines):
        behind = bisect_right(offsets, reach)
        for at in reversed(offsets[max(0, behind - 2) : behind]):
            if least <= at <= reach and cuts.is_useful(at):
                yield at
    if cuts.wrap_at(reach) is None:
        sentences = list(_SENTENCE_END.finditer(cuts.text[start:reach]))
        for sentence in reversed(sentences[-3:]):
            at = start + sentence.end()
            if at >= least and not _STARTS_A_BLOCK.match(cuts.text, at):
                yield at
    at = reach
    for _ in range(4):
        blank = cuts.text.rfind(" ", least - 1, at - 1)
        tab = cuts.text.rfind("\t", least - 1, at - 1)
        at = max(blank, tab) + 1
        if at < least or at <= start + 1:
            return
        if not _STARTS_A_BLOCK.match(cuts.text, at) and cuts.text[start:at].strip():
            yield at


def between_characters(text: str, start: int, at: int) -> int:
    """The nearest offset at or before ``at`` that tears no visible character; ``at`` itself when
    one character is all there is."""
    at = max(at, start + 1)
    for cut in range(at, max(start, at - 64), -1):
        if cut >= len(text) or not _joined(text, cut):
            return cut
    # The first character may be one of many code points.
    for cut in range(at + 1, min(len(text), start + 64)):
        if not _joined(text, cut):
            return cut
    return at


def _joined(text: str, at: int) -> bool:
    """Whether the code points around offset ``at`` make one visible character (Unicode Text
    Segmentation, UAX 29, in short)."""
    before = text[at - 1]
    after = text[at]
    if after < "\u0300":
        return before == "\\" or (before == "\r" and after == "\n")
    if before == ZWJ or after in {ZWJ, "\u200c"} or unicodedata.category(after)[0] == "M":
        return True
    if "\U0001f3fb" <= after <= "\U0001f3ff" or "\U000e0020" <= after <= "\U000e007f":
        return True
    if "\ud800" <= before <= "\udbff" and "\udc00" <= after <= "\udfff":
        return True
    if "\u1160" <= after <= "\u11ff" and (
        "\u1100" <= before <= "\u11ff" or "\uac00" <= before <= "\ud7a3"
    ):
        return True
    halves = 0
    if _is_flag_half(after):
        while halves < min(at, 64) and _is_flag_half(text[at - 1 - halves]):
            halves += 1
    return halves % 2 == 1


def _is_flag_half(character: str) -> bool:
    return "\U0001f1e6" <= character <= "\U0001f1ff"
