"""The sums over a grid against dense matrices."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from grpodyn.forecasting.candidates import aicc, deviance
from grpodyn.forecasting.forms import FORMS
from grpodyn.forecasting.likelihood import RHOS, surface
from grpodyn.forecasting.noise import Observations, place, plain


def dense(rho: float, n: int) -> np.ndarray:
    index = np.arange(n)
    return rho ** np.abs(index[:, None] - index[None, :])


def data(n: int, seed: int) -> Observations:
    rng = np.random.default_rng(seed)
    x = np.arange(1.0, n + 1)
    return Observations(x, rng.standard_normal(n), rng.uniform(0.5, 2.0, n), place(x, x))


@given(st.integers(5, 40), st.integers(0, 10_000), st.sampled_from(["linear", "exponential", "logistic", "scalerl"]))
def test_generalised_least_squares_equals_the_dense_solution(n: int, seed: int, name: str) -> None:
    points, form = data(n, seed), FORMS[name]
    shapes = form.cells()[:: max(1, len(form.cells()) // 3)]
    sums = surface(form, points, shapes)
    start, rise, rest, _ = sums.solve()
    values = deviance(sums)
    for column, rho in enumerate(RHOS):
        covariance = dense(rho, n)
        inverse = np.linalg.inv(covariance)
        for cell, shape in enumerate(shapes):
            f = form.shares(points.at, shape[None, :])[0]
            design = np.stack([np.ones(n), f], axis=1) / points.scale[:, None]
            if np.linalg.cond(design) > 1e5:
                continue
            y = points.y / points.scale
            beta = np.linalg.solve(design.T @ inverse @ design, design.T @ inverse @ y)
            residual = y - design @ beta
            assert [start[cell, column], rise[cell, column]] == pytest.approx(beta.tolist(), rel=1e-4, abs=1e-6)
            square = float(residual @ inverse @ residual)
            assert rest[cell, column] == pytest.approx(square, rel=1e-6, abs=1e-9)
            expected = n * np.log(square / n) + np.linalg.slogdet(covariance)[1]
            assert values[cell, column] == pytest.approx(expected, rel=1e-6, abs=1e-6)


def test_a_penalty_shrinks_the_rise() -> None:
    points = plain(np.arange(1.0, 31), np.linspace(0, 1, 30))
    sums = surface(FORMS["linear"], points)
    assert abs(sums.solve(1e4)[1][0, 0]) < abs(sums.solve(0.0)[1][0, 0])


def test_a_share_that_does_not_move_has_no_rise() -> None:
    points = plain(np.arange(1.0, 21), np.random.default_rng(0).standard_normal(20))
    never = np.array([[3.4, 2000.0]])  # a logistic whose middle lies far past the data
    _, rise, rest, _ = surface(FORMS["logistic"], points, never).solve()
    assert (rise == 0).all()
    assert rest[0, 0] == pytest.approx(float(((points.y - points.y.mean()) ** 2).sum()))


def test_aicc_by_hand() -> None:
    # 2k + 2k(k+1)/(n−k−1) with k = 3, n = 10: 6 + 24/6 = 10.
    assert aicc(-5.0, 3, 10) == pytest.approx(5.0)
    assert aicc(-5.0, 9, 10) == np.inf
