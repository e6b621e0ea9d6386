"""What the literature disagrees on, so that advice never passes for more settled than it is."""

from __future__ import annotations

from dataclasses import dataclass, replace


@dataclass(frozen=True)
class Conflict:
    """Two findings that do not agree, and what the advice does about it."""

    topic: str
    positions: tuple[str, ...]
    references: tuple[str, ...]
    here: str


WHICH_LAYERS = Conflict(
    topic="which layers",
    positions=(
        "training only the first two and last two layers kept more of what the model could do before (mean loss "
        "against the base 0.22 points instead of 1.81; single runs)",
        "trained one at a time, middle layers gave the most reward and the ends the least (second-hand summary; "
        "full-rank training, not LoRA)",
    ),
    references=("arXiv:2609.39321", "arXiv:2607.01232"),
    here="all layers; a subset of layers needs a patch test or an ablation on your own run",
)
RANK_ONE = Conflict(
    topic="how small a rank may be",
    positions=(
        "rank 1 matched full fine-tuning in one tuned study of RL on maths (LoRA Without Regret, second-hand)",
        "rank 1 was a bottleneck in a study of twelve methods (second-hand)",
    ),
    references=("LoRA Without Regret (2025)", "arXiv:2512.23165"),
    here="rank 16, less only under a budget; on five toy tasks about rank 4 on all linear modules kept 98 % of the "
    "gain or more (docs/results/lora-advice-fresh.md)",
)
ADAPTIVE_RANK = Conflict(
    topic="ranks allocated by a norm",
    positions=(
        "rank in proportion to a layer's gradient lost 4.5 points to uniform at equal budget under GRPO (200 test "
        "items, one seed: Fisher p = 0.37, so no evidence of benefit rather than proof of harm)",
        "AdaLoRA, whose ranks adapt, came out above uniform LoRA (44.2 against 42.5; second-hand, one study)",
    ),
    references=("arXiv:2605.07366", "arXiv:2512.23165"),
    here="uniform rank; no allocation in proportion to any norm",
)
FORGETTING = Conflict(
    topic="what predicts forgetting",
    positions=(
        "KL to the base on the new task's prompts predicts it, weight norms do not",
        "the size of the update predicted it in a replication on supervised fine-tuning (second-hand)",
    ),
    references=("arXiv:2509.04259", "arXiv:2410.21228"),
    here="the default config; retention is to be measured, not assumed from a smaller adapter",
)


def conflicts(goal: str | None, *, placed: bool = False) -> tuple[Conflict, ...]:
    """Return the disagreements that bear on advice for this goal, the closest first.

    Args:
        goal: what the caller wants.
        placed: whether the advice leaves parts out because of what was tested on the run itself.
    """
    layers = (
        replace(WHICH_LAYERS, here="what was tested on this run; neither paper's layers") if placed else WHICH_LAYERS
    )
    if goal == "retention":
        return (layers, FORGETTING, RANK_ONE, ADAPTIVE_RANK)
    return (layers, RANK_ONE, ADAPTIVE_RANK)
