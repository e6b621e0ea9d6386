"""The likelihood of every form on its whole grid at once, with AR(1) residuals in every form.

For a stationary AR(1) with unit variance, the quadratic form of two vectors is
    <u, v>_ρ = u_0 v_0 + Σ_{i≥1} (u_i − ρ u_{i−1})(v_i − ρ v_{i−1}) / (1 − ρ²)
             = [Σ_i u_i v_i + ρ² Σ_{0<i<n−1} u_i v_i − ρ Σ_i (u_i v_{i+1} + u_{i+1} v_i)] / (1 − ρ²),
so three sums over the points give it for every ρ. Start and rise are linear and found exactly in each cell.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from grpodyn.forecasting.forms import Form
from grpodyn.forecasting.noise import Observations

Floats = NDArray[np.float64]

RHOS: Floats = np.array([0.0, 0.15, 0.3, 0.45, 0.6, 0.7, 0.8, 0.88])


@dataclass(frozen=True)
class Surface:
    """A form fitted in every cell (axis 0) and for every ρ (axis 1): sums of squares and products, by <·,·>_ρ.

    Of the basis 1 (start) and f (share of the rise done) and the values y, all divided by the points' scale.
    """

    form: Form
    cells: Floats
    rhos: Floats
    points: int
    one_one: Floats
    one_y: Floats
    y_y: Floats
    """These three do not depend on the cell: shape (1, ρ)."""
    one_f: Floats
    f_f: Floats
    f_y: Floats
    log_volume: float = 0.0
    """Logarithm of the share of the form's whole grid that these cells cover."""
    given: tuple[float, float] | None = None
    """Start and rise where they are not fitted: a curve from one bound of a metric to the other."""

    @property
    def log_determinant(self) -> Floats:
        """log |V| of the noise's correlation matrix, shape (1, ρ)."""
        logs: Floats = (self.points - 1) * np.log1p(-(self.rhos[None, :] ** 2))
        return logs

    def solve(self, penalty: float = 0.0) -> tuple[Floats, Floats, Floats, Floats]:
        """Return start, rise, residual sum of squares (with the penalty on the rise) and log |X'V⁻¹X + Λ|."""
        if self.given is not None:
            return self._solve_given(*self.given)
        start_alone = self.one_y / self.one_one
        if self.form.share is None:
            rest = self.y_y - self.one_y * start_alone
            return start_alone, np.zeros_like(rest), np.maximum(rest, 0.0), np.log(self.one_one)
        # f less its projection on 1.
        f_f = self.f_f - self.one_f**2 / self.one_one + penalty
        f_y = self.f_y - self.one_f * start_alone
        flat = f_f <= 1e-12 * np.maximum(self.f_f, 1e-300)
        f_f = np.where(flat, np.inf, f_f)
        rise = f_y / f_f
        rest = self.y_y - self.one_y * start_alone - f_y * rise
        start = start_alone - self.one_f / self.one_one * rise
        return start, rise, np.maximum(rest, 0.0), np.log(self.one_one) + np.where(flat, 700.0, np.log(f_f))

    def _solve_given(self, start: float, rise: float) -> tuple[Floats, Floats, Floats, Floats]:
        rest = self.y_y - 2 * start * self.one_y + start**2 * self.one_one
        rest = rest - 2 * rise * (self.f_y - start * self.one_f) + rise**2 * self.f_f
        return np.full_like(rest, start), np.full_like(rest, rise), np.maximum(rest, 0.0), np.zeros_like(rest)


def surface(form: Form, data: Observations, cells: Floats | None = None, rhos: Floats = RHOS) -> Surface:
    """Return the sums of a form over its grid, or over the `cells` given."""
    cells = form.cells() if cells is None else cells
    weight = 1 / data.scale
    one, y = weight[None, :], (data.y * weight)[None, :]
    f = form.shares(data.at, cells) * weight
    return Surface(
        form,
        cells,
        rhos,
        len(data),
        one_one=_products(one, one, rhos),
        one_y=_products(one, y, rhos),
        y_y=_products(y, y, rhos),
        one_f=_products(f, one, rhos),
        f_f=_products(f, f, rhos),
        f_y=_products(f, y, rhos),
    )


def _products(u: Floats, v: Floats, rhos: Floats) -> Floats:
    """Return <u, v>_ρ for every row of u and every ρ."""
    product = u * v
    whole = product.sum(axis=1)
    inner = product[:, 1:-1].sum(axis=1)
    neighbours = (u[:, :-1] * v[:, 1:]).sum(axis=1) + (u[:, 1:] * v[:, :-1]).sum(axis=1)
    rho = rhos[None, :]
    result: Floats = (whole[:, None] + rho**2 * inner[:, None] - rho * neighbours[:, None]) / (1 - rho**2)
    return result
