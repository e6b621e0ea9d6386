"""Where an export goes: nothing there is overwritten, and nothing half made stays."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from grpodyn.errors import DirectoryInUseError


@contextmanager
def new_path(path: Path) -> Iterator[Path]:
    """Return a name beside `path` to write to; it becomes `path` when all is written, or nothing is left.

    Raises:
        DirectoryInUseError: there is something already.
    """
    if path.exists() and not (path.is_dir() and not any(path.iterdir())):
        raise DirectoryInUseError(f"{path} exists; give `-o` a new name, or remove it first")
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        yield partial
        if path.is_dir():
            path.rmdir()
        partial.replace(path)
    finally:
        if partial.is_dir():
            shutil.rmtree(partial)
        else:
            partial.unlink(missing_ok=True)
