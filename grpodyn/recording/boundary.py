"""The one place where every error is caught: a recorder must not end somebody's training run."""

from __future__ import annotations

import logging
import threading
import traceback
from collections import Counter
from collections.abc import Callable
from typing import ParamSpec, TypeVar

logger = logging.getLogger("grpodyn")

_REPORT = "the report of a failure"

P = ParamSpec("P")
T = TypeVar("T")


class Boundary:
    """Runs parts of what watches a training; counts what they raise, and reports the first of each kind.

    Args:
        report: called with (where, why) for the first error of each kind; may raise.
        whose: the parts are, in what is logged.
    """

    def __init__(self, report: Callable[[str, str], None], whose: str = "recording") -> None:
        self.counts: Counter[str] = Counter()
        """Errors by the part that raised them."""
        self._report = report
        self._whose = whose
        self._seen: set[tuple[str, type[Exception]]] = set()
        # Spectra workers meet errors too.
        self._lock = threading.Lock()

    def run(self, where: str, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T | None:
        """Return what `function` returns, or None if it raises. Interrupts and exits pass through."""
        try:
            return function(*args, **kwargs)
        except Exception as error:  # noqa: BLE001  # the program's one broad except: training goes on, whatever failed
            self._note(where, error)
            return None

    def _note(self, where: str, error: Exception) -> None:
        with self._lock:
            self.counts[where] += 1
            first = (where, type(error)) not in self._seen
            self._seen.add((where, type(error)))
        if first:
            frame = traceback.extract_tb(error.__traceback__)[-1]
            why = f"{type(error).__name__}: {error} ({frame.name}, line {frame.lineno} of {frame.filename})"
            logger.warning("%s: %s failed, training goes on: %s", self._whose, where, why)
            if where != _REPORT:
                # A full disk may be what failed, and is what the report is written to.
                self.run(_REPORT, self._report, where, why)
