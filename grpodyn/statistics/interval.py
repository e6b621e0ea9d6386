"""An estimate with the interval around it."""

from __future__ import annotations

import math
from dataclasses import dataclass

from grpodyn.errors import UsageError


@dataclass(frozen=True)
class Interval:
    """An estimate and its confidence interval; all four have the estimate's unit except `level`.

    A bound that the data cannot give (one observation has no spread) is nan, never the estimate itself.
    """

    value: float
    low: float
    high: float
    level: float
    """Confidence, such as 0.95."""

    @property
    def known(self) -> bool:
        """Whether both bounds are numbers."""
        return not (math.isnan(self.low) or math.isnan(self.high))

    def contains(self, number: float) -> bool:
        """Return whether `number` lies inside; an interval without bounds contains nothing.

        >>> Interval(0.1, -0.1, 0.3, 0.95).contains(0.0)
        True
        """
        return self.low <= number <= self.high

    def scaled(self, factor: float) -> Interval:
        """Return the interval in another unit; a negative factor turns it round.

        >>> Interval(1.0, 0.0, 3.0, 0.95).scaled(-2)
        Interval(value=-2.0, low=-6.0, high=0.0, level=0.95)
        """
        ends = (self.low * factor + 0.0, self.high * factor + 0.0)
        low, high = ends if factor >= 0 else ends[::-1]
        return Interval(self.value * factor + 0.0, low, high, self.level)

    def __str__(self) -> str:
        return f"{self.value:.3f} [{self.low:.3f}, {self.high:.3f}]"


def check_level(level: float) -> float:
    """Return `level` if it is a confidence.

    Raises:
        UsageError: it does not lie between 0 and 1.
    """
    if not 0 < level < 1:
        raise UsageError(f"level={level!r} is no confidence, expected a number between 0 and 1, such as 0.95")
    return level
