"""Which Python runs inside the walls, and which folders it needs to see."""

from __future__ import annotations

import os
import stat
import sys
from dataclasses import dataclass
from functools import cache
from pathlib import Path

SYSTEM = (Path("/usr/bin/python3"), Path("/usr/local/bin/python3"))


@dataclass(frozen=True)
class Interpreter:
    """A Python without the packages of this one: the standard library alone."""

    executable: Path
    folders: tuple[Path, ...]
    """What it reads, outside /usr and the system's libraries."""


@cache
def own_interpreter() -> Interpreter:
    """Return the Python that this process runs on, its virtual environment left out."""
    prefix = Path(sys.base_prefix).resolve()
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    executable = next((path for path in (prefix / "bin" / version, prefix / "bin" / "python3") if path.exists()), None)
    inside_usr = prefix.is_relative_to("/usr")
    return Interpreter((executable or Path(sys.executable)).resolve(), () if inside_usr else (prefix,))


@cache
def public_interpreter() -> Interpreter | None:
    """Return a Python that every user of this machine can run, or None: needed where root becomes somebody else."""
    own = own_interpreter()
    if readable_by_all(own.executable):
        return own
    found = next((path.resolve() for path in SYSTEM if path.exists() and readable_by_all(path.resolve())), None)
    return None if found is None else Interpreter(found, ())


def readable_by_all(path: Path) -> bool:
    """Return whether any user may reach and read the path."""
    wanted = stat.S_IROTH | stat.S_IXOTH
    try:
        return all(os.stat(place).st_mode & wanted == wanted for place in (path, *path.parents))
    except PermissionError:  # not even this user may look
        return False
