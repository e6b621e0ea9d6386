"""What smaller groups would have been like: recorded groups, re-sampled without replacement. Exact, no model."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.special import comb

from grpodyn.errors import UsageError

Floats = NDArray[np.float64]
Counts = NDArray[np.int64]


def chance_all(count: NDArray[np.int64], n: int, g: int) -> Floats:
    """Return the chance that g of n completions, drawn without replacement, are all among `count` of them.

    C(count, g) / C(n, g): an unbiased estimate of p^g if each completion is among them with chance p.

    Raises:
        UsageError: g is larger than n: more than was sampled cannot be drawn.

    >>> chance_all(np.array([0, 2, 4]), n=4, g=2).round(3)
    array([0.   , 0.167, 1.   ])
    """
    if not 1 <= g <= n:
        raise UsageError(f"groups of {g} cannot be drawn from {n} completions; expected 1 to {n}")
    return np.asarray(comb(count, g) / comb(n, g), np.float64)


def expected_over_subgroups(values: Floats, n: int, g: int) -> Floats:
    """Return the mean of a function of the right count over all sub-groups of g, for every right count of n.

    Args:
        values: (g + 1,), the function at 0 … g right completions.
        n: completions sampled.
        g: completions of a sub-group, at most n.

    Returns:
        (n + 1,): E[values[K]], K hypergeometric with 0 … n right among n.
    """
    right = np.arange(n + 1)[:, None]
    drawn = np.arange(g + 1)[None, :]
    chances = comb(right, drawn) * comb(n - right, g - drawn) / comb(n, g)
    return np.asarray(chances @ values, np.float64)


def chance_of_no_spread(values: Floats, g: int, decimals: int = 6) -> Floats:
    """Return, per recorded group, the chance that a sub-group of g has the same reward throughout.

    Σ_v C(n_v, g) / C(n, g) over the distinct rewards v of the group: it holds for rewards of any kind.

    Args:
        values: (groups, n) rewards.
        g: at most n.
        decimals: rewards that agree so far are one value; what differs less gives advantages made of rounding.

    >>> chance_of_no_spread(np.array([[0.4, 0.4, 0.4], [0.0, 0.0, 1.0]]), 2).round(3)
    array([1.   , 0.333])
    """
    ordered = np.sort(np.round(values, decimals), axis=1)
    groups, n = ordered.shape
    starts = np.ones((groups, n), bool)
    starts[:, 1:] = ordered[:, 1:] != ordered[:, :-1]
    run = np.cumsum(starts.ravel()) - 1
    lengths = np.bincount(run).astype(np.int64)
    owner = np.repeat(np.arange(groups), n)[starts.ravel()]
    return np.asarray(np.bincount(owner, weights=chance_all(lengths, n, g), minlength=groups), np.float64)
