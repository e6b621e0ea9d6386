"""Placements by what flows through the base: PEFT's EVA redistribution of ranks, and PLoP's NFN of module types."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from peft import EvaConfig, LoraConfig, get_eva_state_dict
from torch import Tensor, nn
from transformers.pytorch_utils import Conv1D

from grpodyn.errors import ConfigError
from grpodyn.evaluation.answer_scores import evaluating
from grpodyn.lora.modules import LinearModule
from grpodyn.tasks import Examples

_BATCH = 64
_EVA_PASSES = 500


def batches(tokenizer: Any, examples: Examples, device: Any) -> list[dict[str, Tensor]]:
    """Return prompts with their right answers as a model takes them, padded on the left."""
    texts = [prompt + answer for prompt, answer in zip(examples.prompts, examples.answers, strict=True)]
    found = []
    for start in range(0, len(texts), _BATCH):
        encoded = tokenizer(texts[start : start + _BATCH], return_tensors="pt", padding=True, padding_side="left")
        found.append({key: encoded[key].to(device) for key in ("input_ids", "attention_mask")})
    return found


def eva_ranks(
    model: Any, modules: Sequence[LinearModule], inputs: Sequence[Mapping[str, Tensor]], rank: int
) -> dict[str, int]:
    """Return each module's rank as PEFT's EVA redistributes `rank` per module, by explained variance of its inputs.

    Only the ranks are taken: the adapters of all arms start alike, from B = 0.

    Raises:
        ConfigError: the components do not converge.

    Reference:
        Paischer et al., Explained Variance Adaptation, arXiv 2410.07170; `peft.tuners.lora.eva`, rho = 2.
    """
    config = LoraConfig(
        r=rank,
        target_modules=[module.name for module in modules],
        init_lora_weights="eva",
        eva_config=EvaConfig(rho=2.0),
        task_type="CAUSAL_LM",
    )
    calls = itertools.count(1)

    def forward(live: Any, batch: Mapping[str, Tensor]) -> Any:
        # PEFT goes on until every component has converged, however long that takes.
        if next(calls) > _EVA_PASSES:
            raise ConfigError(f"EVA has not converged after {_EVA_PASSES} batches; leave out the arm eva")
        return live(**batch)

    with evaluating(model):
        state = get_eva_state_dict(
            model, [dict(batch) for batch in inputs], config, forward_fn=forward, show_progress_bar=False
        )
    return {name: int(components.shape[0]) for name, components in state.items()}


def feature_norms(
    model: Any, modules: Sequence[LinearModule], inputs: Sequence[Mapping[str, Tensor]]
) -> dict[str, float]:
    """Return the normalised feature norm of each module type, a mean over its modules.

    NFN(W) = mean_tokens ‖W z/‖z‖‖ / (‖W‖_F / √d_in): how much larger the module's output is on the inputs that it gets
    than on random ones. PLoP adapts the types of the lowest NFN.

    Args:
        model: the base.
        modules: its linear modules.
        inputs: batches; padding does not count.

    Reference:
        Hayou et al., PLoP, arXiv 2506.20629; for a random unit vector E‖W u‖ is ‖W‖_F/√d_in within 1 %.
    """
    sums: dict[str, tuple[float, int]] = {}
    handles = []
    mask: list[Tensor] = []

    def hook(name: str, baseline: float) -> Any:
        def measured(module: nn.Module, arguments: tuple[Tensor, ...], _: Tensor) -> None:
            z = arguments[0][mask[0]].float()
            z = z / z.norm(dim=-1, keepdim=True).clamp_min(1e-12)
            out = z @ _matrix(module)
            total, count = sums.get(name, (0.0, 0))
            sums[name] = (total + float(out.norm(dim=-1).double().sum()) / baseline, count + len(z))

        return measured

    for module in modules:
        live = model.get_submodule(module.name)
        baseline = float(_matrix(live).norm()) / math.sqrt(module.in_features)
        handles.append(live.register_forward_hook(hook(module.name, baseline)))
    try:
        with torch.no_grad(), evaluating(model):
            for batch in inputs:
                mask[:] = [batch["attention_mask"].bool()]
                model(**batch, use_cache=False)
    finally:
        for handle in handles:
            handle.remove()
    by_type: dict[str, list[float]] = {}
    for module in modules:
        if module.name in sums:
            total, count = sums[module.name]
            by_type.setdefault(module.leaf, []).append(total / count)
    return {leaf: sum(values) / len(values) for leaf, values in by_type.items()}


def _matrix(module: nn.Module) -> Tensor:
    """Return the weight as (in, out): `Linear` stores it transposed, `Conv1D` so."""
    weight: Tensor = module.get_parameter("weight").detach().float()
    return weight if isinstance(module, Conv1D) else weight.T
