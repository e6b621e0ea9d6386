"""Reads what `--lora FILE` takes: the JSON of a PEFT `LoraConfig`, or the advice of `recommend-lora` that holds one."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from grpodyn.errors import ConfigError

# PEFT writes these into adapter_config.json; they describe a saved adapter, not how to train the next one.
_OF_A_SAVED_ADAPTER = frozenset(
    {"peft_type", "auto_mapping", "base_model_name_or_path", "revision", "inference_mode", "peft_version"}
)


@dataclass(frozen=True)
class LoraFile:
    """An adapter to train."""

    lora: dict[str, Any]
    """The `lora` section of a run config; keys that were null are left out, so that PEFT's own defaults apply."""
    learning_rate: float | None
    """What the advice says to train it with; None if the file is a bare config."""


def read_lora(path: Path) -> LoraFile:
    """Return the adapter that a JSON file describes.

    Raises:
        ConfigError: the file cannot be read, is not JSON, or holds no LoRA config.
    """
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise ConfigError(f"there is no file {path}; `grpodyn recommend-lora RUN -o {path}` writes one") from error
    except (OSError, ValueError) as error:
        raise ConfigError(f"{path} is not readable JSON: {error}") from error
    rate = None
    if isinstance(content, dict) and "peft_config" in content:
        rate = _learning_rate(content)
        content = content["peft_config"]
    if not isinstance(content, dict) or "r" not in content:
        raise ConfigError(
            f"{path} holds no LoRA config: expected the keys of PEFT's LoraConfig (`r`, `target_modules` …)"
        )
    kind = content.get("peft_type", "LORA")
    if kind != "LORA":
        raise ConfigError(f"{path} has peft_type {kind!r}, expected 'LORA'; other adapters are not trained by `record`")
    kept = {key: value for key, value in content.items() if key not in _OF_A_SAVED_ADAPTER and value is not None}
    return LoraFile(kept, rate)


def _learning_rate(advice: dict[str, Any]) -> float | None:
    training = advice.get("training")
    rate = training.get("learning_rate") if isinstance(training, dict) else None
    return float(rate) if isinstance(rate, int | float) else None
