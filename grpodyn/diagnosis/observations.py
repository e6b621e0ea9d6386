"""What rules look at: one form for a recorded run, an imported log, and the rows of a training that goes on."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from grpodyn.diagnosis.groups import Groups
from grpodyn.diagnosis.series import NOTHING, Floats, Series

_TASK = re.compile(r"correct|accura|exact|match|answer|solve|verif|equal|success|pass|task|math|result", re.I)
_PART = re.compile(r"^rewards/(?P<name>.+)/mean$")
_HELD_OUT = re.compile(r"accura|reward|pass|score|acc|correct|exact", re.I)

# TRL's own defaults of what rules ask for: a log does not repeat them.
DEFAULTS: Mapping[str, Any] = {
    "beta": 0.0,
    "num_iterations": 1,
    "learning_rate": 1e-6,
    "max_completion_length": 256,
    "num_generations": 8,
    "gradient_accumulation_steps": 1,
    "per_device_train_batch_size": 8,
}


@dataclass(frozen=True)
class Tensors:
    """Per-tensor probes: name of a probe -> (row, tensor)."""

    steps: NDArray[np.int64]
    names: tuple[str, ...]
    modules: tuple[str, ...]
    layers: NDArray[np.int64]
    kinds: tuple[str, ...]
    sources: tuple[str, ...]
    dtypes: tuple[str, ...]
    probes: Mapping[str, Floats]

    def where(self, source: str | None = None, kind: str | None = None) -> NDArray[np.intp]:
        """Return the places of the tensors of a source and a kind."""
        fits = [
            (source is None or s == source) and (kind is None or k == kind)
            for s, k in zip(self.sources, self.kinds, strict=True)
        ]
        return np.flatnonzero(fits)

    def last(self, probe: str, places: NDArray[np.intp]) -> Floats:
        """Return each tensor's last finite value, nan where it has none."""
        if probe not in self.probes or not len(places):
            return np.full(len(places), np.nan)
        values = self.probes[probe][:, places]
        finite = np.isfinite(values)
        row = values.shape[0] - 1 - finite[::-1].argmax(axis=0)
        return np.where(finite.any(axis=0), values[row, np.arange(values.shape[1])], np.nan)

    def median(self, probe: str, places: NDArray[np.intp]) -> Series:
        """Return the median over tensors at each row that has a value."""
        if probe not in self.probes or not len(places):
            return NOTHING
        values = self.probes[probe][:, places]
        held = np.isfinite(values).any(axis=1)
        return Series(self.steps[held], np.nanmedian(values[held], axis=1)) if held.any() else NOTHING


@dataclass(frozen=True)
class NonFinite:
    """A first NaN or Inf that the record names."""

    step: int
    what: str
    tensor: str | None = None


@dataclass(frozen=True)
class Record:
    """How whole the record is."""

    status: str = "finished"
    imported: bool = False
    producer: str = ""
    sampled: bool = False
    problems: tuple[str, ...] = ()
    """What is damaged, missing or odd, a sentence each."""
    skipped: tuple[str, ...] = ()
    """What was not recorded, and why."""


@dataclass(frozen=True)
class Observations:
    """Everything that is known of a run, as far as rules ask for it."""

    source: str
    steps: NDArray[np.int64]
    """Step of each row of the trainer's log; ascending, or rising in each segment."""
    columns: Mapping[str, Floats]
    """Canonical name -> value per row; nan where it was not logged, or logged as NaN."""
    settings: Mapping[str, Any] = field(default_factory=dict)
    """The trainer's arguments that are known."""
    lora: Mapping[str, Any] | None = None
    dtype: str | None = None
    """Storage type of the trained weights."""
    parameters: int | None = None
    layers: int | None = None
    weights: Mapping[str, float] = field(default_factory=dict)
    """Reward function -> weight in the sum."""
    evaluations: Mapping[str, Series] = field(default_factory=dict)
    groups: Groups | None = None
    tensors: Tensors | None = None
    spectra: Tensors | None = None
    truncation: Mapping[int, tuple[float, float, float]] = field(default_factory=dict)
    """rank -> accuracy (value, low, high) of the run's change cut to that rank."""
    non_finite: tuple[NonFinite, ...] = ()
    record: Record = Record()
    config: Mapping[str, Any] | None = None
    """The run config, where there is one."""

    def series(self, name: str) -> Series:
        """Return a column without the rows that do not hold a finite value."""
        values = self.columns.get(name)
        if values is None:
            return NOTHING
        held = np.isfinite(values)
        return Series(self.steps[held], values[held])

    def setting(self, name: str) -> Any:
        """Return a trainer argument: as it was set, else as TRL defaults it, else None."""
        value = self.settings.get(name)
        return DEFAULTS.get(name) if value is None else value

    def known(self, name: str) -> bool:
        """Return whether a trainer argument is known, not assumed."""
        return self.settings.get(name) is not None

    @cached_property
    def reward(self) -> Series:
        """The total reward: as logged, else the mean of the recorded rollouts."""
        logged = self.series("reward")
        if len(logged) == 0 and self.groups is not None:
            return self.groups.reward
        return logged

    @cached_property
    def dead(self) -> Series:
        """Share of groups without spread of the total reward."""
        if self.groups is not None and len(self.groups.dead):
            return self.groups.dead
        return self.series("frac_reward_zero_std")

    @cached_property
    def parts(self) -> dict[str, Series]:
        """Mean of each reward function."""
        found = {match["name"]: self.series(key) for key in self.columns if (match := _PART.match(key))}
        return {name: series for name, series in found.items() if len(series)}

    @cached_property
    def task_part(self) -> str | None:
        """The reward function that is the task, by its name; the only one there is, or None if that cannot be told."""
        named = [name for name in self.parts if _TASK.search(name)]
        if len(named) == 1:
            return named[0]
        return next(iter(self.parts)) if len(self.parts) == 1 else None

    @cached_property
    def held_out(self) -> tuple[str, Series] | None:
        """The held-out metric that stands for quality, and its values."""
        ranked = sorted(
            (name for name, series in self.evaluations.items() if len(series) > 1 and _HELD_OUT.search(name)),
            key=lambda name: (
                "temperature" in name,
                "greedy" in name,
                "std" in name,
                "accura" not in name.lower(),
                name,
            ),
        )
        return (ranked[0], self.evaluations[ranked[0]]) if ranked else None

    @cached_property
    def reward_range(self) -> tuple[float, float]:
        """Lowest and highest total reward that completions can have, as far as the record shows."""
        if self.groups is not None and np.isfinite(self.groups.lowest):
            return self.groups.lowest, self.groups.highest
        values = self.reward.values
        low = min(0.0, float(values.min())) if len(values) else 0.0
        high = float(values.max()) if len(values) else 1.0
        # A reward of 0 and 1 is by far the commonest; a mean never shows its upper end.
        return low, max(1.0, high)

    @cached_property
    def mastered(self) -> bool:
        """Whether the run ends with nearly the highest reward there is: little spread is then no fault."""
        if len(self.reward) < 5:
            return False
        low, high = self.reward_range
        return high > low and self.reward.last.level.mean >= low + 0.9 * (high - low)

    @cached_property
    def trains_adapter(self) -> bool:
        """Whether an adapter is trained, not all weights."""
        return self.lora is not None

    @cached_property
    def step_size(self) -> float | None:
        """α × learning rate of an adapter (α/r scaling), the learning rate of full training; None if unknown."""
        rate = self.settings.get("learning_rate")
        if not isinstance(rate, int | float):
            return None
        if self.lora is None:
            return float(rate)
        alpha = self.lora.get("lora_alpha")
        return float(rate) * float(alpha) if isinstance(alpha, int | float) else None
