"""A reward series in, a forecast out: verdict, phases, where it ends, when to stop."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import overload

import numpy as np
from numpy.typing import NDArray

from grpodyn.errors import UsageError
from grpodyn.forecasting import outlook
from grpodyn.forecasting.candidates import Candidate, fit_all
from grpodyn.forecasting.fitting import LEAST_POINTS, Fit, default_epsilon, fit
from grpodyn.forecasting.outlook import Phases, interval
from grpodyn.forecasting.result import Forecast, Saving
from grpodyn.forecasting.verdict import broke, fallen, verdict
from grpodyn.series import RewardSeries
from grpodyn.statistics.interval import Interval

__all__ = ["LEAST_POINTS", "TREND_MARGIN", "Fit", "Forecast", "fit", "forecast", "of_fit"]

Floats = NDArray[np.float64]

TREND_MARGIN = 10.0
"""Units of AICc by which a form must beat the constant; fewer is no trend. Set on simulated flat runs."""


def forecast(
    series: RewardSeries,
    *,
    epsilon: float | None = None,
    at_steps: Sequence[int] = (),
    flags: Sequence[str] = (),
    seed: int = 0,
) -> Forecast:
    """Return where a series is, where it is going, and when going on is not worth it any more.

    Args:
        series: rewards of one run.
        epsilon: gain, in the metric's unit, that is not worth going on for; 1 % of the metric's range if not given.
        at_steps: steps to predict the reward at, not past the planned end.
        flags: signs of a fault, which turn a plateau into a fault.
        seed: of the draws.

    Raises:
        UsageError: epsilon is not positive, or a step lies past the planned end.
    """
    if epsilon is not None and not epsilon > 0:
        raise UsageError(f"epsilon is {epsilon}; give a positive gain in the unit of the reward")
    found = fit(series, epsilon, seed)
    return _too_short(series, epsilon, flags) if found is None else of_fit(found, at_steps=at_steps, flags=flags)


def of_fit(found: Fit, *, at_steps: Sequence[int] = (), flags: Sequence[str] = ()) -> Forecast:
    """Return the forecast of a series that has been fitted; as `forecast`."""
    _check_steps(found.series, at_steps)
    candidates = tuple(fit_all(found.data, found.surfaces))
    best, margin = selected(candidates)
    result = _described(found, candidates, flags, at_steps)
    if margin < TREND_MARGIN and not found.oscillates:
        return _without_trend(result, found, best, margin)
    said, why = verdict(found, flags)
    return replace(result, verdict=said, why=why, model=None if best is None else best.model)


def selected(candidates: Sequence[Candidate]) -> tuple[Candidate | None, float]:
    """Return the best admissible form other than the constant, and by how much AICc prefers it to the constant."""
    constant = next(one for one in candidates if one.model == "constant")
    best = min(
        (one for one in candidates if one.model != "constant" and not one.rejected), key=lambda c: c.aicc, default=None
    )
    return best, -np.inf if best is None else constant.aicc - best.aicc


def _check_steps(series: RewardSeries, steps: Sequence[int]) -> None:
    for step in steps:
        if series.max_steps is not None and step > series.max_steps:
            raise UsageError(f"step {step} lies past the planned end ({series.max_steps}): nothing is forecast there")
        if step < series.step[-1]:
            raise UsageError(f"step {step} is past already: the last one is {series.step[-1]}")


def _too_short(series: RewardSeries, epsilon: float | None, flags: Sequence[str]) -> Forecast:
    part = series.last_part()
    why = f"{len(part)} points; {LEAST_POINTS} are needed before anything is said"
    return Forecast(
        verdict="cannot_tell_yet" if series.broken is None else "fault",
        why=(why if series.broken is None else broke(series.broken),),
        metric=series.metric,
        axis=series.axis,
        points=len(part),
        first_step=int(part.step[0]) if len(part) else -1,
        last_step=int(part.step[-1]) if len(part) else -1,
        max_steps=series.max_steps,
        epsilon=float("nan") if not len(part) else default_epsilon(part) if epsilon is None else epsilon,
        learning_rate_share=series.learning_rate_share,
        flags=tuple(flags),
        notes=part.notes,
    )


def _described(
    found: Fit, candidates: tuple[Candidate, ...], flags: Sequence[str], at_steps: Sequence[int]
) -> Forecast:
    """Return everything but the verdict."""
    series, data, curves = found.series, found.data, found.curves
    end, left = found.end, outlook.gain_left(found.curves, found.data, found.end)
    stop = outlook.marginal_stop(curves, data, end, found.epsilon) if end is not None else None

    def at(x: float) -> Interval:
        whole = 1.0 if end is None else max(end, 1e-300)
        share = found.share_left if end is None else float(np.clip((x - data.x[-1]) / whole, 0.0, 1.0))
        return interval(outlook.predicted(curves, data, x, share, series.bounds))

    return Forecast(
        verdict="cannot_tell_yet",
        why=(),
        metric=series.metric,
        axis=series.axis,
        points=len(series),
        first_step=int(series.step[0]),
        last_step=int(series.step[-1]),
        max_steps=series.max_steps,
        level=interval(outlook.level_at(curves, data, data.x[-1:])[:, 0]),
        asymptote=outlook.asymptote(curves),
        final=None if end is None else interval(outlook.predicted(curves, data, end, found.share_left, series.bounds)),
        phases=_in_steps(outlook.phases(curves, data, end if end is not None else float(data.x[-1])), series),
        remaining_gain=interval(left),
        epsilon=found.epsilon,
        stop_step=None if stop is None else int(np.ceil(series.step_at(stop))),
        saving=_saving(series, left),
        candidates=candidates,
        autocorrelation=curves.autocorrelation,
        learning_rate_share=series.learning_rate_share,
        flags=tuple(flags),
        notes=series.notes,
        at={step: at(series.position_at(step)) for step in at_steps} or None,
    )


def _in_steps(found: Phases, series: RewardSeries) -> Phases:
    def converted(one: Interval | None) -> Interval | None:
        if one is None:
            return None
        return Interval(series.step_at(one.value), series.step_at(one.low), series.step_at(one.high), one.level)

    return Phases(converted(found.slow), converted(found.rapid), converted(found.plateau))


def _saving(series: RewardSeries, left: Floats) -> Saving | None:
    if series.max_steps is None or series.max_steps <= series.step[-1]:
        return None
    steps = int(series.max_steps - series.step[-1])
    return Saving(steps, steps / series.max_steps, interval(left))


def _without_trend(result: Forecast, found: Fit, best: Candidate | None, margin: float) -> Forecast:
    # Without a trend there is no rise to have phases, an end or a rest.
    bare = replace(
        result,
        asymptote=None,
        final=_of_level(result.final, result.level),
        phases=Phases(),
        remaining_gain=None,
        stop_step=None,
        saving=None,
        at=None if result.at is None else {step: _of_level(one, result.level) for step, one in result.at.items()},
    )
    if found.series.broken is not None:
        return replace(bare, verdict="fault", why=(broke(found.series.broken),))
    # A run that rose and lost it all is fitted no better by a line than by a constant.
    if found.fell_clearly:
        return replace(bare, verdict="falling", why=(fallen(found), *result.flags))
    why = "no form with a trend is identified"
    if best is not None:
        why = f"the best form with a trend, {best.model}, gains {margin:+.1f} units of AICc over a constant; "
        why += f"{TREND_MARGIN:g} are needed"
    return replace(bare, verdict="no_trend", why=(why, *result.flags))


@overload
def _of_level(one: Interval, level: Interval | None) -> Interval: ...
@overload
def _of_level(one: Interval | None, level: Interval | None) -> Interval | None: ...
def _of_level(one: Interval | None, level: Interval | None) -> Interval | None:
    """Return an interval about the level: the median of curves none of which is identified foretells nothing."""
    return one if one is None or level is None else replace(one, value=min(max(level.value, one.low), one.high))
