"""What one part of the reward pays for, another punishes."""

from __future__ import annotations

import math

import numpy as np

from grpodyn.diagnosis.finding import Finding
from grpodyn.diagnosis.observations import Observations
from grpodyn.diagnosis.rule import Rule

OPPOSED = -0.3
"""Correlation within groups from which two parts are said to oppose each other."""
SURE = 5.0
_FEWEST = 30


class RewardOpposition(Rule):
    """What one part of the reward pays for, another punishes."""

    id = "reward_opposition"
    title = "Two reward parts oppose each other"
    meaning = (
        "Where completions that please one function displease another, their sum has less spread than either: the "
        "gradient is what is left of two that cancel, and the larger weight decides."
    )
    change = "Pay the second part only to completions that have earned the first, or drop one."
    may_be = ("a trade-off that is wanted (brevity against thoroughness)",)
    config_key = "rewards"
    reference = "Var(a + b) = Var a + Var b + 2 Cov(a, b), within groups"

    def missing(self, seen: Observations) -> str | None:
        """Return what is not there."""
        if seen.groups is not None and len(seen.groups.parts) > 1:
            return None
        if len(seen.parts) < 2:
            return "there is one reward function, or their means are not logged"
        if min(len(series) for series in seen.parts.values()) < _FEWEST:
            return f"without rollouts at least {_FEWEST} rows are needed"
        return None

    def check(self, seen: Observations) -> Finding | None:
        """Return the finding."""
        return self._within(seen) if seen.groups is not None and len(seen.groups.parts) > 1 else self._over_time(seen)

    def _within(self, seen: Observations) -> Finding | None:
        groups = seen.groups
        assert groups is not None  # noqa: S101  # narrows the type; `check` has looked
        weights = np.array([seen.weights.get(name, 1.0) for name in groups.parts])
        covariance = groups.within * np.outer(weights, weights)
        spread = np.sqrt(np.diag(covariance))
        worst: tuple[float, int, int] | None = None
        for i in range(len(spread)):
            for j in range(i):
                if spread[i] > 0 and spread[j] > 0:
                    found = float(covariance[i, j] / (spread[i] * spread[j]))
                    worst = min(worst, (found, i, j)) if worst is not None else (found, i, j)
        if worst is None or worst[0] > OPPOSED:
            return None
        correlation, i, j = worst
        parts, total = float(np.trace(covariance)), float(covariance.sum())
        return self.found(
            "warning",
            None,
            f"within groups `{groups.parts[j]}` and `{groups.parts[i]}` have a correlation of {correlation:.2f}",
            f"the spread of their sum is {math.sqrt(max(total, 0.0)):.3g}, that of the parts apart "
            f"{math.sqrt(parts):.3g}",
            patch=self._patch(seen, groups.parts[i], groups.parts[j]),
            figures={"correlation": correlation, "kept_variance": total / parts if parts else math.nan},
        )

    def _over_time(self, seen: Observations) -> Finding | None:
        """Without rollouts: batches in which one part is high are those in which the other is low."""
        names = list(seen.parts)
        for i, name in enumerate(names):
            for other in names[:i]:
                a, b = seen.parts[name], seen.parts[other]
                if len(a) != len(b):
                    continue
                # Differences, so that two trends are no correlation.
                da, db = np.diff(a.values), np.diff(b.values)
                if da.std() == 0 or db.std() == 0:
                    continue
                correlation = float(np.corrcoef(da, db)[0, 1])
                if correlation <= OPPOSED and -math.atanh(max(correlation, -0.999999)) * math.sqrt(len(da) / 2) >= SURE:
                    return self.found(
                        "warning",
                        None,
                        f"from batch to batch `{other}` and `{name}` move against each other (correlation "
                        f"{correlation:.2f} over {len(da)} steps)",
                        "rollouts were not recorded, so that groups cannot be looked into",
                        patch=self._patch(seen, name, other),
                        figures={"correlation": correlation},
                    )
        return None

    def _patch(self, seen: Observations, a: str, b: str) -> dict[str, object] | None:
        configured, names = list((seen.config or {}).get("rewards") or []), list(seen.weights)
        # Which of two is the task is told by its name, or not at all: their order says nothing.
        if len(configured) != len(names) or seen.task_part not in (a, b):
            return None
        dropped = b if seen.task_part == a else a
        return {"rewards": [entry for entry, name in zip(configured, names, strict=True) if name != dropped]}
