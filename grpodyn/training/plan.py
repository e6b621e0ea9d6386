"""What a run will cost, estimated without training: steps, prompts, tokens, memory."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from peft import get_peft_model
from transformers import AutoModelForCausalLM

from grpodyn.config.batching import TRL_DEFAULTS, batch_plan, planned_steps, world_size
from grpodyn.config.run import RunConfig
from grpodyn.training.arguments import grpo_arguments, lora_arguments
from grpodyn.training.checkpoints import FOLDER
from grpodyn.training.data import train_prompts
from grpodyn.training.loading import load_architecture, load_tokenizer

PROMPTS_MEASURED = 500
"""Prompts that are tokenized to estimate the length of all."""

# Tensors of the parameter's own size and dtype that an optimizer keeps; others are reported as unknown.
_STATES = {
    "adafactor": 0,
    "adagrad": 1,
    "adamw_apex_fused": 2,
    "adamw_torch": 2,
    "adamw_torch_fused": 2,
    "rmsprop": 1,
    "sgd": 0,
}


@dataclass(frozen=True)
class Memory:
    """Bytes on the training device, and for the recorder; activations come on top of it."""

    weights: int
    gradients: int
    optimizer: int | None
    """None if what the optimizer keeps is not known."""
    reference_model: int
    generation_cache: int
    recorder: int
    """Copies and snapshots on top of it at most; W_0 is read from the checkpoint on disk."""

    @property
    def total(self) -> int | None:
        """Sum of the parts, or None if one is not known."""
        if self.optimizer is None:
            return None
        others = self.weights + self.gradients + self.reference_model + self.generation_cache + self.recorder
        return others + self.optimizer


@dataclass(frozen=True)
class RunPlan:
    """Estimates of a whole run, over all ranks except memory (one rank's)."""

    steps: int
    epochs: float
    training_prompts: int
    prompts_per_step: float
    group_size: int
    completions: int
    """Completions sampled in the whole run."""
    prompt_tokens: int
    """Tokens of the prompts of those completions, from the mean length of some prompts."""
    completion_tokens_at_most: int
    parameters: int
    trainable_parameters: int
    memory: Memory


def plan_run(config: RunConfig) -> RunPlan:
    """Return what a run of `config` will take.

    Raises:
        ConfigError, UnknownNameError: the model, the dataset or a setting is wrong.
    """
    batches = batch_plan(config.grpo, world_size())
    # What a run would refuse is refused here too: nobody waits for a plan that cannot be followed.
    grpo_arguments(config, Path(FOLDER))
    prompts = train_prompts(config.task)
    steps = planned_steps(config.grpo, batches, len(prompts))
    architecture = load_architecture(config.model)
    weights, trainable = _parameters(config, architecture)
    dtype = weights.dtype
    completions = math.ceil(steps / batches.steps_per_generation) * batches.completions_per_generation
    prompt_length = _mean_length(load_tokenizer(config.model), prompts["prompt"][:PROMPTS_MEASURED])
    longest = _setting(config, "max_completion_length")
    per_generation = batches.completions_per_generation // world_size()
    return RunPlan(
        steps=steps,
        epochs=round(steps / max(batches.steps_per_epoch(len(prompts)), 1), 2),
        training_prompts=len(prompts),
        prompts_per_step=batches.completions_per_step / batches.group_size,
        group_size=batches.group_size,
        completions=completions,
        prompt_tokens=round(completions * prompt_length),
        completion_tokens_at_most=completions * longest,
        parameters=weights.count,
        trainable_parameters=trainable.count,
        memory=Memory(
            weights=weights.bytes,
            gradients=trainable.bytes,
            optimizer=_optimizer_bytes(config, trainable.bytes),
            reference_model=_reference_bytes(config, weights.bytes),
            generation_cache=round(per_generation * (prompt_length + longest) * _cache_bytes(architecture, dtype)),
            recorder=min(config.record.copy_limit, trainable.bytes) + config.record.snapshot_limit,
        ),
    )


@dataclass(frozen=True)
class _Size:
    count: int
    bytes: int
    dtype: torch.dtype

    @classmethod
    def of(cls, parameters: Iterable[torch.nn.Parameter]) -> _Size:
        held = list(parameters)
        dtype = held[0].dtype if held else torch.float32
        return cls(sum(p.numel() for p in held), sum(p.numel() * p.element_size() for p in held), dtype)


def _parameters(config: RunConfig, architecture: Any) -> tuple[_Size, _Size]:
    """Return the size of the weights, and of what is trained, from a model without storage."""
    name = config.model.dtype
    dtype = (getattr(architecture, "dtype", None) or torch.float32) if name == "auto" else getattr(torch, name)
    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(
            architecture, dtype=dtype, trust_remote_code=config.model.trust_remote_code
        )
        weights = _Size.of(model.parameters())
        lora = lora_arguments(config)
        if lora is not None:
            model = get_peft_model(model, lora)
    return weights, _Size.of(p for p in model.parameters() if p.requires_grad)


def _setting(config: RunConfig, key: str) -> Any:
    return config.grpo.get(key, TRL_DEFAULTS.get(key))


def _optimizer_bytes(config: RunConfig, trainable_bytes: int) -> int | None:
    states = _STATES.get(config.grpo.get("optim", "adamw_torch_fused"))
    return None if states is None else states * trainable_bytes


def _reference_bytes(config: RunConfig, weight_bytes: int) -> int:
    # With LoRA the reference is the policy with its adapter off.
    return weight_bytes if config.grpo.get("beta", 0.0) and config.lora is None else 0


def _cache_bytes(architecture: Any, dtype: torch.dtype) -> int:
    """Return the bytes of keys and values of one token."""
    text = architecture.get_text_config()
    heads = getattr(text, "num_key_value_heads", None) or text.num_attention_heads
    width = getattr(text, "head_dim", None) or text.hidden_size // text.num_attention_heads
    return int(2 * text.num_hidden_layers * heads * width * dtype.itemsize)


def _mean_length(tokenizer: Any, prompts: list[Any]) -> float:
    lengths = [
        len(tokenizer(prompt)["input_ids"] if isinstance(prompt, str) else tokenizer.apply_chat_template(prompt))
        for prompt in prompts
    ]
    return sum(lengths) / len(lengths)
