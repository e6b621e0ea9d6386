"""A reward series in, a forecast out: verdict, phases, where it ends, when to stop."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from grpodyn.errors import UsageError
from grpodyn.forecasting import outlook
from grpodyn.forecasting.candidates import Candidate, all_surfaces, fit_all
from grpodyn.forecasting.course import course
from grpodyn.forecasting.ensemble import Ensemble, ensemble
from grpodyn.forecasting.forms import FORMS
from grpodyn.forecasting.likelihood import Surface
from grpodyn.forecasting.noise import Observations, observe
from grpodyn.forecasting.outlook import Phases, interval
from grpodyn.series import Broken, RewardSeries
from grpodyn.statistics.interval import Interval

Floats = NDArray[np.float64]
Verdict = Literal["rising", "plateau", "schedule_limited", "falling", "no_trend", "cannot_tell_yet", "fault"]

LEAST_POINTS = 10
"""With fewer points nothing is said."""
TREND_MARGIN = 7.0
"""Units of AICc by which a form must beat the constant; fewer is no trend. Set on simulated flat runs."""
EPSILON = 0.01
"""Gain that is not worth going on for: in widths of the metric's bounds, else of its level."""
SURE = 0.8
LOW_RATE = 0.2
"""Share of its peak below which the learning rate may be what holds the reward back."""
_LOOK_AHEAD = 0.2
"""A verdict looks at least so far ahead, in lengths of the data: at its planned end every run has nothing to gain."""


@dataclass(frozen=True)
class Saving:
    """What stopping at the last point would save, and lose."""

    steps: int
    share: float
    """Of the planned steps."""
    lost: Interval
    """Reward that going on to the planned end would have gained."""


@dataclass(frozen=True)
class Forecast:
    """What a series says about its own future. Rewards in the metric's unit; intervals have their level beside them."""

    verdict: Verdict
    why: tuple[str, ...]
    metric: str
    axis: str
    points: int
    """Points of the fit's part of the series, before blocks of neighbours are averaged."""
    first_step: int
    last_step: int
    max_steps: int | None
    model: str | None
    """The form that AICc selects; None without a trend."""
    level: Interval | None
    """Mean reward at the last point."""
    asymptote: Interval | None
    final: Interval | None
    """Mean reward at the planned end; with the chance that the run changes its course."""
    phases: Phases
    """In steps."""
    remaining_gain: Interval | None
    """Up to the planned end; to the asymptote where none is planned."""
    epsilon: float
    stop_step: int | None
    """First step from which going on gains less than epsilon; it may be past."""
    saving: Saving | None
    candidates: tuple[Candidate, ...]
    autocorrelation: float
    learning_rate_share: float
    flags: tuple[str, ...] = ()
    """Signs of a fault."""
    notes: tuple[str, ...] = ()
    at: Mapping[int, Interval] | None = None
    """Predictions at the steps that were asked for."""


@dataclass(frozen=True)
class Fit:
    """Points, all forms over their grids, and the curves that the data leave open."""

    series: RewardSeries
    data: Observations
    surfaces: Mapping[str, Surface]
    curves: Ensemble
    epsilon: float
    turns: tuple[int, ...]
    """Steps at which the curve turned."""
    fell: bool
    """Whether it went down last."""

    @property
    def end(self) -> float | None:
        """Position of the planned end, if there is one."""
        if self.series.max_steps is None:
            return None
        return max(self.series.position_at(self.series.max_steps), float(self.data.x[-1]))

    @property
    def share_left(self) -> float:
        """Share of the run that is still to come; half where no end is planned."""
        if self.end is None:
            return 0.5
        # A part's positions count from the start of the run.
        whole = self.end - min(0.0, float(self.series.position[0]))
        return float(np.clip((self.end - self.data.x[-1]) / whole, 0.0, 1.0)) if whole > 0 else 0.0


def default_epsilon(series: RewardSeries) -> float:
    """Return the gain that is not worth going on for, in the metric's unit."""
    if series.bounds is not None:
        return EPSILON * (series.bounds[1] - series.bounds[0])
    return EPSILON * max(float(np.median(np.abs(series.value[-10:]))), float(np.ptp(series.value)) / 2, 1e-12)


def fit(series: RewardSeries, epsilon: float | None = None, seed: int = 0) -> Fit | None:
    """Fit every form to the part of a series that can be fitted, or return None if it is too short."""
    part = series.last_part()
    if len(part) < LEAST_POINTS:
        return None
    gain = default_epsilon(part) if epsilon is None else epsilon
    data = observe(part.position, part.value, part.trials)
    went = course(data.y, data.scale, gain)
    turns = tuple(round(part.step_at(float(data.x[turn]))) for turn in went.turns)
    if len(turns) == 1:
        after = part.take(part.position >= data.x[went.turns[0]])
        if len(after) >= LEAST_POINTS:
            part = after
            data = observe(part.position, part.value, part.trials)
    surfaces = all_surfaces(data, FORMS.values())
    return Fit(part, data, surfaces, ensemble(data, surfaces, part.bounds, seed), gain, turns, went.direction < 0)


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
    if margin < TREND_MARGIN and len(found.turns) < 2:
        return _without_trend(result, found, best, margin)
    verdict, why = _verdict(found, flags)
    return replace(result, verdict=verdict, why=why, model=None if best is None else best.model)


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
    last = int(part.step[-1]) if len(part) else -1
    verdict: Verdict = "fault" if series.broken is not None else "cannot_tell_yet"
    why = f"{len(part)} points; {LEAST_POINTS} are needed before anything is said"
    if series.broken is not None:
        why = _broke(series.broken)
    return Forecast(
        verdict,
        (why,),
        series.metric,
        series.axis,
        len(part),
        int(part.step[0]) if len(part) else -1,
        last,
        series.max_steps,
        None,
        None,
        None,
        None,
        Phases(None, None, None),
        None,
        epsilon if epsilon is not None else (default_epsilon(part) if len(part) else float("nan")),
        None,
        None,
        (),
        float("nan"),
        series.learning_rate_share,
        tuple(flags),
        part.notes,
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
        model=None,
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
        result, asymptote=None, phases=Phases(None, None, None), remaining_gain=None, stop_step=None, saving=None
    )
    if found.series.broken is not None:
        return replace(bare, verdict="fault", why=(_broke(found.series.broken),))
    why = "no form with a trend is identified"
    if best is not None:
        why = f"the best form with a trend, {best.model}, gains {margin:+.1f} units of AICc over a constant; "
        why += f"{TREND_MARGIN:g} are needed"
    return replace(bare, verdict="no_trend", why=(why, *result.flags))


def _broke(broken: Broken) -> str:
    return f"training broke at step {broken.step}: {broken.what}"


def _verdict(found: Fit, flags: Sequence[str]) -> tuple[Verdict, tuple[str, ...]]:
    if found.series.broken is not None:
        return "fault", (_broke(found.series.broken),)
    if len(found.turns) > 1:
        at = ", ".join(str(turn) for turn in found.turns)
        return "cannot_tell_yet", (f"the reward goes up and down (it turned at steps {at})",)
    if found.fell:
        since = found.turns[-1] if found.turns else int(found.series.step[0])
        return "falling", (f"the reward has fallen since step {since}",)
    ahead = float(found.data.x[-1]) + _LOOK_AHEAD * float(found.data.x[-1] - found.data.x[0])
    end = ahead if found.end is None else max(found.end, ahead)
    left, epsilon = outlook.gain_left(found.curves, found.data, end), found.epsilon
    gains, loses = float((left > epsilon).mean()), float((left < -epsilon).mean())
    shares = f"of the curves that fit, {gains:.0%} gain and {loses:.0%} lose more than {epsilon:.3g}; the others stay"
    if 1 - gains - loses >= SURE:
        return _stays(found.series, shares, flags)
    sure: Verdict = "rising" if gains >= SURE else "falling" if loses >= SURE else "cannot_tell_yet"
    return sure, (shares,)


def _stays(series: RewardSeries, shares: str, flags: Sequence[str]) -> tuple[Verdict, tuple[str, ...]]:
    """Return what it means that the reward does not move any more."""
    if flags:
        return "fault", (shares, *flags)
    share = series.learning_rate_share
    if share < LOW_RATE:
        return "schedule_limited", (shares, f"the learning rate is at {share:.0%} of its peak: it may hold the reward")
    return "plateau", (shares,)
