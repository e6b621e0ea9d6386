"""What a run's movement looks like, as plain numbers; made by the analysis `lora_movement`, read by the advice.

Four different statistics, and none of them says what matters for the reward:

- *net displacement* ‖W_T − W_0‖_F: what does not cancel over the run;
- *path length* Σ_t ‖W_t − W_{t−1}‖_F: all movement, whether it cancels or not;
- *coherence*: displacement over path, 1 for a straight line;
- *gradient energy* Σ_t ‖g_t‖_F²: what the optimizer is given.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Statistic = Literal["displacement", "path", "gradient"]


@dataclass(frozen=True)
class Ranged:
    """A statistic at the end of the run, and its range over windows of the run.

    The range is not an interval: one run has no seed error. nan where undefined.
    """

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class Spread:
    """How unevenly one kind of movement is spread over layers or module types.

    The values compared are root mean squares per element, so that groups of different size can be compared.
    """

    over: Literal["layer", "module"]
    statistic: Statistic
    groups: int
    max_over_min: Ranged
    top_30_share: Ranged
    gini: Ranged


@dataclass(frozen=True)
class GroupMovement:
    """One layer's or one module type's movement, its tensors taken as one long vector; nan where not recorded."""

    group: str
    tensors: int
    elements: int
    displacement: float
    """‖W_T − W_0‖_F, in units of the weights."""
    displacement_share: float
    """Share of Σ‖W_T − W_0‖_F² over all groups."""
    relative_displacement: float
    """‖W_T − W_0‖_F / ‖W_0‖_F."""
    path: float
    """Σ_t ‖W_t − W_{t−1}‖_F, in units of the weights."""
    path_share: float
    coherence: float
    gradient_share: float
    """Share of Σ_t ‖g_t‖_F² over all groups."""
    effective_rank: float
    """Median over the group's matrices, of W_T − W_0 at the last spectral sweep."""
    energy_rank_90: float
    """Median over the group's matrices: fewest singular values that hold 90 % of the energy."""


@dataclass(frozen=True)
class RankFindings:
    """Ranks of W_T − W_0 at the last spectral sweep, over all matrices that it measured; medians and extremes."""

    step: int
    matrices: int
    effective_rank: float
    effective_rank_low: float
    effective_rank_high: float
    energy_rank_90: float
    energy_rank_90_low: float
    energy_rank_90_high: float
    share_of_cap: float
    """LoRA runs: median of effective rank / adapter rank; nan in a full run, whose rank has no cap."""


@dataclass(frozen=True)
class Movement:
    """What moved in a run, by layer and by module type, over the linear weights of the blocks."""

    run_id: str
    status: str
    lora: bool
    """True if the rows are the effective ΔW of adapters, false if they are the weights themselves."""
    first_step: int
    last_step: int
    recorded_steps: int
    """Steps whose update was recorded."""
    stride: int
    """Steps between two recorded updates (the median); path and gradient sums are scaled up by the gaps."""
    windows: int
    tensors: int
    dtypes: tuple[str, ...]
    outside_share: float
    """Share of the displacement energy outside the blocks' linear weights, where LoRA on them does not reach."""
    layers: tuple[GroupMovement, ...]
    modules: tuple[GroupMovement, ...]
    spreads: tuple[Spread, ...]
    ranks: RankFindings | None
    notes: tuple[str, ...]
    """What was missing or had to be left out, and why."""

    def spread(self, over: Literal["layer", "module"], statistic: Statistic) -> Spread | None:
        """Return one spread, or None if its probe was not recorded."""
        return next((s for s in self.spreads if s.over == over and s.statistic == statistic), None)
