"""What the manifest says about a run: the model, the trainer, the data and the machine."""

from __future__ import annotations

import importlib.metadata
import platform
import subprocess
import sys
from typing import Any

import torch
from torch import nn

from grpodyn.naming.shards import full_sizes
from grpodyn.recording.rollouts import TESTED_TRL, reward_names

_PACKAGES = (
    "grpodyn",
    "torch",
    "transformers",
    "trl",
    "peft",
    "accelerate",
    "datasets",
    "safetensors",
    "numpy",
    "zarr",
)
_SECRET = ("token", "key", "password", "secret")

Facts = dict[str, Any]


def about_model(model: nn.Module) -> Facts:
    """Return name, revision, class and config of the model under all wrappers."""
    config: Any = getattr(model, "config", None)
    sizes = list(full_sizes(model))
    base: Any = model.get_base_model() if hasattr(model, "get_base_model") else model  # type: ignore[operator]
    return {
        "name": getattr(config, "_name_or_path", None) or None,
        "revision": getattr(config, "_commit_hash", None),
        "class": f"{type(base).__module__}.{type(base).__qualname__}",
        "config": config.to_dict() if hasattr(config, "to_dict") else None,
        "parameters": sum(size for _, size in sizes),
        "trainable_parameters": sum(size for parameter, size in sizes if parameter.requires_grad),
    }


def about_lora(model: nn.Module) -> Facts | None:
    """Return the PEFT config of the active adapter, or None for a model without adapters."""
    configs: Any = getattr(model, "peft_config", None)
    if not configs:
        return None
    active = getattr(model, "active_adapter", "default")
    name = active if isinstance(active, str) and active in configs else next(iter(configs))
    return {**configs[name].to_dict(), "adapter_name": name}


def about_trainer(trainer: Any, args: Any) -> Facts:
    """Return the trainer's class and its arguments, without tokens and keys; None and {} for a loop of one's own."""
    arguments = (
        {}
        if args is None
        else {
            name: value
            for name, value in args.to_dict().items()
            if not any(word in name.lower() for word in _SECRET) or value is None
        }
    )
    return {
        "class": None if trainer is None else f"{type(trainer).__module__}.{type(trainer).__qualname__}",
        "arguments": arguments,
        "trl_tested": list(TESTED_TRL),
    }


def about_rewards(trainer: Any) -> list[Facts]:
    """Return the name and weight of each reward function."""
    if not isinstance(getattr(trainer, "reward_funcs", None), list):
        return []
    weights = getattr(trainer, "reward_weights", None)
    names = reward_names(trainer)
    values = weights.tolist() if weights is not None else [1.0] * len(names)
    return [{"name": name, "weight": weight} for name, weight in zip(names, values, strict=True)]


def about_dataset(trainer: Any) -> Facts:
    """Return name, split, fingerprint and size of the training data, as far as it knows them."""
    dataset: Any = getattr(trainer, "train_dataset", None)
    info = getattr(dataset, "info", None)
    known = {
        "name": getattr(info, "dataset_name", None),
        "split": str(split) if (split := getattr(dataset, "split", None)) is not None else None,
        "fingerprint": getattr(dataset, "_fingerprint", None),
        "rows": len(dataset) if hasattr(dataset, "__len__") else None,
        "columns": getattr(dataset, "column_names", None),
    }
    # What the data does not know may be known to whoever started the recorder: unknown must not hide it.
    return {key: value for key, value in known.items() if value is not None}


def about_world(sharded: bool) -> Facts:
    """Return how many ranks there are, how they talk, and whether parameters are split among them."""
    distributed = torch.distributed.is_available() and torch.distributed.is_initialized()
    return {
        "ranks": torch.distributed.get_world_size() if distributed else 1,
        "backend": torch.distributed.get_backend() if distributed else None,
        "sharding": "sharded" if sharded else "replicated",
    }


def about_environment(device: torch.device) -> Facts:
    """Return versions, Python, the device and the script's commit."""
    return {
        "versions": {name: version for name in _PACKAGES if (version := _version(name)) is not None},
        "python": platform.python_version(),
        "platform": platform.platform(),
        "device": torch.cuda.get_device_name(device) if device.type == "cuda" else device.type,
        "threads": torch.get_num_threads(),
        "git_commit": _git_commit(),
        "script": sys.argv[0],
    }


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def _git_commit() -> str | None:
    try:
        command = ["git", "rev-parse", "HEAD"]
        answer = subprocess.run(command, capture_output=True, text=True, timeout=5, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return answer.stdout.strip() if answer.returncode == 0 else None
