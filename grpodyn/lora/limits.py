"""What limits an advice: what the adapter does not reach, what the trace does not hold, what a LoRA run cannot show."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from grpodyn.lora import twin
from grpodyn.lora.dry_run import Resolved
from grpodyn.lora.modules import Plan
from grpodyn.lora.stored import Stored

if TYPE_CHECKING:
    from grpodyn.trace.reader import Run

_LOW_COVERAGE = 0.9


def left_out(model: twin.Twin) -> list[str]:
    """Return which linear modules are never adapted, and why."""
    reasons: dict[str, list[str]] = {}
    for name, why in model.left_out:
        reasons.setdefault(why, []).append(name)
    reasons.pop(twin.HEAD_REASON, None)
    return [f"{len(names)} modules left out, the first: {names[0]}: {why}" for why, names in reasons.items()]


def coverage(resolved: Resolved, *, by_choice: bool) -> list[str]:
    """Return what of the blocks gets no adapter; layers that were left out on purpose are no surprise."""
    found = []
    if resolved.coverage < _LOW_COVERAGE and not by_choice:
        found.append(
            f"the adapter covers {100 * resolved.coverage:.0f} % of the blocks' weights; the rest are no linear "
            "modules (stacked experts, convolutions, state-space parameters), were given up, or are out of PEFT's reach"
        )
    bare = [layer for layer, share in resolved.layer_coverage.items() if share == 0]
    if bare and not by_choice:
        found.append(f"{len(bare)} of {len(resolved.layer_coverage)} layers get no adapter: {', '.join(bare[:8])}")
    return found


def unseen(run: Run, plan: Plan) -> list[str]:
    """Name advised modules whose weight the trace does not hold; of none, the trace may be of another model."""
    recorded = {str(name).removesuffix(".weight") for name in run.tensors["tensor"].values}
    missing = sorted(plan.names - recorded)
    if len(missing) == len(plan.modules):
        return [
            f"none of the advised modules (the first: {missing[0]}) is in the trace: its tensors have other names than "
            f"the recorded class {run.manifest.model.get('class')}, so their movement may be another model's"
        ]
    if missing:
        return [f"of {len(missing)} advised modules (the first: {missing[0]}) the run recorded nothing"]
    return []


def of_lora_run(lora: Mapping[str, Any] | None) -> list[str]:
    """Return what a LoRA run's own adapter limits."""
    if not lora:
        return []
    found = ["a LoRA run shows only what its adapters could do: of modules without one it says nothing"]
    fixed = [key for key in ("rank_pattern", "alpha_pattern") if lora.get(key)]
    if fixed:
        found.append(
            f"the run's {' and '.join(fixed)} are not carried over: its alpha × learning rate is taken from r "
            "and lora_alpha"
        )
    if lora.get("modules_to_save"):
        found.append(f"the run also trained {lora['modules_to_save']} in full (modules_to_save); the advice does not")
    initial = lora.get("init_lora_weights")
    if isinstance(initial, str) and initial.startswith(("pissa", "olora", "corda", "mica")):
        found.append(
            f"the run started from {initial}; the advice starts from B = 0, as SVD-based starts collapse "
            "under RL (arXiv:2511.08567)"
        )
    return found


def of_patch_test(stored: Stored, plan: Plan, everywhere: int | None) -> list[str]:
    """Return what a patch test does not tell, or warns of.

    Args:
        stored: the patch test.
        plan: the advised adapter.
        everywhere: the parameters of all linear modules at a low rank, where parts were left out though these cost
            about as much; else None.
    """
    found = [
        f"{part.part} hold {part.share.value:.2f} of the gain, where LoRA on linear modules does not reach: the "
        "adapter has to find another way to it, or the embedding is trained too (`modules_to_save`, at its full size)"
        for part in stored.out_of_reach
    ]
    if everywhere is not None:
        found.append(
            "on five toy tasks such a place did better than all linear modules at a rank so low that they cost the "
            "same by .016 of accuracy at most, and worse by up to .076 (docs/results/lora-advice-fresh.md); "
            f"--max-params {everywhere} alone asks for them at a lower rank"
        )
    floor = stored.rank_floor
    if floor is not None and plan.rank < floor:
        found.append(
            f"rank {plan.rank} is below the {floor} to which this run's change can be cut without losing its gain; "
            "compare it with a higher one before relying on it"
        )
    baseline = stored.found.baseline
    if baseline is not None and baseline["accuracy"] >= stored.found.final.low:
        found.append(
            f"the untouched base at temperature {baseline['temperature']:g} is right {baseline['accuracy']:.3f} of the "
            "time, as often as the trained model: the gain may be confidence only, which needs no adapter"
        )
    if stored.word == "harmful" and stored.found.reading.parts:
        names = ", ".join(stored.found.reading.parts)
        found.append(f"without the change of {names} this run was better: leave it out first")
    found += stored.found.notes
    return found
