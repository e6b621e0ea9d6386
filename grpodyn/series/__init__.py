"""A run's reward as a series: its axis, its noise, its segments and its schedule."""

from grpodyn.series.from_run import planned_steps, reward_series
from grpodyn.series.series import AXES, Axis, Broken, RewardSeries, series_from_rows

__all__ = ["AXES", "Axis", "Broken", "RewardSeries", "planned_steps", "reward_series", "series_from_rows"]
