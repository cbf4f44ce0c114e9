"""Figure G28: mutated configurations. ``python -m tests.faults.configurations --seeds 200 --table
docs/evidence/broken-configurations.md``.

Each seed breaks a whole config.yaml in one way, as people and half-finished writes do; a service
that finds it must run on the last good copy, and the note for its owner must name the file, the
line and, where there is one, the key."""

from __future__ import annotations

import argparse
import random
import re
import sys
import tempfile
from collections import Counter
from pathlib import Path

from channels.registry import discover
from ohmo.config.load import boot, load, remember
from ohmo.contracts.errors import ConfigError

EXAMPLE = Path(__file__).parents[2] / "config.example.yaml"
KINDS = (
    "misspelt key",
    "wrong type",
    "cut off",
    "doubled key",
    "missing secret",
    "tab",
    "open bracket",
    "noise",
    "unknown section",
    "bad encoding",
)
_KEY = re.compile(r"^(?P<indent> *)(?P<key>[a-z_]+):(?P<value> [^#\n{]+?)?(?P<rest> *#.*)?$")
_LISTS = ("[1, {a: b}]", "{a: 1}", "-5.5.5")


def good() -> str:
    """The example, with something behind its secrets."""
    return EXAMPLE.read_text(encoding="utf-8")


def mutated(text: str, kind: str, draw: random.Random) -> tuple[bytes, int | None, str]:
    """The broken file; the line that is wrong (None: it depends on the parser) and the key."""
    lines = text.split("\n")
    keys = [
        (number, found)
        for number, line in enumerate(lines)
        if (found := _KEY.match(line)) is not None
    ]
    number, found = draw.choice(keys)
    key, line = found["key"], number + 1
    match kind:
        case "misspelt key":
            wrong = key[:-1] + draw.choice("qxzj") + key[-1]
            lines[number] = lines[number].replace(f"{key}:", f"{wrong}:", 1)
            return "\n".join(lines).encode(), line, wrong
        case "wrong type":
            number, found = draw.choice(
                [(n, f) for n, f in keys if f["value"] and f["value"].strip() not in ("null", "[]")]
            )
            lines[number] = f"{found['indent']}{found['key']}: {draw.choice(_LISTS)}"
            return "\n".join(lines).encode(), number + 1, found["key"]
        case "doubled key":
            lines.insert(number, f"{found['indent']}{key}: 1")
            return "\n".join(lines).encode(), None, key
        case "missing secret":
            return (
                (
                    text + "\nremote: {endpoint: https://s3.example, bucket: b, access_key:"
                    " env:NOT_SET_ANYWHERE, secret_key: env:NOT_SET}\n"
                ).encode(),
                None,
                "",
            )
        case "tab":
            lines[number] = "\t" + lines[number].strip()
        case "open bracket":
            lines[number] = f"{found['indent']}{key}: [1, 2"
        case "unknown section":
            lines.insert(0, f"{draw.choice(('chanels', 'perms', 'jobs', 'slack'))}: {{}}")
            return "\n".join(lines).encode(), 1, lines[0].partition(":")[0]
        case "cut off":
            return text[: draw.randrange(50, len(text))].encode(), None, ""
        case "noise":
            raw = bytearray(text.encode())
            for _ in range(draw.choice((1, 5, 40))):
                raw[draw.randrange(len(raw))] = draw.randrange(256)
            return bytes(raw), None, ""
        case _:
            return text.encode("utf-16"), None, ""
    return "\n".join(lines).encode(), None, ""


def one(seed: int, folder: Path) -> tuple[str, str]:
    """Kind and outcome: ``refused`` (the old one goes on), ``still valid``, or a violation in
    capitals."""
    draw = random.Random(seed)
    kind = draw.choice(KINDS)
    home = folder / str(seed)
    home.mkdir(mode=0o700)
    environ, file = {"OHMO_HOME": str(home), "HOME": str(home.parent)}, home / "config.yaml"
    file.write_text(good(), encoding="utf-8")
    file.chmod(0o600)
    manifests = discover(strangers=()).manifests
    before, _ = boot(None, environ=environ, profile=None, manifests=manifests)
    assert remember(before, environ, manifests)
    broken, line, key = mutated(good(), kind, draw)
    file.write_bytes(broken)
    try:
        load(environ=environ, manifests=manifests)
    except ConfigError as error:
        words = str(error)
    else:
        return kind, (
            "still valid"
            if kind in ("cut off", "noise", "missing secret", "wrong type", "doubled key")
            else "TAKEN"
        )
    after, note = boot(None, environ=environ, profile=None, manifests=manifests)
    if after.source.data != before.source.data:
        return kind, "NOT THE OLD ONE"
    if not re.search(r"config\.yaml:\d+", note) and "config.yaml: not UTF-8" not in note:
        return kind, f"NO LINE: {note[:80]}"
    if line is not None and (f"config.yaml:{line}:" not in words or key not in words):
        return kind, f"WRONG PLACE: {line} {key}: {words.splitlines()[0][:100]}"
    return kind, "refused"


def campaign(seeds: range) -> Counter[tuple[str, str]]:
    with tempfile.TemporaryDirectory(prefix="ohmo-configurations-") as folder:
        return Counter(one(seed, Path(folder)) for seed in seeds)


HEAD = """# A broken config.yaml

`python -m tests.faults.configurations --seeds 200` breaks a whole configuration in ten ways and boots a service with it. *refused*: the last good copy
runs, and the owner's note names the file and its line (and the key, where one was hit). *still valid*: what was hit was a comment or another valid
value. Anything else is a violation.

| seeds | mutation | outcome | starts |
|---|---|---|--:|
"""


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.faults.configurations", description=__doc__
    )
    parser.add_argument("--seeds", type=int, default=200)
    parser.add_argument("--table", type=Path)
    wanted = parser.parse_args()
    found = campaign(range(wanted.seeds))
    lines = [
        f"| 0 to {wanted.seeds - 1} | {kind} | {outcome} | {count} |"
        for (kind, outcome), count in sorted(found.items())
    ]
    print("\n".join(lines))
    bad = sum(count for (_, outcome), count in found.items() if violation(outcome))
    if wanted.table is not None:
        wanted.table.write_text(f"{HEAD}{chr(10).join(lines)}\n\n{bad} violations.\n")
    return 1 if bad else 0


def violation(outcome: str) -> bool:
    return outcome not in ("refused", "still valid")


if __name__ == "__main__":
    sys.exit(main())
