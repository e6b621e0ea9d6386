"""Loads the model and the tokenizer that a run config names, with errors that say what was looked for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer

from grpodyn.config.run import ModelConfig
from grpodyn.embedded.bases import BASES
from grpodyn.embedded.cache import model_dir
from grpodyn.errors import ConfigError


def model_location(model: ModelConfig) -> str:
    """Return what `from_pretrained` is given: a folder that holds a model, or a hub name.

    A base model of this package that is not shipped with it is built on first use.

    Raises:
        ConfigError: the path can only be a folder, and there is no model in it.
    """
    if model.path in BASES:
        return str(model_dir(model.path))
    folder = Path(model.path).expanduser()
    if folder.is_dir():
        if not (folder / "config.json").is_file():
            raise ConfigError(f"model.path {model.path!r} is a folder without a config.json, so it holds no model")
        return str(folder)
    # A hub name is `name` or `owner/name`; anything else can only have been meant as a folder.
    if folder.is_absolute() or model.path.startswith((".", "~")) or model.path.count("/") > 1:
        raise ConfigError(
            f"model.path {model.path!r} is no folder; give a folder that holds a model, a hub name (owner/name), or "
            f"a base model of grpodyn ({', '.join(BASES)})"
        )
    return model.path


def load_architecture(model: ModelConfig) -> Any:
    """Return the model's `PretrainedConfig`.

    Raises:
        ConfigError: it cannot be found or loaded.
    """
    return _load(AutoConfig.from_pretrained, model, {})


def load_model(model: ModelConfig) -> Any:
    """Return the model in the dtype asked for, on the CPU; the trainer moves it.

    Raises:
        ConfigError: it cannot be found or loaded.
    """
    arguments: dict[str, Any] = {"dtype": model.dtype}
    if model.attn_implementation is not None:
        arguments["attn_implementation"] = model.attn_implementation
    return _load(AutoModelForCausalLM.from_pretrained, model, arguments)


def load_tokenizer(model: ModelConfig) -> Any:
    """Return the tokenizer, padding on the left as generation needs; without a pad token, EOS pads.

    Raises:
        ConfigError: it cannot be found or loaded.
    """
    tokenizer = _load(AutoTokenizer.from_pretrained, model, {"padding_side": "left", "truncation_side": "left"})
    if tokenizer.pad_token_id is None:
        tokenizer.pad_token = tokenizer.eos_token
    return tokenizer


def _load(loader: Any, model: ModelConfig, arguments: dict[str, Any]) -> Any:
    location = model_location(model)
    try:
        return loader(
            location, revision=model.revision or "main", trust_remote_code=model.trust_remote_code, **arguments
        )
    # transformers raises OSError for what is missing and ValueError or ImportError for what it cannot build.
    except (OSError, ValueError, ImportError) as error:
        reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise ConfigError(f"the model {model.path!r} cannot be loaded: {reason}") from error
