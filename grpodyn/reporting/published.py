"""Tables in pages that people write: numbers, intervals, and the two markers between which a script puts them."""

from __future__ import annotations

import math
from pathlib import Path

from grpodyn.statistics import Interval


def number(value: float, form: str = ".3f") -> str:
    """Return a number as a table shows it.

    >>> number(0.25), number(math.nan)
    ('0.250', '–')
    """
    return "–" if math.isnan(value) else format(value, form)


def interval(of: Interval, form: str = ".3f") -> str:
    """Return an estimate with its interval; alone where the interval is unknown, infinite or a point.

    >>> interval(Interval(0.5, 0.25, 0.75, 0.95), ".2f"), interval(Interval(0.5, 0.5, 0.5, 0.95))
    ('0.50 [0.25, 0.75]', '0.500')
    """
    if math.isnan(of.value) or not math.isfinite(of.low) or not math.isfinite(of.high) or of.low == of.high:
        return number(of.value, form)
    return f"{of.value:{form}} [{of.low:{form}}, {of.high:{form}}]"


def put(path: Path, tables: str, name: str = "tables") -> None:
    """Write tables into a page, between `<!-- NAME: begin -->` and `<!-- NAME: end -->`; words around them stay.

    A page that does not exist is begun.

    Raises:
        ValueError: the page exists and has no such markers.
        OSError: it cannot be written.
    """
    begin, end = f"<!-- {name}: begin -->", f"<!-- {name}: end -->"
    text = path.read_text(encoding="utf-8") if path.exists() else f"# Results\n\n{begin}\n{end}\n"
    if begin not in text or end not in text:
        raise ValueError(f"{path} has no lines {begin} and {end} between which tables could go")
    before, after = text.split(begin)[0], text.split(end)[1]
    path.write_text(f"{before}{begin}\n\n{tables}\n{end}{after}", encoding="utf-8")
