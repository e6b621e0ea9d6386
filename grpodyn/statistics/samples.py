"""Checked input of the statistics: finite numbers in one dimension, and clusters that go with them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from grpodyn.errors import UsageError

Vector = NDArray[np.float64]


@dataclass(frozen=True)
class Clusters:
    """Observations summed by cluster: what is independent is the cluster, not the observation in it."""

    sums: Vector
    """(g,)"""
    sizes: Vector
    """(g,): observations in each."""

    @property
    def mean(self) -> float:
        """Of all observations."""
        return float(self.sums.sum() / self.sizes.sum())


def vector(values: ArrayLike, what: str) -> Vector:
    """Return values as (n,) float64.

    Raises:
        UsageError: not one dimension, empty, or not all finite: a missing outcome is for the caller to leave out.
    """
    result = np.asarray(values, np.float64)
    if result.ndim != 1 or not result.size:
        raise UsageError(f"{what} have shape {result.shape}: expected at least one number, in one dimension")
    wrong = np.flatnonzero(~np.isfinite(result))
    if wrong.size:
        raise UsageError(
            f"{wrong.size} of {result.size} {what} are not finite (the first: {result[wrong[0]]} at index {wrong[0]}); "
            "leave out the pairs that were not measured"
        )
    return result


def differences(a: ArrayLike, b: ArrayLike) -> Vector:
    """Return a − b, (n,).

    Raises:
        UsageError: as `vector`, or the lengths differ.
    """
    x, y = vector(a, "outcomes of a"), vector(b, "outcomes of b")
    if x.shape != y.shape:
        raise UsageError(f"{x.size} outcomes of a and {y.size} of b: expected pairs")
    return x - y


def clustered(values: Vector, labels: ArrayLike | None) -> Clusters:
    """Return values summed by their label; without labels each is a cluster of its own.

    Raises:
        UsageError: not one label a value.
    """
    if labels is None:
        return Clusters(values, np.ones_like(values))
    names = np.asarray(labels)
    if names.shape != values.shape:
        raise UsageError(f"{names.shape} cluster labels for {values.shape} outcomes: expected one label an outcome")
    _, index = np.unique(names, return_inverse=True)
    sums, sizes = np.zeros(index.max() + 1), np.zeros(index.max() + 1)
    np.add.at(sums, index, values)
    np.add.at(sizes, index, 1.0)
    return Clusters(sums, sizes)
