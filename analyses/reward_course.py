"""The reward as it went and as it is expected to go on: points, fitted curve, band ahead, held-out accuracy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from grpodyn import registry
from grpodyn.analysis import Analysis
from grpodyn.evaluation.records import HeldOut, held_out_by_step
from grpodyn.forecasting.curves import Curve, fitted, foretold
from grpodyn.forecasting.forecast import Forecast, fit
from grpodyn.series import reward_series
from grpodyn.series.thinning import block_means, block_starts

if TYPE_CHECKING:
    from grpodyn.trace.reader import Run

MOST_POINTS = 500
"""Points that are kept of a longer series, each the mean of its neighbours."""


@dataclass(frozen=True)
class RewardCourse:
    """A reward over the steps of a run; rewards in the metric's unit."""

    run: str
    """Name of the run's directory."""
    status: str
    metric: str
    steps: tuple[float, ...]
    rewards: tuple[float, ...]
    logged_per_point: int
    """Logged values that each point is the mean of."""
    fitted: Curve | None
    """None where there are too few points."""
    ahead: Curve | None
    """None where no end is planned, or it is reached."""
    forecast: Forecast
    held_out: tuple[HeldOut, ...]
    restarts: tuple[int, ...]
    """Steps after which the run was taken up again."""


class RewardCourseAnalysis(Analysis):
    """The points, the fit and the forecast of a reward, ready to be drawn."""

    name: ClassVar[str] = "reward_course"
    title: ClassVar[str] = (
        "The reward as it went and as it will go on: points, fitted curve, band ahead, held-out accuracy"
    )
    requires: ClassVar[tuple[str, ...]] = ()
    reference: ClassVar[str] = "The curves of the analysis `forecast`, with 80 % intervals of the mean."

    def run(self, run: Run, **options: Any) -> RewardCourse:
        """Return the `RewardCourse` of a run.

        Args:
            run: an opened run.
            options: `metric`, as `forecast` takes it.

        Raises:
            MissingDataError: the run holds no such metric.
        """
        metric = options.get("metric")
        series = reward_series(run, metric)
        forecast: Forecast = registry.analysis("forecast").run(run, metric=metric)
        found = fit(series)
        starts = block_starts(len(series), MOST_POINTS)
        return RewardCourse(
            run=run.path.name,
            status=run.status,
            metric=series.metric,
            steps=_numbers(block_means(series.step.astype(np.float64), starts)) if len(series) else (),
            rewards=_numbers(block_means(series.value, starts)) if len(series) else (),
            logged_per_point=int(starts[1]) if len(starts) > 1 else 1,
            fitted=None if found is None else fitted(found),
            ahead=None if found is None else foretold(found, trend=forecast.model is not None),
            forecast=forecast,
            held_out=tuple(held_out_by_step(run).values()),
            restarts=tuple(int(segment["start_step"]) for segment in run.manifest.segments[1:]),
        )


def _numbers(values: Any) -> tuple[float, ...]:
    return tuple(float(value) for value in values)
