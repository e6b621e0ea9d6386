"""Tiny models of many architectures, built from their configs without weights."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from transformers import AutoModelForCausalLM, AutoModelForImageTextToText
from transformers.models.auto.configuration_auto import CONFIG_MAPPING

SIZES = {
    "vocab_size": 128,
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
}


def build_tiny(family: str, **changes: Any) -> nn.Module:
    """Build a family's causal model (or its multimodal one, if a vision part is configured); None drops a size."""
    torch.manual_seed(0)
    settings = {**SIZES, **changes}
    if "text_config" in changes:
        auto, settings = AutoModelForImageTextToText, {**changes, "text_config": {**SIZES, **changes["text_config"]}}
    else:
        auto, settings = AutoModelForCausalLM, {key: value for key, value in settings.items() if value is not None}
    with warnings.catch_warnings():
        # Advice about missing fast kernels and odd token ids.
        warnings.simplefilter("ignore")
        return auto.from_config(CONFIG_MAPPING[family](**settings))


@pytest.fixture(scope="session")
def tiny() -> Callable[..., nn.Module]:
    return build_tiny
