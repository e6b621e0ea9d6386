"""What a smaller adapter saves over one on all linear modules: counted on the model's twin, estimated, or measured."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode

from grpodyn.ablation.results import Ablation
from grpodyn.lora.dry_run import applied
from grpodyn.lora.twin import Twin

PRACTICAL = 0.05
"""Below this share of time and of memory a smaller adapter saves nothing worth having."""
TRAINING_SHARE = 0.5
"""Share of a GRPO step that its training pass is taken for; the rest is generation. An assumption, said where used."""
_STATE_BYTES = 16
"""An adapter's parameter in float32 with its gradient and AdamW's two moments."""
_STORED_BYTES = 4
_TOKENS = 256
"""Length of the sequence on which work is counted where the run does not tell its own."""

How = Literal["counted", "estimated", "measured"]


@dataclass(frozen=True)
class Saving:
    """One quantity of the advised adapter beside all-linear at the same rank."""

    what: str
    advised: float
    all_linear: float
    unit: str
    how: How
    note: str = ""

    @property
    def share(self) -> float:
        """Share of all-linear's that is saved; 0 where there is nothing to save."""
        return 1 - self.advised / self.all_linear if self.all_linear > 0 else 0.0


@dataclass(frozen=True)
class Savings:
    """All of them, and whether they are worth anything."""

    items: tuple[Saving, ...]
    time_share: float
    """Of a step."""
    memory_share: float
    """Of the peak."""

    @property
    def practical(self) -> bool:
        """Whether time or memory is saved noticeably."""
        return self.time_share >= PRACTICAL or self.memory_share >= PRACTICAL


@dataclass(frozen=True)
class _Work:
    flops: int
    stored_bytes: int


def compare(
    twin: Twin,
    advised: Mapping[str, Any],
    all_linear: Mapping[str, Any],
    parameters: tuple[int, int],
    arguments: Mapping[str, Any],
) -> Savings | None:
    """Count what two adapters cost in a training pass; None where this model's pass cannot be counted.

    Operations and activations are counted by running forward and backward on the meta device: the backward pass ends
    below the lowest adapter, so that both depend on where an adapter sits. Time and peak memory are estimated from it.

    Args:
        twin: the model on the meta device.
        advised: PEFT's config of the advised adapter.
        all_linear: PEFT's config of all-linear at the same rank.
        parameters: trainable parameters of the two.
        arguments: the run's training arguments.
    """
    tokens = int(arguments.get("max_completion_length") or _TOKENS)
    sequences = int(arguments.get("per_device_train_batch_size") or 1)
    ours, theirs = _work(twin, advised, tokens), _work(twin, all_linear, tokens)
    if ours is None or theirs is None:
        return None
    pass_share = 1 - ours.flops / theirs.flops
    weights = sum(p.numel() for p in twin.model.parameters()) * _STORED_BYTES
    checkpointed = bool(arguments.get("gradient_checkpointing"))
    # With checkpointing a layer's activations live only while it is computed, wherever adapters sit.
    stored = [0 if checkpointed else work.stored_bytes * sequences for work in (ours, theirs)]
    peaks = [weights + _STATE_BYTES * n + s for n, s in zip(parameters, stored, strict=True)]
    memory_note = f"weights, adapter with AdamW, activations of {sequences} sequences of {tokens} tokens"
    files = [n * _STORED_BYTES / 1e6 for n in parameters]
    items = (
        Saving("training pass", ours.flops / 1e9, theirs.flops / 1e9, "GFLOP a sequence", "counted"),
        Saving(
            "step time",
            1 - TRAINING_SHARE * pass_share,
            1.0,
            "of all-linear's",
            "estimated",
            f"if the training pass is {TRAINING_SHARE:.0%} of a step and time goes with operations",
        ),
        Saving("peak memory", peaks[0] / 1e6, peaks[1] / 1e6, "MB", "estimated", memory_note),
        Saving("adapter file", files[0], files[1], "MB", "counted", "float32"),
    )
    return Savings(items, TRAINING_SHARE * pass_share, 1 - peaks[0] / peaks[1])


def measured(ablation: Ablation) -> tuple[Saving, ...]:
    """Return what an ablation measured of the adapter it tested, beside all-linear: seconds, and drift from the "
    "base."""
    ours, theirs = ablation.arm(ablation.candidate), ablation.arm("all-linear")
    if ours is None or theirs is None:
        return ()
    items = (
        Saving("training", ours.seconds, theirs.seconds, "s", "measured", "median over seeds, generation included"),
        Saving("drift from the base", ours.kl.value, theirs.kl.value, "nat a token", "measured", "forward KL"),
    )
    return tuple(item for item in items if math.isfinite(item.advised) and math.isfinite(item.all_linear))


def _work(twin: Twin, config: Mapping[str, Any], tokens: int) -> _Work | None:
    """Return operations and stored activations of one sequence's forward and backward pass."""
    model = applied(config, twin)
    # What runs on the meta device has no values: a pass that looks at one cannot be counted.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the libraries, about a pass that trains nothing
        try:
            return _counted(model, tokens)
        except (RuntimeError, NotImplementedError, TypeError, ValueError, AttributeError):
            return None


def _counted(model: Any, tokens: int) -> _Work:
    seen: dict[int, int] = {}
    held: list[Tensor] = []
    frozen = {id(p) for p in model.parameters()}

    def pack(tensor: Tensor) -> Tensor:
        # Weights are saved for the backward pass too, but take no memory of their own; views share theirs.
        owner = tensor._base if tensor._base is not None else tensor
        if id(owner) not in frozen:
            held.append(owner)
            seen[id(owner)] = owner.numel() * owner.element_size()
        return tensor

    model.train()
    ids = torch.zeros((1, tokens), dtype=torch.long, device="meta")
    with FlopCounterMode(display=False) as counter, torch.autograd.graph.saved_tensors_hooks(pack, lambda t: t):
        # A mask that is given needs no look at the positions, which have no values here.
        logits = model(input_ids=ids, attention_mask=torch.ones_like(ids), use_cache=False).logits
        logits.sum().backward()
    return _Work(counter.get_total_flops(), sum(seen.values()))
