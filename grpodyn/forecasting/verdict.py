"""From a fit to a verdict on a series that has a trend."""

from __future__ import annotations

from collections.abc import Sequence

from grpodyn.forecasting import outlook
from grpodyn.forecasting.fitting import Fit
from grpodyn.forecasting.result import Verdict
from grpodyn.series import Broken, RewardSeries

SURE = 0.8
"""Share of the curves that fit which must agree."""
LOW_RATE = 0.2
"""Share of its peak below which the learning rate may be what holds the reward back."""
_LOOK_AHEAD = 0.2
"""A verdict looks at least so far ahead, in lengths of the data: at its planned end every run has nothing to gain."""


def broke(broken: Broken) -> str:
    """Return the sentence on where training broke."""
    return f"training broke at step {broken.step}: {broken.what}"


def fallen(found: Fit) -> str:
    """Return the sentence on since when the reward has fallen."""
    return f"the reward has fallen since step {found.turns[-1] if found.turns else int(found.series.step[0])}"


def verdict(found: Fit, flags: Sequence[str]) -> tuple[Verdict, tuple[str, ...]]:
    """Return the verdict on a series with a trend, and why."""
    if found.series.broken is not None:
        return "fault", (broke(found.series.broken),)
    if found.oscillates:
        at = ", ".join(str(turn) for turn in found.turns)
        return "cannot_tell_yet", (f"the reward goes up and down (it turned at steps {at})",)
    if found.fell:
        return "falling", (fallen(found),)
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
