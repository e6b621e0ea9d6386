"""TensorBoard event files: the scalars in them, read without TensorBoard."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

from grpodyn.errors import UnreadableError
from grpodyn.importers import protobuf
from grpodyn.importers.json_log import row_of
from grpodyn.importers.log import Log, LogRow

_MARK = ".tfevents."
_FLOAT, _DOUBLE = 1, 2
_POLYNOMIAL = 0x82F63B78


def is_event_file(path: Path) -> bool:
    """Return whether a path looks like an event file."""
    return _MARK in path.name


def event_files(directory: Path) -> list[Path]:
    """Return the event files of a folder and its sub-folders, in the order they were begun."""
    found = [path for path in directory.rglob(f"*{_MARK}*") if path.is_file()]
    return sorted(found, key=lambda path: (path.name.split(_MARK)[-1].split(".")[0], str(path)))


def read(paths: list[Path]) -> Log:
    """Return the scalars of event files, one row a step and file.

    Raises:
        UnreadableError: a file is no event file.
    """
    rows: list[LogRow] = []
    notes: list[str] = []
    left_out: dict[str, str] = {}
    for path in paths:
        found: dict[int, dict[str, Any]] = {}
        try:
            for event in _records(path):
                _add(event, found, left_out)
        except EOFError as error:
            # The writer may be alive, or was killed: what came before is whole.
            notes.append(f"{path.name}: {error}")
        except ValueError as error:
            raise UnreadableError(f"{path} is no readable event file ({error}); is the copy whole?") from error
        for step, entry in found.items():
            row, texts = row_of({"step": step, **entry}, "step")
            left_out |= texts
            rows.append(row)
    known = {key for row in rows for key in row.values}
    left_out = {key: why for key, why in left_out.items() if key not in known}
    return Log("TensorBoard event files", tuple(rows), {}, tuple(notes), left_out, step_key="step")


def _records(path: Path) -> Iterator[bytes]:
    data = path.read_bytes()
    at = 0
    while at < len(data):
        if at + 12 > len(data):
            raise EOFError(f"cut off after {at} of {len(data)} bytes")
        size, check = struct.unpack_from("<QI", data, at)
        if _masked(data[at : at + 8]) != check:
            raise ValueError(f"the checksum of a length does not fit at byte {at}")
        body = data[at + 12 : at + 12 + size]
        if len(body) < size or at + 16 + size > len(data):
            raise EOFError(f"cut off after {at} of {len(data)} bytes")
        if _masked(body) != struct.unpack_from("<I", data, at + 12 + size)[0]:
            raise ValueError(f"the checksum of a record does not fit at byte {at}")
        yield body
        at += 16 + size


def _add(event: bytes, found: dict[int, dict[str, Any]], left_out: dict[str, str]) -> None:
    step, time, summaries = 0, 0.0, []
    for tag, _, value in protobuf.fields(event):
        if tag == 1:
            time = protobuf.double(value)
        elif tag == 2:
            step = protobuf.signed(value)
        elif tag == 5 and isinstance(value, bytes):
            summaries.append(value)
    for summary in summaries:
        for tag, _, value in protobuf.fields(summary):
            if tag == 1 and isinstance(value, bytes):
                name, number = _scalar(value)
                if number is None:
                    left_out.setdefault(name, "no scalar")
                else:
                    found.setdefault(step, {"wall_time": time})[name] = number


def _scalar(value: bytes) -> tuple[str, float | None]:
    name, number = "", None
    for tag, _, part in protobuf.fields(value):
        if tag == 1:
            name = protobuf.text(part)
        elif tag == 2:
            number = protobuf.double(part)
        elif tag == 8 and isinstance(part, bytes):
            number = _of_tensor(part)
    return name, number


def _of_tensor(tensor: bytes) -> float | None:
    dtype, number, size = 0, None, 0
    for tag, _, value in protobuf.fields(tensor):
        if tag == 1 and isinstance(value, int):
            dtype = value
        elif tag == 4 and isinstance(value, bytes):
            size, number = len(value), protobuf.double(value) if len(value) in (4, 8) else None
        elif tag in (5, 6):
            raw = value if isinstance(value, bytes) else b""
            size, number = len(raw), protobuf.double(raw) if len(raw) in (4, 8) else None
    whole = (dtype, size) in ((_FLOAT, 4), (_DOUBLE, 8))
    return number if whole else None


@cache
def _table() -> tuple[int, ...]:
    table = []
    for byte in range(256):
        value = byte
        for _ in range(8):
            value = (value >> 1) ^ (_POLYNOMIAL if value & 1 else 0)
        table.append(value)
    return tuple(table)


def crc32c(data: bytes) -> int:
    """Return the Castagnoli checksum.

    >>> hex(crc32c(b"123456789"))
    '0xe3069283'
    """
    table, value = _table(), 0xFFFFFFFF
    for byte in data:
        value = table[(value ^ byte) & 0xFF] ^ (value >> 8)
    return value ^ 0xFFFFFFFF


def _masked(data: bytes) -> int:
    value = crc32c(data)
    return (((value >> 15) | (value << 17)) + 0xA282EAD8) & 0xFFFFFFFF
