"""Frames and plain values between processes that do not trust each other.

A value is carried as JSON: numbers, text, None and bool as they are, everything else as `{"t": type, "v": ...}`. What
is decoded is always a plain builtin: no class of the sender's, so no method of the sender's, arrives.
"""

from __future__ import annotations

import json
import os
import select
import struct
import time
from collections.abc import Callable
from typing import Any

HEADER = struct.Struct(">I")
BIG = 2**53
DEPTH = 64


class Unplain(TypeError):  # noqa: N818
    """The value is no plain builtin."""


class Lost(Exception):  # noqa: N818  # it says what happened
    """The other end is gone, too slow, or says too much."""


def send(fd: int, message: dict[str, Any], limit: int) -> None:
    """Write one frame."""
    payload = json.dumps(message, allow_nan=False).encode("ascii")
    if len(payload) > limit:
        raise Lost(f"a message of {len(payload)} bytes is over the limit of {limit}")
    view = memoryview(HEADER.pack(len(payload)) + payload)
    while view:
        view = view[os.write(fd, view) :]


def receive_bytes(fd: int, limit: int, deadline: float | None = None) -> bytes:
    """Return the payload of the next frame, unread."""
    (length,) = HEADER.unpack(_exactly(fd, HEADER.size, deadline))
    if length > limit:
        raise Lost(f"a message of {length} bytes is over the limit of {limit}")
    return _exactly(fd, length, deadline)


def receive(fd: int, limit: int, deadline: float | None = None) -> Any:
    """Return the next frame's message."""
    try:
        return json.loads(receive_bytes(fd, limit, deadline))
    except (ValueError, RecursionError) as error:
        raise Lost(f"a message that is no JSON: {type(error).__name__}") from None


def _exactly(fd: int, count: int, deadline: float | None) -> bytes:
    parts: list[bytes] = []
    while count:
        if deadline is not None:
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([fd], [], [], left)[0]:
                raise Lost("took too long")
        part = os.read(fd, min(count, 65536))
        if not part:
            raise Lost("ended early")
        parts.append(part)
        count -= len(part)
    return b"".join(parts)


def encode(value: Any, depth: int = 0) -> Any:
    """Return a plain value as JSON can carry it; subclasses of builtins are carried as their builtin."""
    if depth > DEPTH:
        raise Unplain(f"nested deeper than {DEPTH}")
    if value is None or value is True or value is False:
        return value
    if isinstance(value, int):
        value = int.__int__(value)
        return value if -BIG < value < BIG else {"t": "int", "v": hex(value)}
    if isinstance(value, float):
        return {"t": "float", "v": float.__repr__(value)}
    if isinstance(value, str):
        if _odd(value):
            return {"t": "str", "v": str.encode(value, "utf-8", "surrogatepass").hex()}
        return str.__str__(value)
    if isinstance(value, complex):
        return {"t": "complex", "v": [float.__repr__(value.real), float.__repr__(value.imag)]}
    if isinstance(value, bytes | bytearray):
        return {"t": "bytearray" if isinstance(value, bytearray) else "bytes", "v": bytes(value).hex()}
    kinds: tuple[Any, ...] = (list, tuple, set, frozenset)
    for kind in kinds:
        if isinstance(value, kind):
            return {"t": kind.__name__, "v": [encode(item, depth + 1) for item in kind.__iter__(value)]}
    if isinstance(value, dict):
        return {"t": "dict", "v": [[encode(k, depth + 1), encode(v, depth + 1)] for k, v in dict.items(value)]}
    raise Unplain(f"a {type(value).__name__} is no plain value")


def _odd(text: str) -> bool:
    return any("\ud800" <= character <= "\udfff" for character in text)


def decode(carried: Any, remote: Callable[[Any, str], Any] | None = None) -> Any:
    """Return the value; `remote` makes something of a handle to an object that stayed at the other end."""
    if not isinstance(carried, dict):
        return carried
    kind, value = carried["t"], carried["v"]
    if kind == "remote" and remote is not None:
        return remote(value, str(carried.get("name", "object")))
    if kind == "int":
        return int(value, 16)
    if kind == "float":
        return float(value)
    if kind == "str":
        return bytes.fromhex(value).decode("utf-8", "surrogatepass")
    if kind == "complex":
        return complex(float(value[0]), float(value[1]))
    if kind in ("bytes", "bytearray"):
        return (bytes if kind == "bytes" else bytearray).fromhex(value)
    if kind == "dict":
        return {decode(k, remote): decode(v, remote) for k, v in value}
    makers: dict[str, Any] = {"list": list, "tuple": tuple, "set": set, "frozenset": frozenset}
    return makers[kind](decode(item, remote) for item in value)
