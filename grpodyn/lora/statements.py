"""What a patch test and an ablation say, in sentences with their numbers: the words of each rung are its own.

A patch test says where a change is stored. "Contribution" and "confirmed" are words of an ablation only.
"""

from __future__ import annotations

import math

from grpodyn.ablation.results import Ablation, ArmResult
from grpodyn.attribution.result import PartResult
from grpodyn.lora.evidence import Evidence
from grpodyn.lora.stored import Stored

_SHOWN = 4


def of_patch_test(stored: Stored) -> list[Evidence]:
    """Return what the patch test found, the verdict first."""
    found = stored.found
    lines = [
        Evidence(
            f"patch test: this run's change is {found.verdict}: {found.reading.text}",
            "patch_verdict",
            found.gain.value,
            found.gain.low,
            found.gain.high,
        )
    ]
    ranked = sorted(found.of_partition(found.leading), key=lambda part: -abs(part.share.value))
    fresh = {part.part: part for part in found.confirm}
    lines += [_part(fresh.get(part.part, part), part.part in fresh) for part in ranked[:_SHOWN]]
    for sums in found.partitions:
        lines.append(
            Evidence(
                f"over {sums.name}, parts kept alone add up to {sums.kept_sum.value:.2f} of the gain, put back they "
                "cost "
                f"{sums.lost_sum.value:.2f}: at 1 and 1 parts would not interact",
                f"kept_sum_{sums.name}",
                sums.kept_sum.value,
                sums.kept_sum.low,
                sums.kept_sum.high,
            )
        )
    if stored.rank_floor is not None:
        kept = next((row for row in found.truncation if row.rank >= stored.rank_floor), found.truncation[-1])
        lines.append(
            Evidence(
                f"cut to rank {kept.rank}, every change together keeps {kept.kept.value:.2f} of the gain "
                f"({kept.kept.low:.2f} to {kept.kept.high:.2f}): a floor for the rank that is advised without a "
                "budget, not a reason to go lower",
                "truncation_kept",
                kept.kept.value,
                kept.kept.low,
                kept.kept.high,
            )
        )
    return lines


def of_ablation(ablation: Ablation, arm: ArmResult | None) -> list[Evidence]:
    """Return what the ablation found."""
    lines = [Evidence(f"ablation: {ablation.verdict}", "ablation_verdict", math.nan, math.nan, math.nan)]
    if arm is not None:
        lines.append(
            Evidence(
                f"{arm.arm} ({arm.trainable_params:,} parameters) reached {arm.accuracy.value:.3f} "
                f"({arm.accuracy.low:.3f} to {arm.accuracy.high:.3f}) over {len(arm.seeds)} seeds and kept "
                f"{arm.gain_kept.value:.2f} of all-linear's gain",
                "ablation_gain_kept",
                arm.gain_kept.value,
                arm.gain_kept.low,
                arm.gain_kept.high,
            )
        )
    return lines


def smallest_difference(stored: Stored | None, ablation: Ablation | None) -> str:
    """Return the smallest difference that the evidence could have shown."""
    tested = [c for c in ablation.comparisons if c.test != "descriptive"] if ablation is not None else []
    known = [c for c in tested if not math.isnan(c.smallest_seen)]
    if known:
        seen, seeds = max(c.smallest_seen for c in known), min(c.seeds for c in known)
        return f"with {seeds} seeds the ablation sees a difference of {seen:.3f} in accuracy 8 times in 10"
    if stored is not None and not math.isnan(stored.found.resolution):
        whole = stored.found.resolution * abs(stored.found.gain.value)
        return (
            f"the patch test tells a part from nothing from {stored.found.resolution:.2f} of the gain on "
            f"({whole:.3f} in accuracy); smaller parts may hold something unseen"
        )
    return "none: movement has no error bar, and no size of it is known to matter for the reward"


def _part(part: PartResult, is_fresh: bool) -> Evidence:
    """Return what one part holds; one that was chosen by its figures is shown with those of fresh prompts."""
    reach = "" if part.is_target else " (not a LoRA target)"
    source = ", on prompts that took no part in choosing it" if is_fresh else ""
    return Evidence(
        f"{part.part}{reach} alone keeps {part.kept.value:.2f} of the gain ({part.kept.low:.2f} to "
        f"{part.kept.high:.2f}); "
        f"putting it back costs {part.lost.value:.2f} ({part.lost.low:.2f} to {part.lost.high:.2f}){source}",
        f"put_back_{part.part}",
        part.lost.value,
        part.lost.low,
        part.lost.high,
    )
