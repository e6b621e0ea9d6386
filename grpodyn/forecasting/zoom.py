"""Finer grids where the data say much: a coarse cell that holds all of the weight would pass for certainty."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from grpodyn.forecasting.forms import Form
from grpodyn.forecasting.likelihood import Surface, surface
from grpodyn.forecasting.noise import Observations

Floats = NDArray[np.float64]

_WORTH = 9.0
"""Cells whose log weight lies further below the best one are left out."""
_POINTS = {1: 41, 2: 15}
_ROUNDS = 4
_ENOUGH = 0.5
"""A box that keeps this share of the last one's width in every direction is fine enough."""


def zoomed(one: Surface, data: Observations, penalty: float) -> Surface:
    """Return a form's sums over the part of its grid that the data leave open, as finely as that needs.

    The prior is uniform over the whole grid, so a smaller box has a smaller share of it (`log_volume`).
    """
    form = one.form
    if not form.grid:
        return one
    whole = _box(form)
    box, found = whole, one
    for _ in range(_ROUNDS):
        kept = _bounds_of(found, penalty, form, box)
        widths, before = kept[1] - kept[0], box[1] - box[0]
        if (widths > _ENOUGH * before).all():
            break
        box = kept
        volume = float(np.log(widths / (whole[1] - whole[0])).sum())
        found = replace(surface(form, data, _cells(form, box)), log_volume=volume, given=one.given)
    return found


def _log(form: Form) -> NDArray[np.bool_]:
    return np.array([axis[0] > 0 for axis in form.grid])


def _to(form: Form, values: Floats) -> Floats:
    """Return shape parameters on the scale on which the grid is even."""
    log = _log(form)
    scaled: Floats = np.where(log, np.log(np.where(log, values, 1.0)), values)
    return scaled


def _from(form: Form, values: Floats) -> Floats:
    log = _log(form)
    plain: Floats = np.where(log, np.exp(np.where(log, values, 0.0)), values)
    return plain


def _box(form: Form) -> tuple[Floats, Floats]:
    low, high = (np.array([axis[end] for axis in form.grid]) for end in (0, -1))
    return _to(form, low), _to(form, high)


def _cells(form: Form, box: tuple[Floats, Floats]) -> Floats:
    axes = [np.linspace(low, high, _POINTS[len(form.grid)]) for low, high in zip(*box, strict=True)]
    mesh = np.stack([axis.ravel() for axis in np.meshgrid(*axes, indexing="ij")], axis=1)
    return _from(form, mesh)


def _bounds_of(one: Surface, penalty: float, form: Form, box: tuple[Floats, Floats]) -> tuple[Floats, Floats]:
    """Return the box around the cells that count, with a cell's margin, inside of `box`."""
    _, _, rest, information = one.solve(penalty)
    weight = -0.5 * (information + one.log_determinant + one.points * np.log(np.maximum(rest, 1e-300)))
    best = weight.max(axis=1)
    counting = _to(form, one.cells[best > best.max() - _WORTH])
    low, high = np.empty(len(form.grid)), np.empty(len(form.grid))
    for axis in range(len(form.grid)):
        values = np.unique(_to(form, one.cells)[:, axis].round(12))
        low[axis] = values[max(0, int(np.searchsorted(values, counting[:, axis].min() - 1e-9)) - 1)]
        high[axis] = values[min(len(values) - 1, int(np.searchsorted(values, counting[:, axis].max() - 1e-9)) + 1)]
    return np.maximum(low, box[0]), np.minimum(high, box[1])
