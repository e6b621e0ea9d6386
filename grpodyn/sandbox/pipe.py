"""Reading from a process that may be silent, endless, or lying about lengths."""

from __future__ import annotations

import os
import select
import struct
import time

HEADER = struct.Struct(">I")
BLOCK = 65536


class Lost(OSError):  # noqa: N818  # it says what happened
    """The process at the other end is gone, too slow, or says too much."""


def read_frame(fd: int, limit: int, deadline: float) -> bytes:
    """Return the payload of the next frame: four bytes of length, then as many bytes.

    Raises:
        Lost: nothing whole arrives before `deadline` (of `time.monotonic`), or the frame is longer than `limit`.
    """
    (length,) = HEADER.unpack(_exactly(fd, HEADER.size, deadline))
    if length > limit:
        raise Lost(f"returned a value of {length:,} bytes; the limit is {limit:,}")
    return _exactly(fd, length, deadline)


def read_all(fd: int, limit: int, deadline: float) -> bytes:
    """Return everything up to the end of the stream.

    Raises:
        Lost: it does not end before `deadline`, or is longer than `limit`.
    """
    parts: list[bytes] = []
    size = 0
    while part := _some(fd, BLOCK, deadline):
        size += len(part)
        if size > limit:
            raise Lost(f"printed more than {limit:,} bytes")
        parts.append(part)
    return b"".join(parts)


def _exactly(fd: int, count: int, deadline: float) -> bytes:
    parts: list[bytes] = []
    while count:
        part = _some(fd, min(count, BLOCK), deadline)
        if not part:
            raise Lost("ended early")
        parts.append(part)
        count -= len(part)
    return b"".join(parts)


def _some(fd: int, count: int, deadline: float) -> bytes:
    left = deadline - time.monotonic()
    if left <= 0 or not select.select([fd], [], [], left)[0]:
        raise Lost("took too long")
    return os.read(fd, count)
