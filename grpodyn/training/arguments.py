"""The `grpo` and `lora` sections as TRL's `GRPOConfig` and PEFT's `LoraConfig`, their keys and types checked first."""

from __future__ import annotations

import dataclasses
import math
import typing
from collections.abc import Mapping
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Union

import torch
from peft import LoraConfig
from pydantic import ConfigDict, TypeAdapter, ValidationError
from trl import GRPOConfig

from grpodyn.config.run import RunConfig
from grpodyn.errors import ConfigError, did_you_mean

TRAINER_DEFAULTS: Mapping[str, Any] = {
    "report_to": "none",
    "logging_steps": 1,
    # A NaN loss would otherwise be logged as the mean of the losses before it.
    "logging_nan_inf_filter": False,
    "save_strategy": "steps",
    "save_steps": 50,
    "save_total_limit": 2,
    "disable_tqdm": True,
}
"""Of every stage's trainer, in place of the ones of transformers."""

# Only these are checked: the rest of the two classes' annotations (enums, their own types) accept more than they say.
_PLAIN_TYPES = frozenset({int, float, bool, str, dict, list, NoneType})


def grpo_arguments(config: RunConfig, checkpoints: Path) -> GRPOConfig:
    """Return the trainer's arguments; what the config says wins over the defaults chosen here.

    Args:
        config: the run config.
        checkpoints: folder for checkpoints.

    Raises:
        ConfigError: a key that `GRPOConfig` does not have, a value of another type, or one that TRL refuses.
    """
    check_keys(config.grpo, GRPOConfig, "grpo")
    arguments = {
        **device_defaults(config.grpo),
        **TRAINER_DEFAULTS,
        **config.grpo,
        "output_dir": str(checkpoints),
        "seed": config.seed,
        "trust_remote_code": config.model.trust_remote_code,
        "reward_weights": [reward.weight for reward in config.rewards],
    }
    check_ranges(arguments, "grpo")
    if config.model.revision is not None:
        # The policy is passed as an instance; TRL reads this when it loads the reference model.
        arguments["model_init_kwargs"] = {"revision": config.model.revision}
    try:
        return GRPOConfig(**arguments)
    except (ValueError, TypeError) as error:
        raise ConfigError(f"TRL refuses the grpo section: {' '.join(str(error).split())}") from error


def lora_arguments(config: RunConfig) -> LoraConfig | None:
    """Return PEFT's config of the adapter, or None for full fine-tuning.

    Raises:
        ConfigError: a key that `LoraConfig` does not have, a value of another type, or one that PEFT refuses.
    """
    if config.lora is None:
        return None
    check_keys(config.lora, LoraConfig, "lora")
    try:
        return LoraConfig(**{"task_type": "CAUSAL_LM", **config.lora})
    except (ValueError, TypeError) as error:
        raise ConfigError(f"PEFT refuses the lora section: {' '.join(str(error).split())}") from error


def device_defaults(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments that depend on the device, for a trainer whose other arguments are `given`."""
    # TRL turns bf16 autocast on wherever it is not told otherwise; on a CPU that is slower and rounds for nothing.
    if given.get("use_cpu") or not torch.accelerator.is_available():
        return {"use_cpu": True, "bf16": False, "dataloader_pin_memory": False}
    precise = given.get("fp16") is True
    return {"bf16": not precise and torch.cuda.is_available() and torch.cuda.is_bf16_supported()}


def check_keys(given: Mapping[str, Any], target: type[Any], section: str) -> None:
    """Check that a class of arguments has these keys, and that the plain ones are of its types.

    Raises:
        ConfigError: naming the key, its value and what was expected.
    """
    hints = typing.get_type_hints(target)
    known = [field.name for field in dataclasses.fields(target) if field.init]
    for key, value in given.items():
        if key not in known:
            raise ConfigError(f"unknown key `{section}.{key}`: {target.__name__} has none{did_you_mean(key, known)}")
        if _is_plain(hints[key]):
            _check_type(hints[key], value, f"{section}.{key}")


def check_ranges(arguments: Mapping[str, Any], section: str) -> None:
    """Refuse what torch's optimizers would refuse only after the model is loaded.

    Raises:
        ConfigError: naming the key and what was expected.
    """
    for key in ("learning_rate", "weight_decay", "adam_epsilon"):
        if arguments.get(key, 0.0) < 0:
            raise ConfigError(f"`{section}.{key}` is {arguments[key]!r}, expected a number of at least 0")
    for key in ("adam_beta1", "adam_beta2"):
        if not 0 <= arguments.get(key, 0.0) < 1:
            raise ConfigError(
                f"`{section}.{key}` is {arguments[key]!r}, expected a number from 0 up to, not including, 1"
            )


def _is_plain(hint: Any) -> bool:
    if typing.get_origin(hint) in {Union, UnionType}:
        return all(_is_plain(part) for part in typing.get_args(hint))
    return (typing.get_origin(hint) or hint) in _PLAIN_TYPES


def _check_type(hint: Any, value: Any, path: str) -> None:
    try:
        TypeAdapter(hint, config=ConfigDict(strict=True, allow_inf_nan=False)).validate_python(value)
    except ValidationError as error:
        finite = "finite " if isinstance(value, float) and not math.isfinite(value) else ""
        expected = finite + " or ".join(_names(hint))
        raise ConfigError(f"`{path}` is {value!r} (a {type(value).__name__}), expected {expected}") from error


def _names(hint: Any) -> list[str]:
    if typing.get_origin(hint) in {Union, UnionType}:
        return [name for part in typing.get_args(hint) for name in _names(part)]
    return ["null" if hint is NoneType else getattr(hint, "__name__", str(hint))]
