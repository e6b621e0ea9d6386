"""Each form at its best: parameters, R², AICc, and whether a parameter ran into a bound."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from grpodyn.forecasting.forms import FORMS, Form
from grpodyn.forecasting.likelihood import RHOS, Surface, surface
from grpodyn.forecasting.noise import Observations

Floats = NDArray[np.float64]

INDEPENDENT: Floats = np.zeros(1)
"""The only ρ of a plain fit."""
_WHOLE = 0.9
"""A rise of which one step holds this share has no shape."""
_ZOOMS, _ZOOM_POINTS, _ZOOM_SHRINKS, _ZOOM_GROWS = 18, 7, 0.45, 1.6
_AT_A_BOUND = 1e-3
"""Share of a grid's (logarithmic) width within which a parameter is at its end."""


@dataclass(frozen=True)
class Candidate:
    """One form, fitted by maximum likelihood."""

    model: str
    aicc: float
    r2: float
    """Of the mean, without the help of autocorrelation; may be negative."""
    parameters: Mapping[str, float]
    """In units of the reward and of the axis, t counted from the first point."""
    autocorrelation: float
    noise: float
    """Standard deviation of a typical point about the curve."""
    rejected: str
    """Why this fit identifies nothing, or ""."""
    shape: tuple[float, ...]
    start: float
    rise: float

    def mean(self, data: Observations, x: Floats) -> Floats:
        """Return the fitted curve at positions `x` of the axis."""
        form = FORMS[self.model]
        curve: Floats = self.start + self.rise * form.shares(data.place(x), np.array([self.shape]))[0]
        return curve


def fit_all(
    data: Observations, surfaces: Mapping[str, Surface] | None = None, *, plain: bool = False
) -> list[Candidate]:
    """Return every form's best fit, the best one first.

    Args:
        data: the points.
        surfaces: sums over the grids, if they have been computed.
        plain: whether residuals are taken as independent, without the AR(1) of every other fit.
    """
    rhos = INDEPENDENT if plain else RHOS
    found = surfaces if surfaces is not None else all_surfaces(data, FORMS.values(), rhos)
    return sorted((_best(data, one) for one in found.values()), key=lambda candidate: candidate.aicc)


def all_surfaces(data: Observations, forms: Iterable[Form], rhos: Floats = RHOS) -> dict[str, Surface]:
    """Return the sums of each form over its grid."""
    return {form.name: surface(form, data, rhos=rhos) for form in forms}


def deviance(one: Surface) -> Floats:
    """Return −2 log likelihood in each cell and for each ρ, at the best start, rise and noise, less a constant."""
    _, _, rest, _ = one.solve()
    with np.errstate(divide="ignore"):
        value: Floats = one.points * np.log(np.maximum(rest, 1e-300) / one.points) + one.log_determinant
    return value


def aicc(deviance_: float, parameters: int, points: int) -> float:
    """Return Akaike's criterion with the correction for few points.

    `parameters` counts the mean's and those of the noise.
    """
    spare = points - parameters - 1
    return deviance_ + 2 * parameters + 2 * parameters * (parameters + 1) / spare if spare > 0 else math.inf


def _best(data: Observations, grid: Surface) -> Candidate:
    form = grid.form
    values = deviance(grid)
    cell, column = np.unravel_index(int(np.argmin(values)), values.shape)
    rho = float(grid.rhos[column])
    shape = _refined(data, form, grid.cells[cell], rho, float(values[cell, column]))
    at = surface(form, data, shape[None, :], np.array([rho]))
    start, rise, rest, _ = (float(value[0, 0]) for value in at.solve())
    noise_parameters = 1 if len(grid.rhos) == 1 else 2
    fitted = start + rise * form.shares(data.at, shape[None, :])[0]
    total = float(((data.y - data.y.mean()) ** 2).sum())
    return Candidate(
        form.name,
        aicc=aicc(float(deviance(at)[0, 0]), form.parameters + noise_parameters, len(data)),
        r2=1 - float(((data.y - fitted) ** 2).sum()) / total if total > 0 else math.nan,
        parameters=_named(form, start, rise, shape, data),
        autocorrelation=rho,
        noise=math.sqrt(rest / len(data)) * float(np.median(data.scale)),
        rejected=_rejected(form, shape) or _too_steep(form, shape, data),
        shape=tuple(float(value) for value in shape),
        start=start,
        rise=rise,
    )


def _transformed(axis: Floats, value: float) -> float:
    return math.log(value) if _logarithmic(axis) else value


def _logarithmic(axis: Floats) -> bool:
    return bool(axis[0] > 0)


def _refined(data: Observations, form: Form, shape: Floats, rho: float, start_value: float) -> Floats:
    """Improve shape parameters from the best cell, within the grid's ends, by ever finer grids around the best."""
    if not form.grid:
        return shape
    logarithmic = np.array([_logarithmic(axis) for axis in form.grid])
    low = np.array([_transformed(axis, axis[0]) for axis in form.grid])
    high = np.array([_transformed(axis, axis[-1]) for axis in form.grid])
    best = np.where(logarithmic, np.log(np.where(logarithmic, shape, 1.0)), shape)
    reach = (high - low) / (np.array([len(axis) for axis in form.grid]) - 1)
    mesh = np.meshgrid(*[np.linspace(-1, 1, _ZOOM_POINTS)] * len(best), indexing="ij")
    around = np.stack([axis.ravel() for axis in mesh], axis=1)
    for _ in range(_ZOOMS):
        points = np.clip(best + around * reach, low, high)
        cells = np.where(logarithmic, np.exp(np.where(logarithmic, points, 0.0)), points)
        values = deviance(surface(form, data, cells, np.array([rho])))[:, 0]
        lowest = int(np.argmin(values))
        best = points[lowest]
        # Along a ridge the best lies at the mesh's edge: then steps grow in that direction before they shrink.
        reach = np.where(np.abs(around[lowest]) < 1, reach * _ZOOM_SHRINKS, reach * _ZOOM_GROWS)
        if values[lowest] < start_value:
            shape, start_value = cells[lowest], float(values[lowest])
    return shape


def _rejected(form: Form, shape: Floats) -> str:
    names = SHAPE_NAMES.get(form.name, ())
    natural = form.natural or (False,) * len(form.grid)
    for name, axis, value, low_is_natural in zip(names, form.grid, shape, natural, strict=True):
        low, high = _transformed(axis, axis[0]), _transformed(axis, axis[-1])
        place = (_transformed(axis, float(value)) - low) / (high - low)
        if place < _AT_A_BOUND and not low_is_natural:
            return f"{name} at its lower bound"
        if place > 1 - _AT_A_BOUND:
            return f"{name} at its upper bound"
    return ""


def _too_steep(form: Form, shape: Floats, data: Observations) -> str:
    """Return whether the whole rise lies between two points, where any steepness fits as well as any other."""
    if form.share is None or not form.saturates:
        return ""
    share = form.shares(data.at, shape[None, :])[0]
    step = float(np.abs(np.diff(share)).max())
    return "the whole rise lies between two points" if step > _WHOLE * abs(float(share[-1] - share[0])) else ""


SHAPE_NAMES: Mapping[str, tuple[str, ...]] = {
    "exponential": ("tau",),
    "logistic": ("t0", "k"),
    "scalerl": ("Cmid", "B"),
    "second_order": ("1/l2", "l1/l2"),
}


def _named(form: Form, start: float, rise: float, shape: Floats, data: Observations) -> dict[str, float]:
    """Return parameters under the names of the literature, in units of the axis."""
    span = float(data.x[-1] - data.x[0])
    # c is position over the last position, as `place` shifts it.
    whole = float(data.x[-1] / data.at.c[-1]) if data.x[0] > 0 else span / float(data.at.c[-1] - data.at.c[0])
    ends = {"R0": start, "R_inf": start + rise}
    named: dict[str, float]
    match form.name:
        case "constant":
            named = {"mean": start}
        case "linear":
            named = {"intercept": start, "slope": rise / span}
        case "exponential":
            named = {**ends, "tau": float(shape[0]) * span}
        case "logistic":
            named = {**ends, "k": float(shape[1]) / span, "t0": float(shape[0]) * span}
        case "scalerl":
            named = {"R0": start, "A": start + rise, "B": float(shape[1]), "Cmid": float(shape[0]) * whole}
        case _:
            slow = 1 / (float(shape[0]) * span)
            named = {**ends, "l1": slow * float(shape[1]), "l2": slow}
    return named
