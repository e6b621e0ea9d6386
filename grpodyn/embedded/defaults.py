"""What `grpodyn record` trains when it is given no config: measured to learn within three minutes on two cores.

Plain values, so that a config can be shown and checked without torch.
"""

from __future__ import annotations

from typing import Any, Final

TASK: Final = "arithmetic_format"
REWARDS: Final = ("exact_match",)

GRPO: Final[dict[str, Any]] = {
    "learning_rate": 3e-5,
    "lr_scheduler_type": "constant",
    "max_grad_norm": 1.0,
    "per_device_train_batch_size": 128,
    "gradient_accumulation_steps": 1,
    "num_generations": 8,
    "num_iterations": 1,
    "max_completion_length": 8,
    "max_steps": 200,
    "temperature": 1.0,
    "beta": 0.0,
    "bf16": False,
    "logging_steps": 1,
    "gradient_checkpointing": False,
}
"""Arguments of TRL's `GRPOConfig` under their own names: 16 prompts × 8 completions a step.

The longest right answer has five characters and an end token; at eight, nothing right is ever cut off.
"""

EVALUATE: Final[dict[str, Any]] = {"texts": ["other_formats"], "kl": True}
"""Beside the accuracy: what becomes of the formats that are not rewarded, and how far the policy moves."""

LORA_GRPO: Final[dict[str, Any]] = {**GRPO, "learning_rate": 9e-5}
"""The same for LoRA r=16, alpha=32 on all linear layers: three times the full run's learning rate."""
