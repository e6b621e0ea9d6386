"""How much a command says beside its result, on standard error."""

from __future__ import annotations

import logging
import os
import sys
from typing import Final

_PROGRAM: Final = "grpodyn"
_FORMAT: Final = "%(name)s: %(message)s"


def set_verbosity(*, quiet: bool, verbose: bool) -> None:
    """Say nothing but results and errors (`quiet`), or what is done on the way too (`verbose`).

    Raises:
        UsageError: both are asked for.
    """
    from grpodyn.errors import UsageError

    if quiet and verbose:
        raise UsageError("--quiet and --verbose: give one of them")
    log = logging.getLogger(_PROGRAM)
    level = logging.ERROR if quiet else logging.DEBUG if verbose else logging.WARNING
    if verbose and not log.handlers:
        handler = logging.StreamHandler(sys.stderr)
        handler.setFormatter(logging.Formatter(_FORMAT))
        log.addHandler(handler)
    log.setLevel(level)


def is_quiet() -> bool:
    """Return whether progress is not to be shown."""
    return logging.getLogger(_PROGRAM).level >= logging.ERROR


def colours() -> bool | None:
    """Return False where `NO_COLOR` is set (see no-color.org), else None: the terminal decides."""
    return False if os.environ.get("NO_COLOR") else None
