"""Reward as a function of model size, initial performance and progress, over several runs."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from grpodyn.analysis import Analysis
from grpodyn.errors import MissingDataError, UsageError
from grpodyn.forecasting.scaling import LEAST_SIZES, Scaling, Trajectory, fit_scaling, trajectory
from grpodyn.series import reward_series
from grpodyn.statistics.interval import Interval

if TYPE_CHECKING:
    from grpodyn.trace.reader import Run


@dataclass(frozen=True)
class LawOfRuns:
    """One fitted form; rewards in the metric's unit."""

    form: str
    constants: Mapping[str, float]
    """Size in billions of parameters, progress as a share of the longest run."""
    rmse: float
    left_out_rmse: float
    """Over runs that were left out of the fit."""


@dataclass(frozen=True)
class RunOfLaw:
    """One run, and how well the others foretell it."""

    run: str
    size: float
    initial: float
    final: float
    predicted_final: float
    """By the best law fitted without this run."""


@dataclass(frozen=True)
class ScalingForecast:
    """A model that was not run."""

    size: float
    initial: float
    progress: float
    """Share of the longest run."""
    reward: Interval


@dataclass(frozen=True)
class ScalingLaw:
    """What several runs say together."""

    metric: str
    axis: str
    longest: float
    """Length of the longest run in units of the axis."""
    laws: tuple[LawOfRuns, ...]
    """The better one first."""
    baseline_rmse: float
    """Error of the naive guess: a run's own start plus the others' mean gain."""
    helps: bool
    """Whether the best law beats that guess on runs it was not fitted to."""
    runs: tuple[RunOfLaw, ...]
    forecast: ScalingForecast | None
    warnings: tuple[str, ...]


class ScalingLawOfRuns(Analysis):
    """One law over several runs, tested on each run that is left out."""

    name: ClassVar[str] = "scaling_law"
    title: ClassVar[str] = "One law in model size, start and progress over several runs, tested on runs left out"
    requires: ClassVar[tuple[str, ...]] = ()
    reference: ClassVar[str] = "Forms of arXiv 2507.18014 and its follow-up arXiv 2606.30789; constants of our own."

    def run(self, run: Run, **options: Any) -> ScalingLaw:
        """Return the law of `run` and the runs in the option `others`.

        Args:
            run: an opened run.
            options: `others` (opened runs), `metric`, `axis`, and of a model that was not run `size` (parameters) and
                `initial` (reward before training), which are given together.

        Raises:
            UsageError: too few runs, or a size is asked for of which the runs say nothing.
            MissingDataError: a run lacks the metric, the axis or its model's size.
        """
        runs = (run, *options.get("others", ()))
        metric, axis = options.get("metric"), options.get("axis", "step")
        series = [reward_series(one, metric, axis).last_part() for one in runs]
        for one, rewards in zip(runs, series, strict=True):
            if not len(rewards):
                raise MissingDataError(f"{one.path} holds no {rewards.metric}; leave it out")
        longest = max(float(rewards.position[-1]) for rewards in series)
        trajectories = [
            trajectory(str(one.path), model_size(one), rewards.position / longest, rewards.value)
            for one, rewards in zip(runs, series, strict=True)
        ]
        scaling = fit_scaling(trajectories)
        return ScalingLaw(
            metric=series[0].metric,
            axis=axis,
            longest=longest,
            laws=tuple(LawOfRuns(law.form, law.constants, law.rmse, law.left_out_rmse) for law in scaling.laws),
            baseline_rmse=scaling.baseline_rmse,
            helps=scaling.helps,
            runs=tuple(_row(one, scaling) for one in trajectories),
            forecast=_forecast(scaling, trajectories, options.get("size"), options.get("initial")),
            warnings=_warnings(scaling, trajectories, options.get("size")),
        )


def model_size(run: Run) -> float:
    """Return the number of parameters of a run's model, without adapters.

    Raises:
        MissingDataError: the run does not say.
    """
    for key in ("parameters", "num_parameters"):
        stated = run.manifest.model.get(key)
        if isinstance(stated, int) and stated > 0:
            return float(stated)
    tensors = run.tensors
    if tensors.sizes.get("tensor", 0):
        # Of a LoRA run the rows of adapted weights have the base weights' shapes; factors are not the model's.
        counted = tensors["source"].values != "factor"
        elements = np.asarray(tensors["rows"].values, np.float64) * np.asarray(tensors["cols"].values, np.float64)
        if "matrices" in tensors:
            elements = elements * np.asarray(tensors["matrices"].values, np.float64)
        if counted.any():
            return float(elements[counted].sum())
    raise MissingDataError(f"{run.path} does not say how large its model is (neither its manifest nor its tensors)")


def _row(one: Trajectory, scaling: Scaling) -> RunOfLaw:
    error = scaling.best.left_out_final[one.name]
    return RunOfLaw(one.name, one.size, one.initial, one.final, one.final + error)


def _forecast(
    scaling: Scaling, runs: list[Trajectory], size: float | None, initial: float | None
) -> ScalingForecast | None:
    if size is None and initial is None:
        return None
    if size is None or initial is None:
        raise UsageError(f"size is {size} and initial is {initial}; give both of a model that was not run")
    if not (0 < size < math.inf and math.isfinite(initial)):
        raise UsageError(
            f"size is {size:g} and initial is {initial:g}; expected a number of parameters and a reward, such as 14e9 "
            "and 0.4"
        )
    known = [run.size for run in runs]
    if not scaling.knows_size and not min(known) * 0.9 <= size <= max(known) * 1.1:
        raise UsageError(
            f"size is {size:g}, but the runs have {len(set(known))} different sizes: {LEAST_SIZES} are needed before "
            "anything is said about another one"
        )
    return ScalingForecast(size, initial, 1.0, scaling.forecast(size, initial, 1.0))


def _warnings(scaling: Scaling, runs: list[Trajectory], size: float | None) -> tuple[str, ...]:
    said = []
    sizes = [run.size for run in runs]
    if size is not None and not min(sizes) <= size <= max(sizes):
        said.append(
            f"{size:,.0f} parameters lie past the sizes of the runs ({min(sizes):,.0f} to {max(sizes):,.0f}): no run "
            "that was left out tests that, so the interval is too narrow"
        )
    if not scaling.knows_size:
        said.append(f"fewer than {LEAST_SIZES} different sizes: the law says nothing about size")
    if not scaling.knows_start:
        said.append("all runs start from nearly the same reward: the law says nothing about the start")
    if not scaling.helps:
        said.append(
            f"on runs left out the law errs by {scaling.best.left_out_rmse:.3f}, the naive guess (start plus the "
            f"others' mean gain) by {scaling.baseline_rmse:.3f}: use that instead"
        )
    if len(runs) < 8:
        said.append(f"{len(runs)} runs: the error on runs left out is itself uncertain")
    return tuple(said)
