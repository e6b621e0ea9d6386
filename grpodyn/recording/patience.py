"""How long the end of a recording may take: what is not measured by then is left out, and said to be."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

logger = logging.getLogger("grpodyn")

LOOK_SECONDS = 0.5
"""How often whoever waits looks whether to go on."""
HURRIED_SECONDS = 10.0
"""What is left of any budget once somebody has asked to stop."""
_SAID_EVERY = 15.0
_MEANWHILE_EVERY = 20.0


class Patience:
    """A budget of seconds for waiting at the end of training. Shows progress while it lasts.

    Args:
        seconds: the budget.
        meanwhile: called now and then while somebody waits.
        clock: seconds from any start.
    """

    def __init__(
        self, seconds: float, meanwhile: Callable[[], None] | None = None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.seconds = seconds
        self._meanwhile = meanwhile
        self._clock = clock
        self._began = self._said = self._called = clock()
        self._until = self._began + seconds
        self._hurried = False

    def begin(self) -> None:
        """Start the budget."""
        self._began = self._said = self._called = self._clock()
        self._until = self._began + self.seconds

    def hurry(self) -> None:
        """Leave only a few seconds from now on. Does nothing else, for a signal's handler may call it."""
        self._hurried = True

    @property
    def reason(self) -> str:
        """Why it is over."""
        spent = f"{self._clock() - self._began:.0f} s of record.final_seconds ({self.seconds:.0f}) had passed"
        return f"{spent}, and a stop was asked for" if self._hurried else spent

    def lasts(self, what: str, share: float = 1.0) -> bool:
        """Return whether to go on waiting; show what is waited for if that takes long.

        Args:
            what: progress in words.
            share: share of the budget that may be spent on this.
        """
        now = self._clock()
        if self._hurried:
            self._until = min(self._until, now + HURRIED_SECONDS)
        if self._meanwhile is not None and now - self._called >= _MEANWHILE_EVERY:
            self._called = now
            self._meanwhile()
        if now - self._said >= _SAID_EVERY:
            self._said = now
            logger.info("%s, %.0f s of at most %.0f", what, now - self._began, self._until - self._began)
        return now < self._began + share * (self._until - self._began)
