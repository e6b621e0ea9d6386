"""Diagnosis while training goes on: the cost of a row does not grow with the rows before it.

The rules run over the first rows (what a level is compared with) and the latest ones, every few new rows; so a row
costs the same at step 100 and at step 100,000. What only whole runs show (a plateau, what an adapter covers) is left to
`grpodyn diagnose`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import Any

import numpy as np

from grpodyn.diagnosis.diagnosing import diagnose
from grpodyn.diagnosis.finding import Finding, Severity, at_least
from grpodyn.diagnosis.observations import Observations
from grpodyn.diagnosis.of_history import columns_of
from grpodyn.importers.keys import names_of

RULES = frozenset(
    {
        "truncation",
        "dead_groups_hard",
        "dead_groups_easy",
        "reward_without_spread",
        "reward_missing",
        "reward_hacking",
        "reward_collapse",
        "learning_rate_high",
        "length_drift",
        "entropy_collapse",
        "entropy_explosion",
        "kl_drift",
        "kl_blow_up",
        "non_finite",
        "gradient_spikes",
        "sampler_mismatch",
        "update_without_signal",
    }
)
"""What is worth a word before the end."""
_HEAD, _WINDOW, _EVERY = 40, 160, 10
SETTLED = 25
"""Rows before which only what is critical is said: many a run begins with prompts that it soon learns to solve."""


class LiveDiagnosis:
    """Takes the trainer's log row by row, and returns each finding once, when it is first seen.

    Args:
        settings: the trainer's arguments.
        lora: the adapter's config, None for full training.
        level: findings under it are not returned.
    """

    def __init__(
        self,
        settings: Mapping[str, Any] | None = None,
        lora: Mapping[str, Any] | None = None,
        level: Severity = "warning",
    ) -> None:
        self._settings, self._lora, self._level = dict(settings or {}), lora, level
        self._head: list[tuple[int, dict[str, float]]] = []
        self._latest: deque[tuple[int, dict[str, float]]] = deque(maxlen=_WINDOW)
        self._new = 0
        self.found: dict[str, Finding] = {}
        """Every finding so far, by id."""

    def row(self, step: int, values: Mapping[str, Any]) -> list[Finding]:
        """Take a row of the log; return the findings that are new with it.

        Args:
            step: the optimizer step.
            values: the trainer's scalars under its own keys; what is no number is passed over.
        """
        numbers = {
            key: float("nan") if value is None else float(value)
            for key, value in values.items()
            if value is None or isinstance(value, int | float)
        }
        if not numbers:
            return []
        if len(self._head) < _HEAD:
            self._head.append((step, numbers))
        else:
            self._latest.append((step, numbers))
        self._new += 1
        # A NaN does not wait for its turn: every step after it is lost.
        gone = any(np.isnan(numbers.get(key, 0.0)) for key in ("grad_norm", "loss"))
        if self._new < _EVERY and not gone:
            return []
        self._new = 0
        return self._check()

    def _check(self) -> list[Finding]:
        rows = [*self._head, *self._latest]
        # The level at the start is that of the first rows, however many have passed since: as many are kept of each.
        keys = names_of(key for _, values in rows for key in values).canonical
        named = [{keys[key]: value for key, value in values.items()} for _, values in rows]
        seen = Observations(
            source="training",
            steps=np.array([step for step, _ in rows], dtype=np.int64),
            columns=columns_of(named),
            settings=self._settings,
            lora=self._lora,
        )
        new = []
        level = self._level if len(rows) >= SETTLED else "critical"
        for finding in diagnose(seen, RULES).findings:
            if finding.id not in self.found and at_least(finding.severity, level):
                self.found[finding.id] = finding
                new.append(finding)
        return new
