"""The verdict of an advice in one sentence, in the words that its rung allows."""

from __future__ import annotations

import math

from grpodyn.attribution.verdict import listed
from grpodyn.lora import evidence
from grpodyn.lora.findings import Movement
from grpodyn.lora.policy import Choice
from grpodyn.lora.rungs import ABLATION, PATCH, Ladder
from grpodyn.lora.savings import PRACTICAL
from grpodyn.lora.stored import Stored


def verdict(movement: Movement, ladder: Ladder, rung: int, where: str, choice: Choice, placed: bool) -> str:
    """Return what to train and why, in one sentence."""
    what = f"uniform rank {choice.plan.rank} on {len(choice.plan.modules)} linear modules in {where}"
    if choice.gave_way:
        what += f" (budget: {'; '.join(choice.gave_way)})"
    if rung == ABLATION and ladder.ablation is not None:
        found = ladder.ablation
        refuted = found.verdict_kind == "refuted"
        return f"{what}: {f'{found.candidate}, which was put to the test, is refuted' if refuted else found.verdict}"
    if rung == PATCH and ladder.patch is not None:
        return f"{what}: {_of_patch_test(ladder.patch, choice, placed)}"
    return f"{what}: {_of_movement(movement)}"


def _of_patch_test(stored: Stored, choice: Choice, placed: bool) -> str:
    """Return why, for a choice by the patch test."""
    names = listed(stored.found.reading.parts)
    # The parts that the verdict names may stand at a lower rank without anything of them having been left out.
    if placed and any(step.endswith("left out") for step in choice.gave_way):
        return (
            "what was left out holds least of this run's change by the patch test; that the next run should train what "
            "is left is a hypothesis, and the ablation below tests it"
        )
    if placed:
        return (
            f"this run's change is stored in {names}; that the next run should train there alone is a hypothesis, and "
            "the "
            "ablation below tests it"
        )
    if stored.word == "localised" and stored.out_of_reach:
        return f"this run's change is stored in {names}, out of LoRA's reach, so nothing speaks for leaving layers out"
    if stored.word == "localised" and choice.gave_way:
        return (
            f"this run's change is stored in {names}; under the limit all linear modules at a lower rank go before a "
            "place, which did no better on toy tasks"
        )
    if stored.word == "localised":
        return (
            f"this run's change is stored in {names}, but training there alone has no practical saving (below "
            f"{PRACTICAL:.0%} of time and of memory, or not to be counted on this model): keep all-linear"
        )
    reasons = {
        "distributed": "the evidence is flat: this run's change is spread, and no few parts hold most of its gain",
        "redundant": f"{names} can each stand in for the other, so where the change lies does not say what is needed",
        "joint": f"{names} work only together, so none of them alone is the place to train",
        "harmful": f"the change of {names} works against the gain"
        if stored.found.reading.parts
        else "this run gained nothing",
        "flat": "the evidence is flat: this run gained nothing that could be attributed",
        "too noisy": "the patch test could not tell parts apart",
    }
    return f"{reasons[stored.word]}: keep all-linear"


def _of_movement(movement: Movement) -> str:
    spread = movement.spread("layer", "displacement")
    ratio = spread.max_over_min.value if spread is not None else math.nan
    if math.isnan(ratio):
        return "movement says nothing against uniform"
    if evidence.is_flat(spread):
        return f"movement over layers is flat (largest/smallest {ratio:.2f}, below 3): keep uniform"
    shown = "infinite" if math.isinf(ratio) else f"{ratio:.2f}"
    return (
        f"movement over layers is uneven (largest/smallest {shown}), but movement is not contribution, and "
        "no study found that ranks allocated by a norm beat uniform under GRPO: still uniform until a test on this run "
        "says otherwise"
    )
