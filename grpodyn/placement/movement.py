"""What a trace says of each part, up to some share of the run: the statistics that per-step recording is for."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from grpodyn.lora.tables import Floats, Series, read
from grpodyn.placement.parts import layer

if TYPE_CHECKING:
    from grpodyn.trace.reader import Run

DISPLACEMENT = "net displacement"
PATH = "path length"
COHERENCE = "coherence"
GRADIENT = "gradient energy"
RANK = "effective rank"


def scores(run: Run, share: float = 1.0) -> dict[str, dict[str, float]]:
    """Return predictor → part → score over the first `share` of a run's steps.

    Each part is taken as one vector of all its linear weights (of a LoRA run, of their effective ΔW):

    * net displacement ‖W_t − W_0‖_F at the last recorded step,
    * path length Σ ‖W_s − W_{s−1}‖_F,
    * coherence, displacement/path,
    * gradient energy Σ ‖g_s‖²_F (of LoRA factors in a LoRA run),
    * effective rank (Roy & Vetterli 2007) of ΔW, the mean over the part's matrices at the last sweep.

    A statistic that was not recorded by then is absent.

    Raises:
        ValueError: the share is not in (0, 1].
        MissingDataError: no linear weight of the blocks has a finite displacement.
    """
    if not 0 < share <= 1:
        raise ValueError(f"share={share}: expected a share of the run in (0, 1]")
    tables = read(run)
    until = math.ceil(share * run.last_step)
    members = _members(tables.layer, tables.module)
    update, delta = _until(tables.update, until), _until(tables.delta, until)
    found: dict[str, dict[str, float]] = {}
    if delta is not None:
        found[DISPLACEMENT] = {part: _norm(delta.values[-1:, index])[0] for part, index in members.items()}
    if update is not None and np.isfinite(update.values).any():
        found[PATH] = {
            part: float(np.sum(_norm(update.values[:, index]) * update.gaps)) for part, index in members.items()
        }
    if DISPLACEMENT in found and PATH in found:
        found[COHERENCE] = {
            part: found[DISPLACEMENT][part] / found[PATH][part] if found[PATH][part] > 0 else math.nan
            for part in members
        }
    gradient = None if tables.gradient is None else _until(tables.gradient, until)
    if gradient is not None:
        found[GRADIENT] = {
            part: float(np.nansum(gradient.values[:, index] ** 2 * gradient.gaps[:, None]))
            for part, index in members.items()
        }
    ranks = _ranks(run, until)
    if ranks:
        found[RANK] = ranks
    return {
        predictor: {part: value for part, value in by_part.items() if math.isfinite(value)}
        for predictor, by_part in found.items()
    }


def _members(layers: list[str], modules: list[str]) -> dict[str, NDArray[np.intp]]:
    parts = [layer(name) for name in dict.fromkeys(layers)] + list(dict.fromkeys(modules))
    labels = np.array([layer(name) for name in layers]), np.array(modules)
    return {part: np.flatnonzero((labels[0] == part) | (labels[1] == part)) for part in parts}


def _until(series: Series, step: int) -> Series | None:
    due = series.steps <= step
    return Series(series.steps[due], series.values[due]) if due.any() else None


def _norm(values: Floats) -> Floats:
    """Return each row's norm over the tensors that have a value."""
    norms: Floats = np.sqrt(np.nansum(values**2, axis=1))
    return norms


def _ranks(run: Run, until: int) -> dict[str, float]:
    spectra = run.spectra
    if "effective_rank" not in spectra or not spectra.sizes.get("row", 0):
        return {}
    steps = np.asarray(spectra["step"].values, np.int64)
    values = np.asarray(spectra["effective_rank"].values, np.float64)
    due = (steps <= until) & np.isfinite(values).any(axis=1)
    if not due.any():
        return {}
    last = dict(zip(map(str, spectra["tensor"].values), values[due][-1], strict=True))
    tensors = run.tensors
    by_part: dict[str, list[float]] = {}
    rows = zip(
        map(str, tensors["tensor"].values),
        map(str, tensors["kind"].values),
        map(int, tensors["layer"].values),
        map(str, tensors["module"].values),
        strict=True,
    )
    for name, kind, index, module in rows:
        if kind == "linear" and index >= 0 and math.isfinite(last.get(name, math.nan)):
            for part in (layer(index), module):
                by_part.setdefault(part, []).append(last[name])
    return {part: sum(ranks) / len(ranks) for part, ranks in by_part.items()}
