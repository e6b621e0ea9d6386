"""Numbers as a page shows them."""

from __future__ import annotations

import math
from typing import Any


def shown(value: float, form: str = ".3g") -> str:
    """Return a number; undefined is a dash.

    >>> shown(0.12345), shown(float("nan")), shown(float("inf"))
    ('0.123', '–', '∞')
    """
    if math.isnan(value):
        return "–"
    if math.isinf(value):
        return "∞" if value > 0 else "−∞"
    return format(value, form)


def percent(value: float) -> str:
    """Return a share in per cent.

    >>> percent(0.123), percent(float("nan"))
    ('12 %', '–')
    """
    return "–" if math.isnan(value) else f"{100 * value:.0f} %"


def ranged(interval: Any, form: str = ".3g") -> str:
    """Return an estimate with its interval, or a dash where there is none.

    >>> from grpodyn.statistics.interval import Interval
    >>> ranged(Interval(0.5, 0.4, 0.6, 0.95)), ranged(None)
    ('0.5 (0.4 to 0.6)', '–')
    """
    if interval is None or math.isnan(interval.value):
        return "–"
    if math.isnan(interval.low) or math.isnan(interval.high):
        return shown(interval.value, form)
    return f"{shown(interval.value, form)} ({shown(interval.low, form)} to {shown(interval.high, form)})"
