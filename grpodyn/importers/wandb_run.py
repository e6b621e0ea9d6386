"""Offline runs of Weights & Biases: the history in a `run-ID.wandb` file, read without wandb."""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from grpodyn.errors import UnreadableError, UsageError
from grpodyn.importers import protobuf
from grpodyn.importers.json_log import rows_log
from grpodyn.importers.log import Log

_MAGIC = b":W&B\xe1\xbe\x00"
_BLOCK = 1 << 15
_HEADER = 7
_FULL, _FIRST, _MIDDLE, _LAST = 1, 2, 3, 4
# Numbers of `wandb_internal.proto`.
_HISTORY, _CONFIG, _RUN = 2, 5, 17
_ITEM_KEY, _ITEM_NESTED, _ITEM_VALUE = 1, 2, 16


def find(directory: Path) -> Path | None:
    """Return the `.wandb` file of a run's folder, or of a folder that holds one run; None if there is none.

    Raises:
        UsageError: the folder holds several runs.
    """
    found = sorted(directory.glob("*.wandb")) or sorted(directory.glob("*run-*/*.wandb"))
    found = found or sorted(directory.glob("wandb/*run-*/*.wandb"))
    # `latest-run` links to one of the others.
    unique = list({path.resolve(): path for path in found}.values())
    if len(unique) > 1:
        listed = ", ".join(str(path.parent.name) for path in unique[:5])
        raise UsageError(f"{directory} holds {len(unique)} runs of wandb ({listed}); give the folder of one of them")
    return unique[0] if unique else None


def read(path: Path) -> Log:
    """Return the history of an offline run.

    Raises:
        UnreadableError: the file is no `.wandb` file.
    """
    data = path.read_bytes()
    if not data.startswith(_MAGIC):
        raise UnreadableError(
            f"{path} does not begin as a .wandb file does; export the run's history as CSV from the web page instead"
        )
    entries: list[dict[str, Any]] = []
    settings: dict[str, Any] = {}
    notes: list[str] = []
    try:
        for record in _records(data):
            for tag, _, value in protobuf.fields(record):
                if tag == _HISTORY and isinstance(value, bytes):
                    entries.append(_items(value, 1))
                elif tag == _CONFIG and isinstance(value, bytes):
                    settings |= _items(value, 1)
                elif tag == _RUN and isinstance(value, bytes):
                    settings |= _config_of_run(value)
    except (EOFError, ValueError) as error:
        notes.append(f"{path.name}: {error}; what came before is read")
    log = rows_log("an offline run of Weights & Biases", entries)
    settings.pop("_wandb", None)
    return Log(log.producer, log.rows, settings, tuple(notes), log.left_out, step_key=log.step_key)


def _records(data: bytes) -> Iterator[bytes]:
    """Yield the records of a LevelDB log: blocks of 32 KiB, records split where they do not fit."""
    at, parts = _HEADER, b""
    while at + _HEADER <= len(data):
        left = _BLOCK - at % _BLOCK
        if left < _HEADER:
            at += left
            continue
        check, size, kind = struct.unpack_from("<IHB", data, at)
        body = data[at + _HEADER : at + _HEADER + size]
        if check == size == kind == 0:
            at += left
            continue
        if len(body) < size:
            raise EOFError(f"cut off after {at} of {len(data)} bytes")
        if zlib.crc32(bytes([kind]) + body) != check:
            raise ValueError(f"the checksum of a record does not fit at byte {at}")
        parts = body if kind in (_FULL, _FIRST) else parts + body
        if kind in (_FULL, _LAST):
            yield parts
        at += _HEADER + size


def _items(message: bytes, tag: int) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for number, _, value in protobuf.fields(message):
        if number == tag and isinstance(value, bytes):
            key, content = _item(value)
            found[key] = content
        elif number == 2 and isinstance(value, bytes) and tag == 1:
            # HistoryStep: wandb's own count of calls, also under `_step` among the items.
            found.setdefault("_step", next((n for t, _, n in protobuf.fields(value) if t == 1), 0))
    return found


def _item(message: bytes) -> tuple[str, Any]:
    key, nested, content = "", [], None
    for tag, _, value in protobuf.fields(message):
        if tag == _ITEM_KEY:
            key = protobuf.text(value)
        elif tag == _ITEM_NESTED:
            nested.append(protobuf.text(value))
        elif tag == _ITEM_VALUE:
            try:
                content = json.loads(protobuf.text(value))
            except ValueError:
                content = None
    return key or "/".join(nested), content


def _config_of_run(message: bytes) -> dict[str, Any]:
    for tag, _, value in protobuf.fields(message):
        if tag == 4 and isinstance(value, bytes):
            return _items(value, 1)
    return {}
