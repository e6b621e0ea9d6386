"""What a run's movement says, in sentences, each with its number, its range over windows and the work it rests on."""

from __future__ import annotations

import math
from dataclasses import dataclass

from grpodyn.lora.findings import GroupMovement, Movement, RankFindings, Spread, Statistic

FLAT_BELOW = 3.0
"""Largest over smallest below which movement over layers is called flat (arXiv 2605.07366: 2.17 under GRPO, more than
10 in supervised fine-tuning)."""
CAP_BINDS_FROM = 0.9
"""Effective rank over adapter rank from which the rank may be what limits the update. Our own convention."""
_TOP_MEANS_SOMETHING_FROM = 1.5
LOW_PRECISION = ("bfloat16", "float16")

_WORDS = {
    "displacement": "net displacement",
    "path": "path length",
    "gradient": "gradient norm",
    "layer": "layers",
    "module": "module types",
}


@dataclass(frozen=True)
class Evidence:
    """One statement; `low` and `high` are the range over windows of the run, nan where there is none."""

    statement: str
    statistic: str
    value: float
    low: float
    high: float
    references: tuple[str, ...] = ()
    is_spread: bool = False


def is_flat(spread: Spread | None) -> bool:
    """Return whether movement over the groups is flat; unknown counts as flat, for nothing speaks for a deviation."""
    return spread is None or not spread.max_over_min.value >= FLAT_BELOW


def statements(movement: Movement) -> list[Evidence]:
    """Return what the advice rests on, the leading statistic first."""
    found = [_spread(movement, spread) for spread in movement.spreads]
    found += _disagreement(movement)
    found += _single_layer(movement)
    found += _outside(movement)
    found += _ranks(movement)
    return found


def leading_layers(movement: Movement) -> list[GroupMovement]:
    """Return up to ⌈0.3 · n⌉ layers with more than an equal share of the displacement energy, the largest first."""
    count = max(1, math.ceil(round(0.3 * len(movement.layers), 9)))
    above = [layer for layer in movement.layers if layer.displacement_share > 1 / len(movement.layers)]
    return sorted(above, key=lambda layer: -layer.displacement_share)[:count]


def _number(value: float) -> str:
    if math.isinf(value):
        return "infinite"
    return f"{value:.2f}" if value < 100 else f"{value:.3g}"


def _spread(movement: Movement, spread: Spread) -> Evidence:
    ratio = spread.max_over_min
    what = f"{_WORDS[spread.statistic]} over {spread.groups} {_WORDS[spread.over]}"
    windows = (
        f", {_number(ratio.low)} to {_number(ratio.high)} over {movement.windows} windows of the run"
        if not math.isnan(ratio.low)
        else ""
    )
    detail = (
        f"the top 30 % hold {100 * spread.top_30_share.value:.0f} %, Gini {spread.gini.value:.2f}"
        if not math.isnan(spread.gini.value)
        else "too few groups to compare"
    )
    references = ("arXiv:2605.07366", "arXiv:2505.11711") if spread.over == "layer" else ()
    return Evidence(
        f"{what}: largest/smallest {_number(ratio.value)}{windows}; {detail}",
        f"{spread.statistic}_max_over_min_{spread.over}",
        ratio.value,
        ratio.low,
        ratio.high,
        references,
        is_spread=True,
    )


def _single_layer(movement: Movement) -> list[Evidence]:
    """Name the layer to test where only one can have an adapter, by the predictor that a study found to hold."""
    alike = 1 / max(1, len(movement.layers))
    top = [x for x in leading_layers(movement)[:1] if not math.isclose(x.displacement_share, alike, rel_tol=1e-3)]
    return [
        Evidence(
            f"largest net displacement: layer {layer.group.rsplit('.', 1)[-1]}, {100 * layer.displacement_share:.0f} % "
            "of the energy; on three toy tasks an adapter on that layer alone gained 92 to 100 % of what the best "
            "single layer did (docs/results/placement.md): the one to test where memory or time allows only one, no "
            "reason to leave others out",
            "largest_displacement_layer",
            layer.displacement_share,
            math.nan,
            math.nan,
        )
        for layer in top
    ]


def _disagreement(movement: Movement) -> list[Evidence]:
    """Name the layer that each statistic points at, where they do not agree."""
    tops: dict[Statistic, str] = {}
    statistics: tuple[Statistic, ...] = ("displacement", "path", "gradient")
    for word in statistics:
        spread = movement.spread("layer", word)
        # The top of a flat statistic is chance.
        if spread is None or not spread.max_over_min.value >= _TOP_MEANS_SOMETHING_FROM:
            continue
        shares = {layer.group: float(getattr(layer, f"{word}_share")) for layer in movement.layers}
        measured = {group: share for group, share in shares.items() if not math.isnan(share)}
        if measured:
            tops[word] = max(measured, key=lambda group: measured[group])
    if len(set(tops.values())) < 2:
        return []
    text = ", ".join(f"{_WORDS[word]} at layer {layer}" for word, layer in tops.items())
    return [
        Evidence(
            f"the statistics point at different layers ({text}): movement is several things, none of them says what "
            "matters for the reward",
            "top_layers_differ",
            float(len(set(tops.values()))),
            math.nan,
            math.nan,
            ("arXiv:2607.01232",),
        )
    ]


def _outside(movement: Movement) -> list[Evidence]:
    if movement.lora or math.isnan(movement.outside_share):
        return []
    return [
        Evidence(
            f"{100 * movement.outside_share:.1f} % of the displacement energy lies outside the blocks' linear modules "
            "(embeddings, norms, experts, head), where this adapter does not reach",
            "outside_share",
            movement.outside_share,
            math.nan,
            math.nan,
        )
    ]


def _ranks(movement: Movement) -> list[Evidence]:
    ranks = movement.ranks
    if ranks is None:
        return []
    of = f"of W_T − W_0 at step {ranks.step}, median over {ranks.matrices} matrices"
    energy = Evidence(
        f"90 % of the energy lies in {ranks.energy_rank_90:.0f} directions ({ranks.energy_rank_90_low:.0f} to "
        f"{ranks.energy_rank_90_high:.0f} over matrices) {of}",
        "energy_rank_90",
        ranks.energy_rank_90,
        ranks.energy_rank_90_low,
        ranks.energy_rank_90_high,
    )
    entropy = Evidence(
        f"effective rank {ranks.effective_rank:.1f} ({ranks.effective_rank_low:.1f} to {ranks.effective_rank_high:.1f} "
        f"over matrices) {of}{_cap_reading(ranks)}",
        "effective_rank",
        ranks.effective_rank,
        ranks.effective_rank_low,
        ranks.effective_rank_high,
        ("Roy & Vetterli 2007",),
    )
    found = [] if math.isnan(ranks.energy_rank_90) else [energy]
    # Rounding noise fills the small singular values, which the entropy counts and the energy hardly sees.
    return [*found, entropy]


def _cap_reading(ranks: RankFindings) -> str:
    share = ranks.share_of_cap
    if math.isnan(share):
        return ""
    if share >= CAP_BINDS_FROM:
        return f"; that is {share:.2f} of the adapter's rank: the cap may bind, try twice the rank"
    return f"; that is {share:.2f} of the adapter's rank, which is no evidence about full training"


def warnings(movement: Movement) -> list[str]:
    """Return what limits the evidence."""
    found = []
    if movement.status in ("interrupted", "failed"):
        found.append(f"the run is {movement.status}: this is its movement up to step {movement.last_step}")
    elif movement.status == "running":
        found.append(f"the run is still running: this is its movement up to step {movement.last_step}")
    if not movement.lora and any(dtype in LOW_PRECISION for dtype in movement.dtypes):
        found.append(
            f"weights are stored in {', '.join(movement.dtypes)}: rounding loses small updates and inflates effective "
            "ranks (a rank-4 change can read as several hundred), so energy ranks lead and norms may be off"
        )
    if movement.stride > 1:
        found.append(
            f"updates were recorded every {movement.stride} steps: path lengths and gradient sums are scaled up from "
            "these"
        )
    found.append("one run, one seed: the ranges are over windows of this run, not an error bar")
    return found + list(movement.notes)
