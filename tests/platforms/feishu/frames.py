"""The frames of the long connection, written from their protobuf description (pbbp2.Frame) without
the SDK: proto2 wire format."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass
class Frame:
    """method 0: control (ping, pong); 1: data. ``headers`` in order."""

    method: int
    headers: list[tuple[str, str]] = field(default_factory=list)
    payload: bytes = b""
    service: int = 1
    sequence: int = 0
    log: int = 0

    def get(self, name: str) -> str:
        return next((value for key, value in self.headers if key == name), "")

    def bytes(self) -> bytes:
        """SeqID 1, LogID 2, service 3, method 4, headers 5 {key 1, value 2}, payload 8."""
        numbers = [(1, self.sequence), (2, self.log), (3, self.service), (4, self.method)]
        out = b"".join(_varint(number << 3) + _varint(value) for number, value in numbers)
        for key, value in self.headers:
            out += _bytes(5, _bytes(1, key.encode()) + _bytes(2, value.encode()))
        return out + (_bytes(8, self.payload) if self.payload else b"")


def parse(data: bytes) -> Frame:
    """Raises ValueError for what is no frame, or lacks one of the required fields 1 to 4."""
    frame, seen = Frame(-1), set[int]()
    for number, value in _fields(data):
        seen.add(number)
        match number, value:
            case 1, int():
                frame.sequence = value
            case 2, int():
                frame.log = value
            case 3, int():
                frame.service = value
            case 4, int():
                frame.method = value
            case 5, bytes():
                pair = {
                    part: text.decode() for part, text in _fields(value) if isinstance(text, bytes)
                }
                frame.headers.append((pair[1], pair[2]))
            case 8, bytes():
                frame.payload = value
            case _:
                continue
    if not {1, 2, 3, 4} <= seen:
        raise ValueError(f"required fields are missing: {sorted({1, 2, 3, 4} - seen)}")
    return frame


def _varint(number: int) -> bytes:
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*out, number])


def _bytes(number: int, value: bytes) -> bytes:
    return _varint(number << 3 | 2) + _varint(len(value)) + value


def _fields(data: bytes) -> list[tuple[int, int | bytes]]:
    found: list[tuple[int, int | bytes]] = []
    at = 0
    while at < len(data):
        key, at = _read(data, at)
        if key & 7 == 0:
            value, at = _read(data, at)
            found.append((key >> 3, value))
        elif key & 7 == 2:
            length, at = _read(data, at)
            if at + length > len(data):
                raise ValueError("a field runs over the end")
            found.append((key >> 3, data[at : at + length]))
            at += length
        else:
            raise ValueError(f"wire type {key & 7}")
    return found


def _read(data: bytes, at: int) -> tuple[int, int]:
    number = shift = 0
    while True:
        if at >= len(data) or shift > 63:
            raise ValueError("a number runs over the end")
        number |= (data[at] & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if not data[at - 1] & 0x80:
            return number, at
