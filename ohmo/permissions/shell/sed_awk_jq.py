"""The small part of sed's, awk's and jq's languages that only prints what it is given."""

from __future__ import annotations

import re

from ohmo.permissions.patterns import word_set


def _sed_text(delimiter: str) -> str:
    """Up to a delimiter. GNU ends it at the first one, BSD not inside brackets, so brackets hold
    none; a bracket that begins with ``]`` or holds a class is left out."""
    plain = rf"[^\\\n\[{re.escape(delimiter)}]"
    bracket = rf"\[\^?[^\]\[^\\\n{re.escape(delimiter)}][^\]\[\\\n{re.escape(delimiter)}]*\]"
    return rf"(?:{plain}|\\[^\nce]|{bracket})*"


_PLACE = rf"(?:\d+|\$|/{_sed_text('/')}/)"
_PLACES = rf"{_PLACE}(?:,(?:{_PLACE}|\+\d+))?\s*+(?:!\s*+)?"
_CHANGES = "|".join(
    rf"s{mark}{_sed_text(mark[-1])}{mark}{_sed_text(mark[-1])}{mark}[gpiI0-9]*"
    for mark in ("/", r"\|", "#", ",")
)
_SED_COMMAND = rf"(?:{_PLACES})?(?:[pdqnNGhHx=]|{_CHANGES})"
_SED = re.compile(rf"\s*+{_SED_COMMAND}[ \t]*+(?:[;\n]\s*+{_SED_COMMAND}[ \t]*+)*+;?\s*+")

_AWK_VALUE = (
    r"(?:\$(?:\d+|NF)|\$\(NF-\d+\)|NR|NF|FNR|FILENAME|\d+|\"[^\"\\\n]*\"|length\(\$\d+\)|length)"
)
_AWK_SUM = r"(?:s|n|c|t|sum|count|total|max)"
_AWK_TEST = (
    rf"(?:{_AWK_VALUE}\s*(?:==|!=|>=|<=|>|<|%|\+)\s*{_AWK_VALUE}(?:\s*==\s*\d+)?"
    rf"|(?:{_AWK_VALUE}\s*!?~\s*|!?)/[\w .,:@=^$*+-]*/|!?{_AWK_VALUE})"
)
_AWK_STATEMENT = (
    rf"(?:print(?:\s+(?:{_AWK_VALUE}|{_AWK_SUM})"
    rf"(?:(?:\s*,\s*|\s+|\s*[-+*/]\s*)(?:{_AWK_VALUE}|{_AWK_SUM}))*)?"
    rf"|{_AWK_SUM}\s*\+=\s*{_AWK_VALUE}|{_AWK_SUM}\+\+|next|exit)"
)
_AWK_RULE = (
    rf"(?:(?:BEGIN|END|{_AWK_TEST}(?:\s*(?:&&|\|\||,)\s*{_AWK_TEST})*)?\s*"
    rf"\{{\s*{_AWK_STATEMENT}\s*(?:;\s*{_AWK_STATEMENT}\s*)*;?\s*\}}"
    rf"|{_AWK_TEST}(?:\s*(?:&&|\|\||,)\s*{_AWK_TEST})*)"
)
_AWK = re.compile(rf"\s*{_AWK_RULE}(?:(?:\s*[;\n]|(?<=\}}))\s*{_AWK_RULE})*\s*")

_JQ_TOKEN = re.compile(r"\s+|\"[^\"\\]*\"|\.\.|\.?[A-Za-z_]\w*|\d+|[.,:;|()\[\]{}?=!<>+*/%-]|@\w+")
_JQ_WORDS = word_set(
    """add all and any arrays ascii_downcase ascii_upcase booleans contains def del elif else empty
        end endswith false first flatten floor from_entries fromjson group_by has if in
        index indices inside isvalid iterables join keys keys_unsorted last length limit map
        map_values max max_by min min_by not nth null nulls numbers objects or paths range recurse
        reverse round scalars select sort sort_by split sqrt startswith strings sub gsub test
        then to_entries toarray tojson tonumber tostring transpose true type unique unique_by values
        walk with_entries @csv @tsv @text @json @base64 @base64d"""
)


def sed_only_prints(script: str) -> bool:
    """Prints, deletes, moves on and substitutes; runs, reads and writes nothing (``e r R w W``)."""
    return _SED.fullmatch(script) is not None


def awk_only_prints(program: str) -> bool:
    """``print`` of fields under conditions, and sums; no ``>``, ``|``, ``getline``, ``system``."""
    return len(program) <= 500 and _AWK.fullmatch(program) is not None


def jq_only_reads(filter_: str) -> bool:
    """Field names, and words of jq that neither load a module nor look at the environment."""
    at = 0
    inside: list[str] = []
    while at < len(filter_):
        token = _JQ_TOKEN.match(filter_, at)
        if token is None:
            return False
        word = token[0]
        at = token.end()
        if word in ("(", "[", "{"):
            inside.append(word)
        elif word in (")", "]", "}"):
            inside = inside[:-1]
        elif (word[0].isalpha() or word[0] in "_@") and word not in _JQ_WORDS:
            key = inside[-1:] == ["{"] and re.match(r"\s*:", filter_[at:])  # {name: .value}
            if not key:
                return False
    return True
