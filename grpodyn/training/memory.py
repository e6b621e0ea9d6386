"""What a run will hold in the memory of one training device, estimated from a model without storage."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import torch
from peft import get_peft_model
from transformers import AutoModelForCausalLM

from grpodyn.config.launch import Launch
from grpodyn.config.run import RunConfig
from grpodyn.training.arguments import lora_arguments

logger = logging.getLogger(__name__)

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
_EIGHT_BIT = frozenset({"adamw_8bit", "adamw_bnb_8bit", "paged_adamw_8bit"})
_EIGHT_BIT_BYTES = 2 * (1 + 4 / 256)
"""An element: two states of one byte, and a float32 scale for each block of 256 (bitsandbytes)."""
_HALF = 2
"""Bytes of a number in bfloat16 or float16."""
_LOGIT_COPIES = 3
"""The model's, those divided by the temperature or their log-softmax, and their gradient."""
_GATHERED_BLOCKS = 2
"""Of a sharded model: the block that computes, and the next one that is fetched meanwhile."""


@dataclass(frozen=True)
class Memory:
    """Bytes on one training device, and for the recorder. What is not known is None."""

    weights: int
    gradients: int
    optimizer: int | None
    """None if what the optimizer keeps is not known."""
    reference_model: int
    activations: int | None
    """What the backward pass of one micro-batch needs, at most: every prompt and completion at its full length. None
    for an architecture that does not run without values."""
    logits: int
    """Of that micro-batch's completions, in three copies; none with the Liger kernel."""
    cast_copies: int
    """Weights in bfloat16 beside those in float32, under autocast."""
    gathered: int
    """Of a sharded model: whole blocks while they compute."""
    generation_weights: int
    """A second copy of the weights, where vLLM generates on the same device."""
    generation_cache: int
    """Keys and values of all completions that are sampled at once, at their full length."""
    recorder: int
    """Copies and snapshots at most; W_0 is read from the checkpoint on disk."""

    @property
    def total(self) -> int | None:
        """The peak, or None if a part is not known: sampling and the backward pass take turns."""
        if self.optimizer is None or self.activations is None:
            return None
        always = self.weights + self.gradients + self.optimizer + self.reference_model + self.generation_weights
        backward = self.activations + self.logits + self.cast_copies + self.gathered
        return always + self.recorder + max(backward, self.generation_cache)


@dataclass(frozen=True)
class Size:
    """Of parameters."""

    count: int
    bytes: int
    dtype: torch.dtype

    @classmethod
    def of(cls, parameters: Iterable[torch.nn.Parameter]) -> Size:
        """Return the size of parameters together."""
        held = list(parameters)
        dtype = held[0].dtype if held else torch.float32
        return cls(sum(p.numel() for p in held), sum(p.numel() * p.element_size() for p in held), dtype)


@dataclass(frozen=True)
class Shape:
    """How much is computed at once on one device."""

    rows: int
    """Completions of a micro-batch."""
    sampled: int
    """Completions that are sampled at once."""
    prompt_tokens: int
    """Of the longest prompt."""
    completion_tokens: int
    """Where completions are cut off."""


def sizes(config: RunConfig, architecture: Any) -> tuple[Size, Size]:
    """Return the size of the weights, and of what is trained."""
    model, weights = _twin(config, architecture, _storage(config, architecture))
    return weights, Size.of(p for p in model.parameters() if p.requires_grad)


def memory(config: RunConfig, architecture: Any, arguments: Any, shape: Shape, launch: Launch) -> Memory:
    """Return what a run of `config` holds on one device.

    Args:
        config: the run config.
        architecture: the model's `PretrainedConfig`.
        arguments: the trainer's, of `GRPOConfig` or of `SFTConfig`, which samples nothing and has no reference model.
        shape: how much is computed at once.
        launch: how many processes there are, and whether they share the model.
    """
    weights, trainable = sizes(config, architecture)
    text = architecture.get_text_config()
    parts = launch.processes if launch.sharded else 1
    half = bool(arguments.bf16 or arguments.fp16)
    compute = torch.bfloat16 if half else weights.dtype
    vllm = bool(getattr(arguments, "use_vllm", False))
    vllm_here = vllm and arguments.vllm_mode == "colocate"
    logits = shape.rows * shape.completion_tokens * text.vocab_size * compute.itemsize * _LOGIT_COPIES
    optimizer = _optimizer_bytes(str(getattr(arguments.optim, "value", arguments.optim)), trainable)
    served = arguments.vllm_tensor_parallel_size if vllm_here else 1
    return Memory(
        weights=weights.bytes // parts,
        gradients=trainable.bytes // parts,
        optimizer=None if optimizer is None else optimizer // parts,
        # With LoRA the reference is the policy with its adapter off.
        reference_model=weights.bytes // parts if getattr(arguments, "beta", 0) and config.lora is None else 0,
        activations=activations(config, architecture, compute, shape, bool(arguments.gradient_checkpointing)),
        logits=0 if arguments.use_liger_kernel else logits,
        cast_copies=weights.count * _HALF // parts if half and weights.dtype == torch.float32 else 0,
        gathered=_GATHERED_BLOCKS * weights.bytes // text.num_hidden_layers if launch.sharded else 0,
        generation_weights=weights.count * _HALF // served if vllm_here else 0,
        generation_cache=0 if vllm and not vllm_here else _cache_bytes(text, compute, shape) // served,
        recorder=min(config.record.copy_limit, trainable.bytes) + config.record.snapshot_limit,
    )


def activations(
    config: RunConfig, architecture: Any, compute: torch.dtype, shape: Shape, checkpointing: bool
) -> int | None:
    """Return the bytes that autograd keeps of one micro-batch's forward pass, without its logits; None if unknown.

    They are counted, not guessed: a twin without storage runs the pass, and what each operation saves is added up, as
    storages, weights left out. Matrices of tokens by tokens are left out too: attention kernels do not keep them.
    With checkpointing, each block keeps its input, and one block at a time is computed again.
    """
    model, _ = _twin(config, architecture, compute)
    tokens = shape.prompt_tokens + shape.completion_tokens
    own = {p.untyped_storage()._cdata for p in model.parameters()}
    kept: dict[int, torch.UntypedStorage] = {}

    def pack(saved: torch.Tensor) -> torch.Tensor:
        storage = saved.untyped_storage()
        if storage._cdata not in own and not (saved.ndim > 2 and saved.shape[-2:] == (tokens, tokens)):
            # Held on to, so that no later storage can have the same address.
            kept[storage._cdata] = storage
        return saved

    ids = torch.zeros((shape.rows, tokens), dtype=torch.long, device="meta")
    # Whole, so that transformers does not look into the positions, which have no values here, to make one.
    mask = torch.ones((1, 1, tokens, tokens), dtype=torch.bool, device="meta")
    try:
        with torch.autograd.graph.saved_tensors_hooks(pack, lambda saved: saved):
            model(input_ids=ids, attention_mask=mask, use_cache=False, logits_to_keep=1)
    # What an architecture raises that needs values, or takes other arguments.
    except (RuntimeError, NotImplementedError, TypeError, ValueError):
        logger.info("the forward pass of %s does not run without values", type(model).__name__, exc_info=True)
        return None
    whole = sum(storage.nbytes() for storage in kept.values())
    if not checkpointing:
        return whole
    text = architecture.get_text_config()
    blocks = text.num_hidden_layers
    return int(blocks * shape.rows * tokens * text.hidden_size * compute.itemsize + whole // blocks)


def _storage(config: RunConfig, architecture: Any) -> torch.dtype:
    name = config.model.dtype
    found = (getattr(architecture, "dtype", None) or torch.float32) if name == "auto" else getattr(torch, name)
    return found if isinstance(found, torch.dtype) else torch.float32


def _twin(config: RunConfig, architecture: Any, dtype: torch.dtype) -> tuple[Any, Size]:
    """Return the model that would be trained, without storage, and the size of its weights without an adapter."""
    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(
            architecture, dtype=dtype, trust_remote_code=config.model.trust_remote_code
        )
        weights = Size.of(model.parameters())
        lora = lora_arguments(config)
        if lora is not None:
            model = get_peft_model(model, lora)
    return model, weights


def _optimizer_bytes(name: str, trainable: Size) -> int | None:
    if name in _EIGHT_BIT:
        return round(_EIGHT_BIT_BYTES * trainable.count)
    states = _STATES.get(name)
    return None if states is None else states * trainable.bytes


def _cache_bytes(text: Any, dtype: torch.dtype, shape: Shape) -> int:
    heads = getattr(text, "num_key_value_heads", None) or text.num_attention_heads
    width = getattr(text, "head_dim", None) or text.hidden_size // text.num_attention_heads
    of_token = 2 * text.num_hidden_layers * heads * width * dtype.itemsize
    return int(shape.sampled * (shape.prompt_tokens + shape.completion_tokens) * of_token)
