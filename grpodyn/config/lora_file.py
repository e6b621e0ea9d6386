"""Reads what `--lora FILE` takes: the JSON of a PEFT `LoraConfig`, or the advice of `recommend-lora` that holds one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from grpodyn.errors import ConfigError

# PEFT writes these into adapter_config.json; they describe a saved adapter, not how to train the next one.
_OF_A_SAVED_ADAPTER = frozenset(
    {"peft_type", "auto_mapping", "base_model_name_or_path", "revision", "inference_mode", "peft_version"}
)


def read_lora(path: Path) -> dict[str, Any]:
    """Return the `lora` section of a run config from a JSON file.

    Keys that are null are left out, so that the defaults of the PEFT that trains apply.

    Raises:
        ConfigError: the file cannot be read, is not JSON, or holds no LoRA config.
    """
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise ConfigError(f"there is no file {path}; `grpodyn recommend-lora RUN -o {path}` writes one") from error
    except (OSError, ValueError) as error:
        raise ConfigError(f"{path} is not readable JSON: {error}") from error
    if isinstance(content, dict) and "peft_config" in content:
        content = content["peft_config"]
    if not isinstance(content, dict) or "r" not in content:
        raise ConfigError(
            f"{path} holds no LoRA config: expected the keys of PEFT's LoraConfig (`r`, `target_modules` …)"
        )
    kind = content.get("peft_type", "LORA")
    if kind != "LORA":
        raise ConfigError(f"{path} has peft_type {kind!r}, expected 'LORA'; other adapters are not trained by `record`")
    return {key: value for key, value in content.items() if key not in _OF_A_SAVED_ADAPTER and value is not None}
