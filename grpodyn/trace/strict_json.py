"""JSON that every reader accepts: no bare NaN, no numpy scalars, and files replaced whole."""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import json
import math
import os
import time
from collections.abc import Mapping
from datetime import date
from enum import Enum
from pathlib import Path
from typing import Any

import numpy as np

_READ_ATTEMPTS = 5
_READ_PAUSE_SECONDS = 0.02
_SERIAL = itertools.count()


def jsonable(value: Any) -> Any:
    """Return `value` as plain JSON types.

    NaN and infinities become None: JSON has no word for them. Text becomes `encodable`. Numpy scalars and arrays,
    paths, enums, dates, sets and dataclasses are converted; what is left becomes its `str`.

    >>> import numpy as np
    >>> jsonable({"kl": float("nan"), "lr": np.float32(0.5), "out": Path("runs/a"), "shape": (2, 3)})
    {'kl': None, 'lr': 0.5, 'out': 'runs/a', 'shape': [2, 3]}
    """
    converted: Any
    match value:
        case Enum():
            converted = jsonable(value.value)
        case None | bool() | int():
            converted = value
        case str():
            converted = encodable(value)
        case float():
            converted = float(value) if math.isfinite(value) else None
        case np.generic() | np.ndarray():
            converted = jsonable(value.tolist())
        case Mapping():
            converted = {str(jsonable(key)): jsonable(item) for key, item in value.items()}
        case list() | tuple():
            converted = [jsonable(item) for item in value]
        case set() | frozenset():
            converted = sorted((jsonable(item) for item in value), key=str)
        case date():
            converted = value.isoformat()
        case _ if dataclasses.is_dataclass(value) and not isinstance(value, type):
            converted = jsonable(dataclasses.asdict(value))
        case _:
            converted = encodable(str(value))
    return converted


def encodable(text: str) -> str:
    """Return `text` as UTF-8 can hold it: a lone surrogate (half a character, or a byte of a file name that is no text)
    is written as its escape.

    >>> encodable("grün"), encodable("bad" + chr(0xDCFF))
    ('grün', 'bad\\\\udcff')
    """
    return text if text.isascii() else text.encode("utf-8", "backslashreplace").decode("utf-8")


def dumps(value: Any, indent: int | None = None) -> str:
    """Return strict JSON of anything `jsonable` takes."""
    return json.dumps(jsonable(value), allow_nan=False, indent=indent, ensure_ascii=False)


def read(path: Path) -> Any:
    """Return the content of a JSON file that another process may be replacing.

    A network file system can show a file half replaced, so what does not parse is read again before it counts as
    damaged.

    Raises:
        OSError: the file is missing or cannot be read.
        ValueError: it does not parse, several times in a row.
    """
    for _ in range(_READ_ATTEMPTS - 1):
        with contextlib.suppress(ValueError):
            return json.loads(path.read_bytes())
        time.sleep(_READ_PAUSE_SECONDS)
    return json.loads(path.read_bytes())


def replace_file(path: Path, content: bytes) -> None:
    """Write `content` to `path` so that a reader, or a kill at any moment, sees the old file or the new one.

    Raises:
        OSError: the disk is full or the directory is gone; the old file is untouched.
    """
    # The suffix is zarr's own for half-written files, so one sweep removes what a killed process left. Plain strings:
    # this is the innermost call of every flush, and paths are a third of its cost.
    target = os.fspath(path)
    partial = f"{target}.{os.getpid()}-{next(_SERIAL)}.partial"
    try:
        with open(partial, "wb") as file:
            file.write(content)
        os.replace(partial, target)
    except OSError:
        with contextlib.suppress(OSError):
            os.unlink(partial)
        raise
