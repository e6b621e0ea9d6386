"""Metrics of arms over steps: their bands over seeds, whether they end apart, and since when."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from grpodyn.arms.curves import Curve
from grpodyn.arms.separation import LEVEL, Separation, adjusted, separation
from grpodyn.statistics import Interval, mean_interval

Floats = NDArray[np.float64]

WINDOWS = 10
"""Parts that a run is cut into; a metric measured at no more steps than that is looked at step by step."""


@dataclass(frozen=True)
class Band:
    """An arm's metric over windows of steps."""

    arm: str
    runs: tuple[str, ...]
    last_step: tuple[int, ...]
    """Last step of each window."""
    values: tuple[Interval, ...]
    """Mean over runs in each window; bounds are nan for a single run."""


@dataclass(frozen=True)
class MetricComparison:
    """One metric in two arms."""

    metric: str
    reference: str
    arm: str
    reference_end: Interval
    """In the last window."""
    arm_end: Interval
    separation: Separation
    """In the last window; p is adjusted over all metrics and arms that are compared at once."""
    since: int | None
    """Step by which the arm had left the reference for good; None if it does not end apart."""


@dataclass(frozen=True)
class MetricComparisons:
    """All metrics in all arms."""

    bands: tuple[tuple[str, tuple[Band, ...]], ...]
    """Per metric, a band an arm."""
    comparisons: tuple[MetricComparison, ...]
    missing: tuple[str, ...]
    """Metrics that an arm lacks, or whose curves share no steps."""


def compare_metrics(arms: Sequence[tuple[str, Sequence[Sequence[Curve]]]], metrics: Sequence[str]) -> MetricComparisons:
    """Return every metric in every arm beside the first.

    Whether an arm ends apart is tested in the last window. Since when is found from there backwards, window by window,
    for as long as each differs: tests in an order that is fixed beforehand, of which the first that fails ends the
    search, need no correction among themselves.

    Args:
        arms: label, and for each metric the curves of the arm's runs.
        metrics: their names.
    """
    bands: list[tuple[str, tuple[Band, ...]]] = []
    found: list[MetricComparison] = []
    missing: list[str] = []
    for i, metric in enumerate(metrics):
        curves = [list(by_metric[i]) for _, by_metric in arms]
        means = _window_means(curves) if all(curves) else None
        if means is None:
            missing.append(metric)
            continue
        steps, values = means
        own = tuple(
            _band(label, [curve.run for curve in curves[j]], steps, values[j]) for j, (label, _) in enumerate(arms)
        )
        bands.append((metric, own))
        found += [_compared(metric, own[0], own[j], steps, values[0], values[j]) for j in range(1, len(arms))]
    family = adjusted([one.separation for one in found])
    judged = [replace(one, separation=separated) for one, separated in zip(found, family, strict=True)]
    return MetricComparisons(
        tuple(bands),
        tuple(one if one.separation.separable else replace(one, since=None) for one in judged),
        tuple(missing),
    )


def _window_means(arms: Sequence[Sequence[Curve]]) -> tuple[list[int], list[Floats]] | None:
    """Return each window's last step and each arm's (runs, windows) of means; windows that a run lacks are left out."""
    everything = [curve for arm in arms for curve in arm]
    first, last = max(int(c.step[0]) for c in everything), min(int(c.step[-1]) for c in everything)
    common = set(everything[0].step.tolist()).intersection(*(curve.step.tolist() for curve in everything))
    if last < first:
        return None
    if 0 < len(common) <= WINDOWS and all(len(curve.step) <= 2 * WINDOWS for curve in everything):
        edges = [(step, step) for step in sorted(common)]
    else:
        cuts = np.linspace(first - 1, last, min(WINDOWS, last - first + 1) + 1)
        edges = [(math.floor(a) + 1, math.floor(b)) for a, b in itertools.pairwise(cuts)]
    means = [np.array([[_mean(curve, *edge) for edge in edges] for curve in arm]) for arm in arms]
    whole = np.isfinite(np.concatenate(means)).all(axis=0)
    if not whole.any():
        return None
    return [edge[1] for edge, kept in zip(edges, whole, strict=True) if kept], [mean[:, whole] for mean in means]


def _mean(curve: Curve, first: int, last: int) -> float:
    inside = (curve.step >= first) & (curve.step <= last)
    return float(curve.value[inside].mean()) if inside.any() else math.nan


def _band(label: str, runs: Sequence[str], steps: Sequence[int], values: Floats) -> Band:
    return Band(label, tuple(runs), tuple(steps), tuple(mean_interval(column, LEVEL) for column in values.T))


def _compared(metric: str, reference: Band, arm: Band, steps: Sequence[int], a: Floats, b: Floats) -> MetricComparison:
    at_end = separation(a[:, -1].tolist(), b[:, -1].tolist())
    since = None
    for window in reversed(range(len(steps))):
        if not separation(a[:, window].tolist(), b[:, window].tolist()).separable:
            break
        since = steps[window]
    return MetricComparison(metric, reference.arm, arm.arm, reference.values[-1], arm.values[-1], at_end, since)
