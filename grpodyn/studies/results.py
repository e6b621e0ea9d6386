"""What a sweep has found, as it is printed, written and committed. No torch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from grpodyn.statistics import Interval
from grpodyn.trace import strict_json

RESULTS = "results.json"


@dataclass(frozen=True)
class SweptRun:
    """One run."""

    name: str
    """Of its directory inside the sweep's."""
    arm: str
    seed: int
    state: str
    """`pending`, `running`, `done`, `interrupted` or `failed`."""
    error: str | None
    seconds: float
    """Wall time of its training, over all starts."""
    values: Mapping[str, float]
    """Metric → what it has come to; nothing unless it is done."""


@dataclass(frozen=True)
class ArmResult:
    """What an arm reaches over its seeds."""

    arm: str
    settings: Mapping[str, Any]
    seeds: tuple[int, ...]
    """Of its finished runs."""
    values: Mapping[str, Interval]
    """Metric → mean over seeds with a t interval; of factors (`perplexity_ratio/…`) the geometric mean."""
    counts: Mapping[str, int]
    """Metric → runs that have it: one that never reaches a level has no value there."""


@dataclass(frozen=True)
class Difference:
    """An arm beside the reference in one metric, paired by seed."""

    arm: str
    reference: str
    metric: str
    scale: str
    """`difference` (arm − reference, 0 is none) or `factor` (arm / reference, 1 is none)."""
    difference: Interval
    p: float
    """Two-sided, of a paired t test, not corrected for how many there are; nan where there is no spread to judge by."""
    n: int
    """Seeds that both arms have finished."""


@dataclass(frozen=True)
class ContrastResult:
    """What came of a claim."""

    a: str
    b: str
    metric: str
    better: str
    scale: str
    difference: Interval
    p: float
    """One-sided; nan before all seeds of both arms are there, and where there is no spread to judge by."""
    p_holm: float
    """Corrected for all claims of the study."""
    opposite_p: float
    """One-sided, that `a` lies on the other side of `b` than claimed; nan as `p`."""
    opposite_p_holm: float
    """Corrected for the opposites of all claims of the study."""
    equal: str | None
    """The metric in which `a` must not be worse."""
    equal_difference: Interval | None
    equal_p: float
    """One-sided, that `a` is worse by `margin` or more; nan if nothing had to be equal."""
    margin: float
    n: int
    outcome: str
    """`shown`, `refuted` (the opposite is shown), `not shown`, `shown, at a loss` (not at equal skill), or `not
    decided` (seeds are missing, there is no spread to judge by, or `equal` was not measured)."""


@dataclass(frozen=True)
class SweepResult:
    """A sweep as far as it is finished."""

    name: str
    question: str
    reference: str
    arms: list[ArmResult]
    differences: list[Difference]
    contrasts: list[ContrastResult]
    reading: list[str]
    """The result in sentences."""
    notes: list[str]
    """What limits it: failures, runs that are missing, levels that were not reached."""
    runs: list[SweptRun]
    missing: int
    """Runs still to be trained, failed ones included."""
    failed: int
    study: Mapping[str, Any]
    """The study as it was carried out."""
    settings: list[str]
    """`--set` of the command line."""
    configs_sha256: str
    """Of every run's resolved config."""
    versions: Mapping[str, str]
    """Of what trained, as the first run's manifest has them."""

    def write(self, folder: Path, name: str = RESULTS) -> Path:
        """Write `results.json`, or a file of another name, and return its path.

        Raises:
            OSError: the disk is full or gone.
        """
        path = folder / name
        strict_json.replace_file(path, strict_json.dumps(self, indent=1).encode() + b"\n")
        return path
