"""A reward function, or all of them, returns nothing."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from grpodyn.diagnosis.finding import Finding
from grpodyn.diagnosis.observations import Observations
from grpodyn.diagnosis.rule import Rule

Places = NDArray[np.intp]

_ROWS = 5
"""Rows at the end without a value from which a function counts as silent."""


class RewardMissing(Rule):
    """A reward function, or all of them, returns nothing."""

    id = "reward_missing"
    title = "A reward function returns nothing"
    meaning = (
        "A reward of None or NaN is left out of the sum without a word. If every function returns None, the log "
        "shows a loss of 0, a gradient of 0 and `frac_reward_zero_std` 0, which looks healthy and is not."
    )
    change = "Call the reward function on one logged completion; return a number for each."
    may_be = ("a function that is meant for another task and returns None on purpose for these prompts",)
    config_key = "rewards"
    reference = "TRL 1.16: a None of every function gives reward null, frac_reward_zero_std 0.0, loss 0 (tried)"

    def missing(self, seen: Observations) -> str | None:
        """Return what is not there."""
        named = [name for name in seen.columns if name == "reward" or name.startswith("rewards/")]
        if not named and not seen.weights:
            return "the log holds no reward at all, under any name that is known"
        if len(self._live(seen)) < _ROWS:
            return "the log holds too few rows"
        return None

    def check(self, seen: Observations) -> Finding | None:
        """Return the finding."""
        live = self._live(seen)
        steps = seen.steps[live]
        total = seen.columns.get("reward")
        if total is not None and not np.isfinite(total[live]).any() and len(seen.reward) == 0:
            return self.found(
                "critical",
                int(steps[0]),
                f"none of {len(live)} rows holds a reward, though the trainer went on",
                *self._looks_healthy(seen),
                figures={"rows": float(len(live))},
            )
        silent = {
            name: since for name in self._functions(seen) if (since := self._silent(seen, name, live)) is not None
        }
        if not silent:
            return None
        onset = min(silent.values())
        listed = ", ".join(f"`{name}` since step {since}" for name, since in silent.items())
        return self.found(
            "warning",
            onset,
            f"{listed}: no value is logged, while training goes on; its completions are scored without it",
            patch=self._without(seen, set(silent)),
            figures={"functions": float(len(silent))},
        )

    def _live(self, seen: Observations) -> Places:
        """Places of the rows that a generation step logged."""
        marks = ("completions/mean_length", "frac_reward_zero_std", "loss", "reward")
        column = next((seen.columns[name] for name in marks if name in seen.columns), None)
        held = np.isfinite(column) if column is not None else np.zeros(len(seen.steps), bool)
        return np.flatnonzero(held)

    def _functions(self, seen: Observations) -> list[str]:
        keys = [name for name in seen.columns if name.startswith("rewards/") and name.endswith("/mean")]
        return [key.removeprefix("rewards/").removesuffix("/mean") for key in keys]

    def _silent(self, seen: Observations, name: str, live: Places) -> int | None:
        held = np.isfinite(seen.columns[f"rewards/{name}/mean"][live])
        # Sparse logs hold rewards in every few rows: the reward's own rows are the measure.
        total = seen.columns.get("reward")
        if total is not None and np.isfinite(total[live]).any():
            scored = np.isfinite(total[live])
            held, live = held[scored], live[scored]
        if len(held) < _ROWS or held[-_ROWS:].any():
            return None
        last = np.flatnonzero(held)
        return int(seen.steps[live][last[-1] + 1 if last.size else 0])

    def _looks_healthy(self, seen: Observations) -> list[str]:
        dead = seen.series("frac_reward_zero_std")
        if len(dead) and float(np.max(dead.values)) == 0:
            return ["frac_reward_zero_std reads 0 all the same: it is not a sign of health here"]
        return []

    def _without(self, seen: Observations, silent: set[str]) -> dict[str, object] | None:
        configured = list((seen.config or {}).get("rewards") or [])
        names = list(seen.weights)
        if len(configured) != len(names) or len(silent) >= len(names):
            return None
        return {"rewards": [entry for entry, name in zip(configured, names, strict=True) if name not in silent]}
