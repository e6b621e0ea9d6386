"""What a recorded run shows of each linear module: the statistics by which arms are placed. No torch."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from grpodyn.lora.modules import layer_of

if TYPE_CHECKING:
    from grpodyn.trace.reader import Run

Scores = Mapping[str, float]
Floats = NDArray[np.float64]
EARLY = 0.1
"""The share of a run that counts as its start."""


@dataclass(frozen=True)
class Signals:
    """By module name; a module that was not recorded is absent. Norms are Frobenius norms."""

    displacement: Scores
    """‖W_T − W_0‖, of a LoRA run that of the effective ΔW."""
    gradient_energy: Scores
    """Σ_t ‖g_t‖² over recorded steps."""
    gradient_norm: Scores
    """Mean ‖g_t‖ over recorded steps."""
    early_gradient_norm: Scores
    """The same over the first tenth of them."""


def read_signals(run: Run) -> Signals:
    """Return the statistics of a run; of a probe that was not recorded they are empty."""
    tensors = run.tensors
    names = [str(name) for name in tensors["tensor"].values]
    source = [str(value) for value in tensors["source"].values]
    of_lora = "lora" in source
    rows = {
        name.removesuffix(".weight"): i for i, name in enumerate(names) if source[i] == ("lora" if of_lora else "full")
    }
    gradients = _gradient_columns(names, source, rows, of_lora)
    delta = _values(tensors, "delta_norm")
    gradient = _values(tensors, "grad_norm")
    displacement = {} if delta is None else {name: _last(delta[:, i]) for name, i in rows.items()}
    if gradient is None:
        return Signals(_known(displacement), {}, {}, {})
    squares = {name: np.sum(gradient[:, columns] ** 2, axis=1) for name, columns in gradients.items() if columns}
    measured = {name: values[np.isfinite(values)] for name, values in squares.items()}
    measured = {name: values for name, values in measured.items() if values.size}
    early = {name: values[: max(1, math.ceil(EARLY * values.size))] for name, values in measured.items()}
    return Signals(
        displacement=_known(displacement),
        gradient_energy={name: float(values.sum()) for name, values in measured.items()},
        gradient_norm={name: float(np.sqrt(values).mean()) for name, values in measured.items()},
        early_gradient_norm={name: float(np.sqrt(values).mean()) for name, values in early.items()},
    )


def by_layer(scores: Scores, *, squared: bool = False) -> dict[str, float]:
    """Return scores added up over the modules of each layer: norms as the norm of them all, squares as they are."""
    total: dict[str, float] = {}
    for name, value in scores.items():
        layer = layer_of(f"{name}.weight")
        if layer is not None:
            total[layer] = total.get(layer, 0.0) + (value if squared else value * value)
    return total if squared else {layer: math.sqrt(value) for layer, value in total.items()}


def _gradient_columns(
    names: list[str], source: list[str], rows: Mapping[str, int], of_lora: bool
) -> dict[str, list[int]]:
    """An effective ΔW has no gradient of its own: its factors have."""
    if not of_lora:
        return {name: [i] for name, i in rows.items()}
    columns: dict[str, list[int]] = {name: [] for name in rows}
    for i, name in enumerate(names):
        if source[i] == "factor":
            columns.setdefault(name.rsplit(".lora_", 1)[0].removesuffix(".weight"), []).append(i)
    return columns


def _values(tensors: xr.Dataset, name: str) -> Floats | None:
    if name not in tensors:
        return None
    values = np.asarray(tensors[name].values, np.float64)
    due = np.isfinite(values).any(axis=1)
    return values[due] if due.any() else None


def _last(column: Floats) -> float:
    finite = column[np.isfinite(column)]
    return float(finite[-1]) if finite.size else math.nan


def _known(scores: Mapping[str, float]) -> dict[str, float]:
    return {name: value for name, value in scores.items() if not math.isnan(value)}
