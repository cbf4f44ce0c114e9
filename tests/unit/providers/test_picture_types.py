"""A picture is announced to the model as what it is, whatever the platform called it."""

from __future__ import annotations

import base64

import pytest

from ohmo.providers.request_bytes import true_type

HEADS = {
    "image/png": b"\x89PNG\r\n\x1a\n",
    "image/jpeg": b"\xff\xd8\xff\xe0",
    "image/gif": b"GIF89a",
    "image/webp": b"RIFF\x10\x00\x00\x00WEBP",
}


@pytest.mark.parametrize("kind", HEADS)
@pytest.mark.parametrize("announced", HEADS)
def test_the_first_bytes_decide(kind: str, announced: str) -> None:
    assert true_type(base64.b64encode(HEADS[kind] + b"rest").decode(), announced) == kind


def test_what_nobody_knows_stays_as_announced() -> None:
    assert true_type(base64.b64encode(b"something else").decode(), "image/png") == "image/png"
