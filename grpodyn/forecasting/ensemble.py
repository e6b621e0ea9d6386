"""What the data leave open: curves drawn from all forms, all shapes and all autocorrelations that fit.

Each cell of each form's grid, at each ρ, is weighted by its marginal likelihood: start and noise level integrated out
under flat priors, the rise under a wide normal one. So a form that must choose its parameters finely to fit pays for
it, and nothing hangs on one best fit.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

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
SLACK = 0.02
"""How far past its bounds, in their width, a curve may start or end."""
_ROUNDING = 1e-9
"""A range that is no larger a share of the values is that of one value."""

TO_THE_BOUND = 0.15
"""Of a metric with bounds: how plausible it is that the run goes from one to the other. Under a policy gradient the
log-odds of a right answer grow evenly as long as nothing holds them back: a logistic between the bounds."""


@dataclass(frozen=True)
class Ensemble:
    """Equally likely curves."""

    form: NDArray[np.int64]
    """Index into the names of `FORMS` of each draw."""
    start: Floats
    rise: Floats
    shape: Floats
    """Shape parameters of each draw, (draws, 2); nan where its form has fewer."""
    noise: Floats
    """Standard deviation of a typical point in each draw."""
    autocorrelation: float
    """Mean of ρ."""

    @property
    def weights(self) -> dict[str, float]:
        """Share of each form."""
        return {name: float(self.of_form(name).mean()) for name in FORMS}

    def shares(self, at: Positions) -> Floats:
        """Return the share of the rise that each draw has done at each position, (draws, positions)."""
        found = np.zeros((len(self.form), len(at.t)))
        for name, form in FORMS.items():
            rows = self.of_form(name)
            if rows.any():
                found[rows] = form.shares(at, self.shape[rows, : len(form.grid)])
        return found

    def mean(self, at: Positions) -> Floats:
        """Return the mean reward of each draw at each position, (draws, positions)."""
        return self.start[:, None] + self.rise[:, None] * self.shares(at)

    def of_form(self, name: str) -> NDArray[np.bool_]:
        """Return which draws are of one form."""
        rows: NDArray[np.bool_] = self.form == list(FORMS).index(name)
        return rows


@dataclass(frozen=True)
class _Part:
    """One form (or one way of using it) and the weight of each of its cells at each ρ."""

    surface: Surface
    log_weight: Floats


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
    penalty = (level / (RISE * (high - low))) ** 2
    sums = [(one, PRIOR[name]) for name, one in surfaces.items()]
    if bounds is not None:
        sums.append((replace(surfaces["logistic"], given=(low, high - low)), TO_THE_BOUND))
    parts = []
    for one, prior in sums:
        fine = zoomed(one, data, penalty)
        parts.append(_Part(fine, _log_weight(fine, data, penalty, level / (high - low)) + np.log(prior)))
    flat = TEMPER * np.concatenate([part.log_weight.ravel() for part in parts])
    weights = np.exp(flat - logsumexp(flat))
    rng = np.random.default_rng(seed)
    # More than needed: some end out of bounds.
    chosen = rng.choice(len(weights), size=4 * draws, p=weights)
    return _inside(_drawn(chosen, parts, data, penalty, rng), bounds, draws)


def _noise_level(data: Observations, surfaces: Mapping[str, Surface]) -> float:
    """Return the common factor of the noise, from the form that fits best: it only scales priors."""
    n = len(data)
    rest = min(float((one.solve()[2]).min()) / max(n - one.form.parameters - 1, 1) for one in surfaces.values())
    prior = data.prior_weight
    return float(np.sqrt((rest * n + prior) / (n + prior))) if rest > 0 or prior else 1e-6


def reach(y: Floats) -> tuple[float, float]:
    """Return between what a metric without known bounds may well lie.

    Most rewards lie between 0 and 1, so that is assumed where all values do; else twice their range beyond them. A
    constant has no range: then its own size stands for one, at least 1.

    >>> reach(np.array([0.2, 0.4])), reach(np.array([1.0, 3.0])), reach(np.array([-5.0, -5.0]))
    ((0.0, 1.0), (-3.0, 7.0), (-15.0, 5.0))
    """
    low, high = float(y.min()), float(y.max())
    if low >= 0 and high <= 1:
        return 0.0, 1.0
    width, size = high - low, max(abs(low), abs(high))
    # Means of a constant differ by their rounding.
    width = width if width > _ROUNDING * size else max(size, 1.0)
    return low - 2 * width, high + 2 * width


def _degrees(one: Surface, data: Observations) -> float:
    return one.points - 1 + data.prior_weight


def _log_weight(one: Surface, data: Observations, penalty: float, level: float) -> Floats:
    """Return the log marginal likelihood of each cell at each ρ, less what is common to all forms.

    A start that is fitted has a flat prior over the metric's reach, and pays for it by √(2π)·σ/√information; `level` is
    σ in widths of that reach.
    """
    _, _, rest, log_information = one.solve(penalty)
    fit: Floats = -0.5 * _degrees(one, data) * np.log(np.maximum(rest + data.prior_weight, 1e-300))
    fit = fit - 0.5 * one.log_determinant - np.log(len(one.cells)) + one.log_volume
    if one.given is not None:
        fit = fit - float(np.log(np.sqrt(2 * np.pi) * level))
    else:
        fit = fit - 0.5 * log_information + (0.5 * float(np.log(penalty)) if one.form.share is not None else 0.0)
    return fit


def _drawn(
    chosen: NDArray[np.int64],
    parts: Sequence[_Part],
    data: Observations,
    penalty: float,
    rng: np.random.Generator,
) -> Ensemble:
    count = len(chosen)
    form, shape = np.empty(count, np.int64), np.full((count, 2), np.nan)
    start, rise, noise, rho = (np.empty(count) for _ in range(4))
    offset = 0
    for part in parts:
        one = part.surface
        rows = np.flatnonzero((chosen >= offset) & (chosen < offset + part.log_weight.size))
        cells, columns = np.unravel_index(chosen[rows] - offset, part.log_weight.shape)
        offset += part.log_weight.size
        form[rows], rho[rows] = list(FORMS).index(one.form.name), one.rhos[columns]
        shape[rows, : one.cells.shape[1]] = one.cells[cells]
        start[rows], rise[rows], noise[rows] = _linear_draws(one, cells, columns, data, penalty, rng)
    return Ensemble(form, start, rise, shape, noise * float(np.median(data.scale)), float(rho.mean()))


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
    sigma = np.sqrt((rest[at] + data.prior_weight) / rng.chisquare(_degrees(one, data), len(cells)))
    if one.given is not None:
        return start[at], rise[at], sigma
    one_one = one.one_one[0, columns]
    first, second = rng.standard_normal((2, len(cells)))
    if one.form.share is None:
        return start[at] + sigma * first / np.sqrt(one_one), np.zeros(len(cells)), sigma
    one_f = one.one_f[at]
    spare = np.maximum(one.f_f[at] - one_f**2 / one_one + penalty, 1e-300)
    moved = sigma * second / np.sqrt(spare)
    # Start given rise: what the rise takes, the start gives, as far as they overlap.
    return start[at] - one_f / one_one * moved + sigma * first / np.sqrt(one_one), rise[at] + moved, sigma


def _inside(curves: Ensemble, bounds: tuple[float, float] | None, draws: int) -> Ensemble:
    """Keep so many curves, of those that start and end within the bounds."""
    inside = np.ones(len(curves.form), bool)
    if bounds is not None:
        low, high = bounds[0] - SLACK * (bounds[1] - bounds[0]), bounds[1] + SLACK * (bounds[1] - bounds[0])
        saturates = np.array([form.saturates for form in FORMS.values()])[curves.form]
        end = np.where(saturates, curves.start + curves.rise, curves.start)
        inside = (end >= low) & (end <= high) & (curves.start >= low) & (curves.start <= high)
    # Where (nearly) all end outside, the bounds are not what the data say: keep the draws.
    rows = (np.flatnonzero(inside) if inside.sum() >= draws // 4 else np.arange(len(inside)))[:draws]
    return replace(
        curves,
        form=curves.form[rows],
        start=curves.start[rows],
        rise=curves.rise[rows],
        shape=curves.shape[rows],
        noise=curves.noise[rows],
    )
