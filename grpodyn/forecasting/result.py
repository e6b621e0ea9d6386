"""What a forecast says."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import nan
from typing import Literal

from grpodyn.forecasting.candidates import Candidate
from grpodyn.forecasting.outlook import Phases
from grpodyn.statistics.interval import Interval

Verdict = Literal["rising", "plateau", "schedule_limited", "falling", "no_trend", "cannot_tell_yet", "fault"]


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
    epsilon: float
    model: str | None = None
    """The form that AICc selects; None without a trend."""
    level: Interval | None = None
    """Mean reward at the last point."""
    asymptote: Interval | None = None
    final: Interval | None = None
    """Mean reward at the planned end; with the chance that the run changes its course. Without a trend its value is the
    level, and only the interval tells what is possible."""
    phases: Phases = field(default_factory=Phases)
    """In steps."""
    remaining_gain: Interval | None = None
    """Up to the planned end; to the asymptote where none is planned."""
    stop_step: int | None = None
    """First step from which going on gains less than epsilon; it may be past."""
    saving: Saving | None = None
    candidates: tuple[Candidate, ...] = ()
    autocorrelation: float = nan
    learning_rate_share: float = nan
    flags: tuple[str, ...] = ()
    """Signs of a fault."""
    notes: tuple[str, ...] = ()
    at: Mapping[int, Interval] | None = None
    """Predictions at the steps that were asked for."""
