"""How many pairs a comparison needs, and what a finished one could have seen. Pairs are seeds or prompts."""

from __future__ import annotations

import math

import numpy as np
from scipy.optimize import brentq
from scipy.special import ndtr
from scipy.stats import chi2
from scipy.stats import t as student

from grpodyn.errors import UsageError
from grpodyn.statistics.interval import check_level

_MOST_PAIRS = 10_000_000


def power(difference: float, sd: float, pairs: int, *, level: float = 0.95, two_sided: bool = True) -> float:
    """Return the chance that a paired t test sees a true mean difference.

    P(|T| > t_crit), T noncentral t with `pairs` − 1 degrees of freedom and δ = difference·√pairs/sd.

    Args:
        difference: true mean of the pairs' differences; one-sided tests look for a positive one.
        sd: standard deviation of the pairs' differences, same unit.
        pairs: at least 2.
        level: 1 − α of the test.
        two_sided: whether the test is.

    Raises:
        UsageError: a value that makes no sense.

    >>> round(power(0.5, 1.0, 34), 3)
    0.808
    """
    check_level(level)
    if not sd > 0 or pairs < 2:
        raise UsageError(f"power of sd={sd!r}, pairs={pairs!r}: expected sd > 0 and at least 2 pairs")
    shift = abs(difference) if two_sided else difference
    noncentrality = shift * math.sqrt(pairs) / sd
    critical = float(student.isf((1 - level) / (2 if two_sided else 1), pairs - 1))
    above = _beyond(critical, pairs - 1, noncentrality)
    below = _beyond(critical, pairs - 1, -noncentrality) if two_sided else 0.0
    return min(1.0, above + below)


_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(400)


def _beyond(critical: float, freedom: int, noncentrality: float) -> float:
    """Return P(T > critical) of a noncentral t: Φ(δ − critical·√(V/ν)) averaged over V ~ χ²_ν, at its quantiles.

    scipy's `nct` is some per cent off with one degree of freedom, and loses its tail at large δ.
    """
    # Quantiles crowd where the integrand bends: both ends of [0, 1] are stretched by 3u² − 2u³.
    u = (_NODES + 1) / 2
    spread = np.sqrt(chi2.ppf(u * u * (3 - 2 * u), freedom) / freedom)
    density = 6 * u * (1 - u) * _WEIGHTS / 2
    return float(ndtr(noncentrality - critical * spread) @ density)


def required_pairs(
    difference: float, sd: float, *, level: float = 0.95, chance: float = 0.8, two_sided: bool = True
) -> int:
    """Return the fewest pairs (at least 2) with which a paired t test sees `difference` with probability `chance`.

    Raises:
        UsageError: a difference of 0, or more than ten million pairs.

    >>> required_pairs(0.5, 1.0)
    34
    """
    check_level(chance)
    if difference == 0 or not math.isfinite(difference) or (difference < 0 and not two_sided):
        raise UsageError(f"no number of pairs shows a difference of {difference!r}; give the smallest that matters")
    enough = 2
    while power(difference, sd, enough, level=level, two_sided=two_sided) < chance:
        enough *= 2
        if enough > _MOST_PAIRS:
            raise UsageError(
                f"a difference of {difference:g} at a spread of {sd:g} needs more than {_MOST_PAIRS:,} pairs; "
                "give the smallest difference that matters"
            )
    too_few = enough // 2
    while enough - too_few > 1:
        middle = (enough + too_few) // 2
        if power(difference, sd, middle, level=level, two_sided=two_sided) < chance:
            too_few = middle
        else:
            enough = middle
    return enough


def detectable_difference(
    sd: float, pairs: int, *, level: float = 0.95, chance: float = 0.8, two_sided: bool = True
) -> float:
    """Return the smallest mean difference that a paired t test on `pairs` pairs sees with probability `chance`.

    In the unit of `sd`; 0 if there is no spread.

    Raises:
        UsageError: fewer than 2 pairs.

    >>> round(detectable_difference(1.0, 34), 2)
    0.5
    """
    check_level(chance)
    if pairs < 2:
        raise UsageError(f"{pairs} pairs have no spread; expected at least 2")
    if sd == 0:
        return 0.0
    critical = float(student.isf((1 - level) / (2 if two_sided else 1), pairs - 1))
    # At this noncentrality the test all but always rejects, also with one degree of freedom.
    most = (critical * 6 + 20) / math.sqrt(pairs)

    def missing(standardised: float) -> float:
        return power(standardised, 1.0, pairs, level=level, two_sided=two_sided) - chance

    return sd * float(brentq(missing, 0.0, most, xtol=1e-10))
