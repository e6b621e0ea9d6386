"""The parts beside the task outweigh the task."""

from __future__ import annotations

import math

import numpy as np

from grpodyn.diagnosis import patches
from grpodyn.diagnosis.finding import Finding
from grpodyn.diagnosis.observations import Observations
from grpodyn.diagnosis.rule import Rule


class RewardDominance(Rule):
    """The parts beside the task outweigh the task."""

    id = "reward_dominance"
    title = "Other reward parts together outweigh the task's"
    meaning = (
        "If format, length and style can earn more than a right answer, they are what is learnt first, and what is "
        "kept when they and the task disagree."
    )
    change = "Lower the weights of the other parts until their sum is under the task's."
    may_be = ("a reward whose name does not say that it is the task",)
    config_key = "rewards"
    reference = (
        "arXiv 2609.39321: format and complexity (2.1 together) outweighed correctness (1.0) on code, until the reward "
        "was repaired"
    )

    def missing(self, seen: Observations) -> str | None:
        """Return what is not there."""
        if len(seen.parts) < 2:
            return "there is one reward function, or their means are not logged"
        if seen.task_part is None:
            return f"which of {', '.join(seen.parts)} is the task cannot be told by their names"
        return None

    def check(self, seen: Observations) -> Finding | None:
        """Return the finding."""
        task = seen.task_part
        sizes = {name: self._size(seen, name) * abs(seen.weights.get(name, 1.0)) for name in seen.parts}
        known = {name: size for name, size in sizes.items() if math.isfinite(size)}
        if task is None or task not in known or known[task] <= 0:
            return None
        others = sum(size for name, size in known.items() if name != task)
        if others <= known[task]:
            return None
        listed = ", ".join(f"`{name}` {size:.3g}" for name, size in known.items() if name != task)
        factor = 0.5 * known[task] / others
        return self.found(
            "warning",
            None,
            f"a completion can earn {others:.3g} beside the task ({listed}), and {known[task]:.3g} by it (`{task}`)",
            patch=patches.reward_weights(seen, {name: factor for name in known if name != task}),
            figures={"others": others, "task": known[task]},
        )

    def _size(self, seen: Observations, name: str) -> float:
        """Return how far apart the values of a part lie: as recorded, else by its mean and deviation.

        Of a part that is 0 or v, (mean² + std²)/mean is v; of one that takes values up to v, it is less.
        """
        if seen.groups is not None and name in seen.groups.parts:
            low, high = seen.groups.values[seen.groups.parts.index(name)]
            return float(high - low)
        mean, deviation = seen.series(f"rewards/{name}/mean"), seen.series(f"rewards/{name}/std")
        if len(mean) == 0 or len(mean) != len(deviation) or float(mean.values.min()) < 0:
            return math.nan
        held = mean.values > 1e-6
        if not held.any():
            return math.nan
        return float(np.median((mean.values[held] ** 2 + deviation.values[held] ** 2) / mean.values[held]))
