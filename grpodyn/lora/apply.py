"""Puts checked advice to use: PEFT's JSON, or a run config that `grpodyn record` takes."""

from __future__ import annotations

import copy
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from grpodyn.config import run as run_config
from grpodyn.config import yaml_text
from grpodyn.errors import ConfigError, UsageError
from grpodyn.lora.modules import ADAPTER_CONFIG
from grpodyn.trace import strict_json
from grpodyn.trace.manifest import Manifest
from grpodyn.trace.schema import MANIFEST

if TYPE_CHECKING:
    from grpodyn.lora.advice import Advice

# What the next run needs; PEFT fills in its own defaults, and keys it would save today could be unknown to it tomorrow.
_LORA_KEYS = (
    "r",
    "lora_alpha",
    "lora_dropout",
    "bias",
    "target_modules",
    "layers_to_transform",
    "target_parameters",
    "use_rslora",
    "use_dora",
    "rank_pattern",
)
_ONLY_IF_SET = frozenset({"layers_to_transform", "target_parameters", "use_rslora", "use_dora", "rank_pattern"})


@dataclass(frozen=True)
class Merged:
    """A run config with the advice in it, and what changed."""

    config: Mapping[str, Any]
    changes: tuple[str, ...]


def lora_section(peft_config: Mapping[str, Any]) -> dict[str, Any]:
    """Return the advice as the `lora` section of a run config."""
    return {key: peft_config[key] for key in _LORA_KEYS if peft_config.get(key) or key not in _ONLY_IF_SET}


def read_config(source: Path) -> dict[str, Any]:
    """Return the raw run config of a YAML file, or the one that a run directory's manifest holds.

    Raises:
        ConfigError: there is none.
    """
    if (source / MANIFEST).is_file():
        config = Manifest.read(source).config
        if config is None:
            raise ConfigError(f"{source} was recorded by a script of its own and holds no run config; give a YAML file")
        return dict(config)
    return yaml_text.read(source)


def merge(config: Mapping[str, Any], advice: Advice, source: str) -> Merged:
    """Return `config` with the advised adapter and learning rate, validated as a run config.

    Raises:
        ConfigError: the result does not validate.
    """
    merged = copy.deepcopy(dict(config))
    before = merged.get("lora") or {}
    merged["lora"] = lora_section(advice.peft_config)
    changes = [f"lora: rank {merged['lora']['r']}, alpha {merged['lora']['lora_alpha']}, {len(advice.modules)} modules"]
    dropped = sorted(set(before) - set(merged["lora"]))
    if dropped:
        changes.append(f"lora: {', '.join(dropped)} taken out (was: {', '.join(f'{k}={before[k]}' for k in dropped)})")
    grpo = dict(merged.get("grpo") or {})
    rate = advice.training.learning_rate
    if rate is not None:
        old = grpo.get("learning_rate")
        grpo["learning_rate"] = rate
        changes.append(f"grpo.learning_rate: {old} → {rate:g} ({advice.training.basis})")
        merged["grpo"] = grpo
    run_config.from_dict(merged, source)
    return Merged(merged, tuple(changes))


def write_run_config(path: Path, merged: Merged, advice: Advice, overwrite: bool = False) -> None:
    """Write a run config, with its origin as a comment.

    Raises:
        UsageError: the file exists.
    """
    header = f"# Written by `grpodyn recommend-lora` from run {advice.movement.run_id}.\n# {advice.verdict}\n"
    _write(path, header + yaml_text.dump(merged.config), overwrite)


def write_peft_config(path: Path, advice: Advice, overwrite: bool = False) -> Path:
    """Write the config as PEFT saves it; into an existing folder under the name that `from_pretrained` looks for.

    Raises:
        UsageError: the file exists.
    """
    target = path / ADAPTER_CONFIG if path.is_dir() else path
    _write(target, json.dumps(advice.peft_config, indent=2, sort_keys=True) + "\n", overwrite)
    return target


def _write(path: Path, text: str, overwrite: bool) -> None:
    if path.exists() and not overwrite:
        raise UsageError(f"{path} exists; give another -o, or --overwrite")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        strict_json.replace_file(path, text.encode())
    except OSError as error:
        raise ConfigError(f"{path} cannot be written: {error.strerror or error}") from error
