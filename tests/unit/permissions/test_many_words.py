"""Commands of thousands of words are judged in a short way; it must say what the plain way says."""

from __future__ import annotations

import os
import re
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from permission_house import House
from test_outside_attacks import DENIED_LINES
from test_permission_attacks import DENIED, DENY, SENSITIVE, lines

from ohmo.permissions.rules import (
    PATH_TOOLS,
    CommandRules,
    PathRules,
    Rule,
    covers,
    parse_rule,
    path_matches,
    spellings,
)
from ohmo.permissions.sensitive_paths import FsCache, SensitivePaths
from ohmo.permissions.sensitive_places import ABSOLUTE, ANYWHERE
from ohmo.shell.parsing import Shell
from ohmo.shell.patterns import component_matcher

HOME = Path("/home/ada")
CROWD = ";".join(
    f"echo {number} w{number}; cat f{number}.txt src/{number}.py" for number in range(40)
)
STRICTNESS = {"allow": 0, "ask": 1, "deny": 2}
NAMES = st.sampled_from(
    sorted(
        {
            part.replace("*", "x")
            for place in (*ANYWHERE, *ABSOLUTE)
            for part in place.split("/")
            if part
        }
    )
)
PARTS = st.one_of(
    NAMES,
    NAMES.map(str.upper),
    st.text("ab.K\u212a\n-", min_size=1, max_size=5),
    st.sampled_from(["home", "ada", "work", ".ohmo"]),
)


def plainly_hidden(path: str) -> bool:
    """Every place, part by part."""
    parts = path.casefold().removesuffix("\n").strip("/").split("/")
    for place in (each.split("/") for each in ANYWHERE):
        for at in range(len(parts) - len(place) + 1):
            if all(
                component_matcher(form).fullmatch(part)
                for form, part in zip(place, parts[at:], strict=False)
            ):
                return True
    whole = [place.strip("/").split("/") for place in ABSOLUTE]
    return any(
        len(parts) >= len(place)
        and all(
            component_matcher(form).fullmatch(part)
            for form, part in zip(place, parts, strict=False)
        )
        for place in whole
    )


@settings(deadline=None, max_examples=400)
@given(st.lists(PARTS, min_size=1, max_size=5))
def test_a_path_that_shares_no_name_with_a_sensitive_place_is_outside_of_all(
    parts: list[str],
) -> None:
    path = "/" + "/".join(parts)
    assert SensitivePaths(HOME).hides(path) == plainly_hidden(path)


@pytest.mark.parametrize("form", ["~/vault", "key_[0-9]*", "[!a]x/y", "*secret*"])
def test_places_of_ones_own_with_wildcards_are_found(form: str) -> None:
    places = SensitivePaths(HOME, HOME / ".ohmo", (form,))
    inside = {
        "~/vault": "/home/ada/vault/x",
        "key_[0-9]*": "/srv/key_7a",
        "[!a]x/y": "/srv/bx/y/z",
        "*secret*": "/srv/my-secrets",
    }
    assert places.hides(inside[form])
    assert not places.hides("/srv/plain/file")


@settings(deadline=None, max_examples=60)
@given(
    st.lists(
        st.sampled_from(
            """
                f0 F1 f2 link Link up loop gone dir dir/link dir/f up/dir loop/x nowhere/y ./f0
                dir/../link é link/
            """.split()
        ),
        max_size=60,
    )
)
def test_a_folder_that_is_read_at_once_resolves_names_as_one_by_one(names: list[str]) -> None:
    with tempfile.TemporaryDirectory() as name:
        top = Path(name)
        (top / "dir").mkdir()
        for file in ("f0", "F1", "dir/f"):
            (top / file).touch()
        for link, goal in (
            ("link", "f0"),
            ("up", "."),
            ("loop", "loop"),
            ("gone", "nothing"),
            ("dir/link", "../f0"),
        ):
            (top / link).symlink_to(goal)
        cache = FsCache()
        found = [
            cache.resolved(f"{top}/{each}")
            for each in (*names, *(f"n{number}" for number in range(20)), *names)
        ]
        plain = [
            os.path.realpath(f"{top}/{each}")
            for each in (*names, *(f"n{number}" for number in range(20)), *names)
        ]
    assert found == plain


RULES = st.sampled_from(
    """
        Bash Bash(rm:*) Bash(rm) Bash(git_push:*) Bash(GIT_PUSH) Bash(*push*) Bash(git_*)
        Bash(sudo_rm:*) Bash(git_*_origin:*) Read(//etc/**) Edit(/srv/x) Write Read Edit
        Glob(/etc/**) MultiEdit(/srv) Write(**/k) WebFetch
    """.split()
).map(lambda text: parse_rule(text.replace("_", " ")))
COMMANDS = st.lists(
    st.sampled_from(
        """
            git rm push -C x --no-pager sudo -u root env A=1 /bin/rm GIT Push origin timeout 5 sh
        """.split()
    ),
    min_size=0,
    max_size=6,
)
PATHS = st.sampled_from(
    ["/etc", "/etc/passwd", "/srv", "/srv/x", "/srv/x/k", "/", "/k", "/home/k/l"]
)


def below(rule: Rule, folder: str) -> bool:
    """Whether the rule's place, up to its first wildcard, lies inside a folder. No folder here is a
    link."""
    if rule.pattern is None or rule.tool not in PATH_TOOLS:
        return False
    fixed = re.split(r"[*?\[]", rule.pattern)[0]
    return fixed.rstrip("/").startswith(folder.rstrip("/") + "/")


@settings(deadline=None, max_examples=300)
@given(st.lists(RULES, max_size=6), COMMANDS, PATHS)
def test_many_rules_at_once_find_the_rule_that_each_alone_would(
    rules: list[Rule], words: list[str], path: str
) -> None:
    for simple in Shell(HOME).parse(" ".join(words), HOME).commands:
        texts = spellings(simple)
        plain = next((rule for rule in rules if rule.tool == "Bash" and covers(rule, texts)), None)
        assert CommandRules(rules).first(texts) == plain
    of_paths = [
        rule for rule in rules if rule.tool in ("Read", "Write", "Edit", "MultiEdit", "Glob")
    ]
    hits = [
        rule
        for rule in of_paths
        if path_matches(rule, "read", "Read", path) or path_matches(rule, "write", "Write", path)
    ]
    hit, lower = PathRules(rules).hit(path)
    assert hit == (hits[0] if hits else None)
    before = of_paths[: of_paths.index(hits[0])] if hits else of_paths
    assert lower == next((rule for rule in before if below(rule, path)), None)


@pytest.mark.parametrize("every", range(6))
def test_nothing_hides_in_a_crowd(house: House, every: int) -> None:
    """What is refused or asked alone is judged no milder behind a hundred harmless commands, whose
    folder was read at once by then."""
    for command in [*lines(SENSITIVE), *lines(DENIED), *DENIED_LINES.strip().split("\n")][every::6]:
        alone = house.bash(command, "full_auto", allow=["Bash"], deny=DENY)
        crowded = house.bash(f"{CROWD}; {command}", "full_auto", allow=["Bash"], deny=DENY)
        assert STRICTNESS[crowded.verdict] >= STRICTNESS[alone.verdict], (command, alone, crowded)
