"""What the data leave open: curves drawn from all forms, all shapes and all autocorrelations that fit.

Each cell of each form's grid, at each ρ, is weighted by its marginal likelihood: start and noise level integrated out
under flat priors, the rise under a wide normal one. So a form that must choose its parameters finely to fit pays for
it, and nothing hangs on one best fit.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp

from grpodyn.forecasting.forms import FORMS, Positions
from grpodyn.forecasting.likelihood import Surface
from grpodyn.forecasting.noise import Observations
from grpodyn.forecasting.zoom import zoomed

Floats = NDArray[np.float64]

DRAWS = 600
PRIOR: Mapping[str, float] = {
    "constant": 0.3,
    "linear": 0.15,
    "exponential": 0.1,
    "logistic": 0.2,
    "scalerl": 0.1,
    "second_order": 0.15,
}
"""How plausible each form is beforehand."""
TEMPER = 0.85
"""Power of the likelihood: real curves are of none of these forms, so a fit counts for a little less than it says."""
RISE = 0.5
"""Prior standard deviation of the rise, in widths of what the metric can reach."""


@dataclass(frozen=True)
class Ensemble:
    """Equally likely curves."""

    form: NDArray[np.int64]
    """Index into the names of `FORMS` of each draw."""
    start: Floats
    rise: Floats
    shapes: Mapping[str, Floats]
    """Shape parameters of the draws of each form, in the order of the draws."""
    weights: Mapping[str, float]
    """Share of each form."""
    noise: Floats
    """Standard deviation of a typical point in each draw."""
    autocorrelation: float
    """Mean of ρ."""

    def shares(self, at: Positions) -> Floats:
        """Return the share of the rise that each draw has done at each position, (draws, positions)."""
        found = np.zeros((len(self.form), len(at.t)))
        for index, (name, form) in enumerate(FORMS.items()):
            rows = self.form == index
            if rows.any():
                found[rows] = form.shares(at, self.shapes[name])
        return found

    def mean(self, at: Positions) -> Floats:
        """Return the mean reward of each draw at each position, (draws, positions)."""
        return self.start[:, None] + self.rise[:, None] * self.shares(at)

    def of_form(self, name: str) -> NDArray[np.bool_]:
        """Return which draws are of one form."""
        rows: NDArray[np.bool_] = self.form == list(FORMS).index(name)
        return rows


def ensemble(
    data: Observations,
    surfaces: Mapping[str, Surface],
    bounds: tuple[float, float] | None,
    seed: int = 0,
    draws: int = DRAWS,
) -> Ensemble:
    """Draw curves in proportion to how well they explain the data.

    Args:
        data: the points.
        surfaces: every form's sums over its grid.
        bounds: least and greatest value the metric can have; curves that end outside are dropped.
        seed: of the draws; the same data give the same curves.
        draws: how many curves.
    """
    level = _noise_level(data, surfaces)
    low, high = bounds if bounds is not None else reach(data.y)
    spread = RISE * (high - low)
    surfaces = {name: zoomed(one, data, _penalty(level, spread)) for name, one in surfaces.items()}
    log_weights = {name: _log_weight(one, data, level, spread) for name, one in surfaces.items()}
    flat = TEMPER * np.concatenate([weights.ravel() for weights in log_weights.values()])
    weights = np.exp(flat - logsumexp(flat))
    rng = np.random.default_rng(seed)
    # More than needed: some end out of bounds.
    chosen = rng.choice(len(weights), size=4 * draws, p=weights)
    drawn = _draw(chosen, log_weights, surfaces, data, level, spread, rng)
    return _kept(*drawn, surfaces, bounds, draws, data)


def _noise_level(data: Observations, surfaces: Mapping[str, Surface]) -> float:
    """Return the common factor of the noise, from the form that fits best: it only scales the prior of the rise."""
    n = len(data)
    rest = min(float((one.solve()[2]).min()) / max(n - one.form.parameters - 1, 1) for one in surfaces.values())
    prior = data.prior_weight
    return float(np.sqrt((rest * n + prior) / (n + prior))) if rest > 0 or prior else 1e-6


def reach(y: Floats) -> tuple[float, float]:
    """Return between what a metric without known bounds may well lie.

    Most rewards lie between 0 and 1, so that is assumed where all values do; else twice their range beyond them.

    >>> reach(np.array([0.2, 0.4])), reach(np.array([1.0, 3.0]))
    ((0.0, 1.0), (-3.0, 7.0))
    """
    low, high = float(y.min()), float(y.max())
    if low >= 0 and high <= 1:
        return 0.0, 1.0
    return low - 2 * (high - low), high + 2 * (high - low)


def _penalty(level: float, spread: float) -> float:
    return (level / spread) ** 2


def _degrees(one: Surface, data: Observations) -> float:
    return one.points - 1 + data.prior_weight


def _log_weight(one: Surface, data: Observations, level: float, spread: float) -> Floats:
    penalty = _penalty(level, spread)
    _, _, rest, log_information = one.solve(penalty)
    weight: Floats = (
        -0.5 * log_information
        - 0.5 * one.log_determinant
        - 0.5 * _degrees(one, data) * np.log(np.maximum(rest + data.prior_weight, 1e-300))
        + np.log(PRIOR[one.form.name] / len(one.cells))
        + one.log_volume
    )
    return weight + (0.5 * np.log(penalty) if one.form.share is not None else 0.0)


def _draw(
    chosen: NDArray[np.int64],
    log_weights: Mapping[str, Floats],
    surfaces: Mapping[str, Surface],
    data: Observations,
    level: float,
    spread: float,
    rng: np.random.Generator,
) -> tuple[NDArray[np.int64], NDArray[np.int64], Floats, Floats, Floats, Floats]:
    form, cell = np.empty(len(chosen), np.int64), np.empty(len(chosen), np.int64)
    start, rise, noise, rho = (np.empty(len(chosen)) for _ in range(4))
    offset = 0
    for index, (name, weights) in enumerate(log_weights.items()):
        one = surfaces[name]
        rows = np.flatnonzero((chosen >= offset) & (chosen < offset + weights.size))
        cells, columns = np.unravel_index(chosen[rows] - offset, weights.shape)
        offset += weights.size
        if not len(rows):
            continue
        form[rows], cell[rows], rho[rows] = index, cells, one.rhos[columns]
        start[rows], rise[rows], noise[rows] = _linear_draws(one, cells, columns, data, _penalty(level, spread), rng)
    return form, cell, start, rise, noise, rho


def _linear_draws(
    one: Surface,
    cells: NDArray[np.int64],
    columns: NDArray[np.int64],
    data: Observations,
    penalty: float,
    rng: np.random.Generator,
) -> tuple[Floats, Floats, Floats]:
    """Draw start, rise and noise level from their joint posterior (normal-gamma) in the cells chosen."""
    start, rise, rest, _ = one.solve(penalty)
    at = (np.minimum(cells, start.shape[0] - 1), columns)
    degrees = _degrees(one, data)
    sigma = np.sqrt((rest[at] + data.prior_weight) / rng.chisquare(degrees, len(cells)))
    one_one = one.one_one[0, columns]
    first, second = rng.standard_normal((2, len(cells)))
    if one.form.share is None:
        return start[at] + sigma * first / np.sqrt(one_one), np.zeros(len(cells)), sigma
    one_f = one.one_f[at]
    spare = np.maximum(one.f_f[at] - one_f**2 / one_one + penalty, 1e-300)
    moved = sigma * second / np.sqrt(spare)
    # Start given rise: what the rise takes, the start gives, as far as they overlap.
    return start[at] - one_f / one_one * moved + sigma * first / np.sqrt(one_one), rise[at] + moved, sigma


def _kept(
    form: NDArray[np.int64],
    cell: NDArray[np.int64],
    start: Floats,
    rise: Floats,
    noise: Floats,
    rho: Floats,
    surfaces: Mapping[str, Surface],
    bounds: tuple[float, float] | None,
    draws: int,
    data: Observations,
) -> Ensemble:
    names = list(FORMS)
    inside = np.ones(len(form), bool)
    if bounds is not None:
        slack = 0.02 * (bounds[1] - bounds[0])
        saturates = np.array([FORMS[name].saturates for name in names])[form]
        end = np.where(saturates, start + rise, start)
        inside = (end >= bounds[0] - slack) & (end <= bounds[1] + slack)
        inside &= (start >= bounds[0] - slack) & (start <= bounds[1] + slack)
    # Where (nearly) all end outside, the bounds are not what the data say: keep the draws.
    rows = np.flatnonzero(inside) if inside.sum() >= draws // 4 else np.arange(len(form))
    rows = rows[:draws]
    shapes = {name: surfaces[name].cells[cell[rows][form[rows] == index]] for index, name in enumerate(names)}
    shares = {name: float((form[rows] == index).mean()) for index, name in enumerate(names)}
    return Ensemble(
        form[rows],
        start[rows],
        rise[rows],
        shapes,
        shares,
        noise[rows] * float(np.median(data.scale)),
        float(rho[rows].mean()),
    )
