"""``ohmo logs`` over files that were turned over, one of them damaged."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

from ohmo.cli.tail import growing
from ohmo.logs.writing import RotatingFile
from tests.programs import ohmo


def lines(*numbers: int) -> bytes:
    return b"".join(
        json.dumps(
            {"at": "2026-11-22T12:00:00Z", "level": "info", "event": f"line{number}"}
        ).encode()
        + b"\n"
        for number in numbers
    )


def test_a_damaged_older_file_is_named_and_hides_no_other(home: Path) -> None:
    folder = home / "logs"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "ohmo.jsonl").write_bytes(lines(7, 8))
    (folder / "ohmo.jsonl.1").write_bytes(lines(5, 6))
    # it was being packed when the process was killed
    (folder / "ohmo.jsonl.1.gz").write_bytes(gzip.compress(lines(5, 6))[:20])
    (folder / "ohmo.jsonl.2.gz").write_bytes(b"junk")
    (folder / "ohmo.jsonl.3.gz").write_bytes(gzip.compress(lines(1, 2)))
    said = ohmo(home, "logs", "-n", "100", code=0)
    assert [
        line.split()[2] for line in said.stdout.splitlines()
    ] == "line1 line2 line5 line6 line7 line8".split()
    assert "ohmo.jsonl.2.gz: cannot be read further" in said.stderr
    assert "ohmo.jsonl.1.gz" not in said.stderr


def test_a_log_that_is_followed_while_it_is_turned_over_loses_and_doubles_no_line(
    home: Path,
) -> None:
    """Several MB in a moment; the reader looks now and then."""
    path = home / "logs" / "ohmo.jsonl"
    file, seen = RotatingFile(path, 1 << 20, 50), list[str]()
    file.write(lines(0))
    reader = growing(path, 0)
    seen.append(next(reader))
    for number in range(1, 20_000):
        file.write(lines(number)[:-2] + b', "padding": "' + b"x" * 100 + b'"}\n')
        if number % 3_000 == 0:  # in between it was turned over
            while len(seen) < number:
                seen.append(next(reader))
    file.write(lines(20_000))
    while len(seen) <= 20_000:
        seen.append(next(reader))
    reader.close()
    assert len(list(path.parent.iterdir())) > 3
    assert [json.loads(line)["event"] for line in seen] == [
        f"line{number}" for number in range(20_001)
    ]
