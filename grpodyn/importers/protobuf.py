"""The wire format of protocol buffers, as far as two trackers' files need it."""

from __future__ import annotations

import struct
from collections.abc import Iterator

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5

Field = tuple[int, int, int | bytes]
"""(field number, wire type, value): an int of a varint, else the raw bytes."""


def fields(message: bytes) -> Iterator[Field]:
    """Yield the fields of a message in order.

    Raises:
        ValueError: the bytes are no message.

    >>> list(fields(bytes.fromhex("1005") + bytes([0x1A, 2]) + b"hi"))
    [(2, 0, 5), (3, 2, b'hi')]
    """
    at, end = 0, len(message)
    while at < end:
        key, at = _varint(message, at)
        kind = key & 7
        if kind == VARINT:
            value, at = _varint(message, at)
            yield key >> 3, kind, value
            continue
        if kind == BYTES:
            size, at = _varint(message, at)
        elif kind in (FIXED64, FIXED32):
            size = 8 if kind == FIXED64 else 4
        else:
            raise ValueError(f"wire type {kind} at byte {at}")
        if at + size > end:
            raise ValueError(f"a field of {size} bytes at byte {at} of {end}")
        yield key >> 3, kind, message[at : at + size]
        at += size


def text(value: int | bytes) -> str:
    """Return a string field."""
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else ""


def double(value: int | bytes) -> float:
    """Return a `double` or `float` field."""
    if not isinstance(value, bytes):
        return float(value)
    return float(struct.unpack("<d" if len(value) == 8 else "<f", value)[0])


def signed(value: int | bytes) -> int:
    """Return an `int64` field."""
    if isinstance(value, bytes):
        return 0
    return value - (1 << 64) if value >> 63 else value


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        if at >= len(data) or shift > 63:
            raise ValueError(f"a number is cut off at byte {at}")
        byte = data[at]
        value |= (byte & 0x7F) << shift
        at += 1
        if byte < 0x80:
            return value, at
        shift += 7
