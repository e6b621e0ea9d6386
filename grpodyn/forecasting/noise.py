"""What a series is worth to a fit: points brought to an even footing, so that one Gaussian AR(1) likelihood serves all.

- Long series are averaged in blocks of neighbours: the cost of a fit does not grow with the run.
- Counts of 0/1 rewards give each point its binomial variance, times a dispersion that is fitted (beta-binomial: prompts
  differ in difficulty).
- Without counts, the variance is taken from differences of neighbours, near each point; what lies far outside of what
  its neighbours say is pulled in to `HUBER` standard deviations (Huber's pseudo-values), before any form is fitted, so
  that all forms are compared on the same data.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from grpodyn.forecasting.forms import Positions

Floats = NDArray[np.float64]

MAX_POINTS = 160
"""Blocks that a long series is averaged into."""
HUBER = 2.5
_NORMAL_MAD = 1.4826
_PRIOR_DISPERSION = 4.0
"""Binomial noise is known beforehand as well as from so many points."""


@dataclass(frozen=True)
class Observations:
    """Points of a fit."""

    x: Floats
    """Position on the series' axis."""
    y: Floats
    scale: Floats
    """Standard deviation of each point up to a common factor, which is fitted."""
    at: Positions
    prior_weight: float = 0.0
    """Points' worth of prior knowledge that the common factor is 1."""

    def __len__(self) -> int:
        return len(self.y)

    def place(self, x: Floats) -> Positions:
        """Return positions of the axis in spans of these points."""
        return place(np.asarray(x, np.float64), self.x)


def place(x: Floats, reference: Floats) -> Positions:
    """Return positions in spans of `reference`. For logarithmic compute an axis that starts at 0 is moved by a step."""
    first, last = float(reference[0]), float(reference[-1])
    shift = 0.0 if first > 0 else float(np.median(np.diff(reference))) - first
    return Positions((x - first) / (last - first), (x + shift) / (last + shift))


def plain(x: Floats, y: Floats) -> Observations:
    """Return points with equal, independent noise: what an ordinary least-squares fit assumes."""
    return Observations(x, y, np.ones(len(y)), place(x, x))


def observe(x: Floats, y: Floats, trials: Floats | None) -> Observations:
    """Return the points of a series for a fit.

    Args:
        x: positions, strictly increasing, shape (n,).
        y: values, shape (n,).
        trials: completions behind each value where rewards are 0 or 1.
    """
    x, y, trials = _blocks(x, y, trials)
    if trials is not None:
        return Observations(x, y, _binomial_scale(y, trials), place(x, x), _PRIOR_DISPERSION)
    scale = _local_scale(y)
    return Observations(x, _pulled_in(y, scale), scale, place(x, x))


def _blocks(x: Floats, y: Floats, trials: Floats | None) -> tuple[Floats, Floats, Floats | None]:
    size = -(-len(y) // MAX_POINTS)
    if size == 1:
        return x, y, trials
    # The last points are the ones that matter: blocks are counted from the end.
    edges = np.arange(len(y) % size, len(y), size)
    edges = edges if edges[0] == 0 else np.concatenate([[0], edges])
    counts = np.diff(np.append(edges, len(y)))
    if trials is None:
        return np.add.reduceat(x, edges) / counts, np.add.reduceat(y, edges) / counts, None
    total = np.add.reduceat(trials, edges)
    return np.add.reduceat(x, edges) / counts, np.add.reduceat(y * trials, edges) / total, total


def _window(n: int, share: int, least: int) -> int:
    return min(n, max(least, n // share) | 1)


def _smooth(values: Floats, window: int) -> Floats:
    """Return the running mean; near the ends over what there is."""
    kernel = np.ones(window)
    smoothed: Floats = np.convolve(values, kernel, "same") / np.convolve(np.ones(len(values)), kernel, "same")
    return smoothed


def _binomial_scale(y: Floats, trials: Floats) -> Floats:
    window = _window(len(y), 10, 5)
    right, all_of = _smooth(y * trials, window), _smooth(trials, window)
    # One success and one failure more: at 0 or 1 the noise is small, not none.
    p = (right * window + 1) / (all_of * window + 2)
    scale: Floats = np.sqrt(p * (1 - p) / trials)
    return scale


def _local_scale(y: Floats) -> Floats:
    if len(y) < 3:
        return np.ones(len(y))
    squares = np.clip(np.diff(y) ** 2, None, _tail(np.diff(y) ** 2)) / 2
    overall = float(squares.mean())
    if overall <= 0:
        return np.ones(len(y))
    near = _smooth(np.concatenate([squares[:1], squares]), _window(len(y), 4, 15))
    scale: Floats = np.sqrt(0.7 * near + 0.3 * overall)
    return scale


def _tail(squares: Floats) -> float:
    return max(float(np.quantile(squares, 0.95)), 1e-300)


def _pulled_in(y: Floats, scale: Floats) -> Floats:
    """Pull outliers in, towards the running median of their neighbours."""
    if len(y) < 7:
        return y
    # Mirrored about its end points, a slope goes on past them.
    windows = np.lib.stride_tricks.sliding_window_view(np.pad(y, 3, mode="reflect", reflect_type="odd"), 7)
    middle = np.median(windows, axis=1)
    residual = (y - middle) / scale
    spread = _NORMAL_MAD * float(np.median(np.abs(residual)))
    if spread <= 0:
        return y
    pulled: Floats = middle + np.clip(residual, -HUBER * spread, HUBER * spread) * scale
    return pulled
