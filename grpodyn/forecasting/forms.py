"""Forms that a reward curve may take. Each is `start + rise · share(x; shape)`, so start and rise are found exactly.

Positions are measured in spans of the data: t from 0 at the first point to 1 at the last one, and c = position over the
last position, for the form in logarithmic compute. Shape parameters lie on a grid whose ends are bounds: a fit that
wants to go past them is not identified.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Share = Callable[[Floats, Floats, Floats], Floats]


@dataclass(frozen=True)
class Positions:
    """Where points lie, in spans of the data."""

    t: Floats
    """0 at the first point, 1 at the last."""
    c: Floats
    """Over the last position; > 0."""


@dataclass(frozen=True)
class Form:
    """One form of curve."""

    name: str
    share: Share | None
    """Share of the rise done: (t, c, shape (cells, parameters)) -> (cells, points). None: a constant."""
    grid: tuple[Floats, ...] = ()
    """Values of each shape parameter; the ends are its bounds."""
    natural: tuple[bool, ...] = ()
    """Whether the low end of a grid is a limit of the form itself, not a bound."""
    saturates: bool = True
    reference: str = ""

    @property
    def parameters(self) -> int:
        """Parameters of the mean."""
        return (0 if self.share is None else 1) + 1 + len(self.grid)

    def cells(self) -> Floats:
        """Return every combination of shape parameters, (cells, parameters)."""
        if not self.grid:
            return np.zeros((1, 0))
        return np.stack([axis.ravel() for axis in np.meshgrid(*self.grid, indexing="ij")], axis=1)

    def shares(self, at: Positions, shape: Floats) -> Floats:
        """Return the share of the rise done at each position for each row of shape parameters."""
        if self.share is None:
            return np.zeros((len(shape), len(at.t)))
        return self.share(at.t[None, :], at.c[None, :], shape)


def _linear(t: Floats, c: Floats, shape: Floats) -> Floats:
    return np.broadcast_to(t, (len(shape), t.shape[1])).copy()


def _exponential(t: Floats, c: Floats, shape: Floats) -> Floats:
    share: Floats = -np.expm1(-t / shape[:, :1])
    return share


def _logistic(t: Floats, c: Floats, shape: Floats) -> Floats:
    return _sigmoid(shape[:, 1:] * (t - shape[:, :1]))


def _scalerl(t: Floats, c: Floats, shape: Floats) -> Floats:
    return _sigmoid(shape[:, 1:] * np.log(c / shape[:, :1]))


def _second_order(t: Floats, c: Floats, shape: Floats) -> Floats:
    slow = 1 / shape[:, :1]
    fast = slow * shape[:, 1:]
    share: Floats = 1 - (fast * np.exp(-slow * t) - slow * np.exp(-fast * t)) / (fast - slow)
    return share


def _sigmoid(z: Floats) -> Floats:
    share: Floats = 1 / (1 + np.exp(-np.clip(z, -60, 60)))
    return share


def _spaced(low: float, high: float, count: int) -> Floats:
    return np.geomspace(low, high, count)


EQUAL_RATES = 1.001
"""Ratio of the two rates that stands for critical damping, where the formula itself is 0/0."""

_CONSTANT = Form("constant", None, saturates=False)
_FORMS = (
    _CONSTANT,
    Form("linear", _linear, saturates=False),
    Form("exponential", _exponential, (_spaced(0.01, 6, 40),), reference="overdamped limit of arXiv 2606.30789"),
    Form("logistic", _logistic, (np.linspace(-0.2, 3.4, 31), _spaced(2, 2000, 28)), reference="arXiv 2507.18014"),
    Form("scalerl", _scalerl, (_spaced(0.005, 4, 24), _spaced(0.5, 12, 14)), reference="arXiv 2510.13786"),
    Form(
        "second_order",
        _second_order,
        (_spaced(0.004, 3, 26), np.array([EQUAL_RATES, 1.6, 2.5, 5.0, 12.0])),
        (False, True),
        reference="step response of the oscillator of arXiv 2606.30789, zero initial slope",
    ),
)
FORMS: Mapping[str, Form] = {form.name: form for form in _FORMS}
