"""From the sums of a step to the values of per-tensor and per-layer probes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import prod

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from grpodyn.naming.inventory import Frozen
from grpodyn.naming.shards import counts
from grpodyn.probe import FloatArray, Need, TensorProbe
from grpodyn.recording.plan import LayerMap
from grpodyn.recording.sums import Row
from grpodyn.spectra.norms import squared_norms


def tensor_values(probe: TensorProbe, measured: dict[Need, Tensor], rows: int) -> FloatArray:
    """Return a per-tensor probe's values, shape (rows,); nan where they are not finite."""
    return _finite(probe.compute(*_sums(probe, measured, range(rows)).T))


def layer_values(
    probe: TensorProbe, measured: dict[Need, Tensor], layers: LayerMap, frozen: dict[Need, Tensor]
) -> FloatArray:
    """Return a per-layer probe's values, shape (layers,), from sums over each layer's tensors.

    Args:
        probe: the probe.
        measured: sums of the rows of the tensor axis.
        layers: which rows make up a layer.
        frozen: sums of the frozen parameters.
    """
    totals = []
    for rows, still in zip(layers.rows, layers.frozen, strict=True):
        totals.append(_sums(probe, measured, rows).sum(0) + _sums(probe, frozen, still).sum(0))
    values = _finite(probe.compute(*np.asarray(totals).T))
    return np.where(layers.complete, values, np.nan)


def frozen_sums(entries: Sequence[Frozen], squares: Tensor | None = None) -> dict[Need, Tensor]:
    """Return the sums of parameters that do not move: zero for all but the weight itself and its size.

    Args:
        entries: the parameters.
        squares: their squared norms, where other ranks hold parts of them.
    """
    weights = torch.full((len(entries),), torch.nan, dtype=torch.float64)
    elements = weights.clone()
    for i, entry in enumerate(entries):
        if squares is not None:
            weights[i] = squares[i]
            elements[i] = entry.parameter.numel() if entry.share is None else prod(entry.share.shape)
            continue
        # Decoded one at a time: a quantized model is small because its values are nowhere at once.
        values = entry.values()
        if values is not None:
            weights[i], elements[i] = squared_norms([values])[0].cpu(), values.numel()
    still = torch.zeros(len(entries), dtype=torch.float64)
    whole = dict.fromkeys((Need.BASE_WEIGHT, Need.PREVIOUS_WEIGHT), weights)
    return dict.fromkeys(Need, still) | whole | {Need.ELEMENTS: elements}


def frozen_squares(entries: Sequence[Frozen], *, is_first: bool) -> Tensor:
    """Return the squared norms of what this rank adds to those of the others, float64 of shape (entries,).

    Args:
        entries: parameters that do not move.
        is_first: whether this is the rank that counts what every rank holds whole.
    """
    squares = torch.zeros(len(entries), dtype=torch.float64)
    for i, entry in enumerate(entries):
        if is_first if entry.share is None else counts(entry.share, entry.parameter):
            values = entry.values()
            squares[i] = torch.nan if values is None else squared_norms([values])[0].cpu()
    return squares


def _sums(probe: TensorProbe, measured: dict[Need, Tensor], rows: Iterable[int]) -> NDArray[np.float64]:
    """Return the additive sums of some rows, shape (rows, sums)."""
    sums = [probe.measure(Row(measured, row)) for row in rows]
    if not sums:
        width = len(probe.measure(Row({need: torch.zeros(1, dtype=torch.float64) for need in Need}, 0)))
        return np.zeros((0, width))
    return torch.stack([part for parts in sums for part in parts]).reshape(len(sums), -1).numpy()


def _finite(values: FloatArray) -> FloatArray:
    return np.where(np.isfinite(values), values, np.nan)
