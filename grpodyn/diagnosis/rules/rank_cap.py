"""The adapter's rank limits what it can learn."""

from __future__ import annotations

import numpy as np

from grpodyn.diagnosis.finding import Finding
from grpodyn.diagnosis.observations import Observations
from grpodyn.diagnosis.rule import Rule

FULL = 0.9


class RankCap(Rule):
    """The adapter's rank limits what it can learn."""

    id = "rank_cap"
    title = "The adapter's rank limits it"
    meaning = (
        "The effective rank of an adapter's update cannot exceed its rank, and noise fills it too: a full rank "
        "alone proves nothing. Where cutting the tail of the update costs accuracy, the last directions do work, "
        "and more might."
    )
    change = "Double the rank, with alpha as it is."
    may_be = ("noise in every direction: then cutting the tail costs nothing", "too high a learning rate")
    config_key = "lora.r"
    reference = "erank(ΔW) ≤ r by construction (Roy & Vetterli 2007); rank truncation by `grpodyn attribute`"

    def missing(self, seen: Observations) -> str | None:
        """Return what is not there."""
        if not seen.trains_adapter:
            return "no adapter is trained"
        if seen.spectra is None or not len(seen.spectra.where("lora")):
            return "no effective ranks are recorded"
        if len(seen.truncation) < 2:
            return "what cutting the tail costs is not measured: `grpodyn attribute` does"
        return None

    def check(self, seen: Observations) -> Finding | None:
        """Return the finding."""
        rank = int((seen.lora or {}).get("r") or 0)
        if seen.spectra is None or rank < 2:
            return None
        ranks = seen.spectra.last("effective_rank", seen.spectra.where("lora"))
        share = float(np.median(ranks[np.isfinite(ranks)])) / rank if np.isfinite(ranks).any() else 0.0
        lower = max((r for r in seen.truncation if r < rank), default=None)
        whole = seen.truncation.get(rank) or seen.truncation[max(seen.truncation)]
        if share < FULL or lower is None or seen.truncation[lower][2] >= whole[1]:
            return None
        return self.found(
            "warning",
            None,
            f"the effective rank is {share:.2f} of the adapter's rank {rank} (median over modules)",
            f"cut to rank {lower}, accuracy falls from {whole[0]:.3f} to {seen.truncation[lower][0]:.3f}, beyond "
            "both intervals",
            patch={"lora": {"r": 2 * rank}},
            figures={"share": share},
        )
